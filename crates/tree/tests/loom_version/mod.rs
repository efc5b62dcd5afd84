//! The model: [`scene`] runs threads under every schedule, [`swap`] stands for `ArcSwap`, [`log`] and [`database`] take production's steps.

pub(crate) mod scene;
pub(crate) mod swap;
pub(crate) mod log;
pub(crate) mod database;
