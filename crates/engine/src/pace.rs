//! How fast writers may go while background work is behind. For engines to embed.

mod due;
mod forecast;
mod room;
mod space;

pub use forecast::{Pace, Sample, StallForecast};
pub use room::Admission;
pub use space::{Brought, Pressure, SpacePace};
