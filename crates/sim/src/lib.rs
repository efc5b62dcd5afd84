//! Models, scripts and crashes: how Firn is proved.

#![forbid(unsafe_code)]

pub mod model;
pub mod reference;
pub mod world;
pub mod ops;
pub mod text;
pub mod generate;
pub mod runner;
pub mod shrink;
pub mod metamorphic;
pub mod crash;
pub mod corpus;
