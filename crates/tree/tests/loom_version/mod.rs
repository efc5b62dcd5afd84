//! The model: [`scene`] runs threads under every schedule, [`swap`] stands for `ArcSwap`, [`log`]
//! and [`database`] take production's steps.

#[path = "../model/sync.rs"]
pub(crate) mod sync;
#[path = "../model/scene.rs"]
pub(crate) mod scene;
#[path = "../model/swap.rs"]
pub(crate) mod swap;
pub(crate) mod log;
pub(crate) mod database;
