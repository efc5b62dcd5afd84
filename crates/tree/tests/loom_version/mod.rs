//! The model: [`swap`] stands for `ArcSwap`, [`log`] and [`database`] take production's steps.

pub(crate) mod swap;
pub(crate) mod log;
pub(crate) mod database;
