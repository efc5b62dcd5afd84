//! What is measured beside the operations themselves: time, processor, memory, bytes.

mod clock;
mod latency;
mod machine;
mod process;

pub use clock::{now, sleep, sleep_until, wall_clock_text};
pub use latency::{Latencies, Percentiles};
pub use machine::Machine;
pub use process::{
    CpuUse, IoBytes, ProcessCpu, anonymous_bytes, descriptor_count, peak_memory_bytes, reset_peak_memory,
};
