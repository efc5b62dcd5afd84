//! The model: [`scene`] runs threads under many schedules, whose steps [`sync`] makes. [`swap`]
//! stands for `ArcSwap`, [`values`] takes production's steps.

pub(crate) mod sync;
pub(crate) mod scene;
pub(crate) mod swap;
pub(crate) mod blobs;
