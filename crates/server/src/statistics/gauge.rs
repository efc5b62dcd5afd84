//! Current values of each server thread, which are read without asking it.

use super::Count;

/// A current value. Each server thread sets its own when it changes, or each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Gauge {
    /// Memory of interpreters of scripts, as it was when scripts began or ended.
    InterpreterBytes,
    /// Memory of connections: input, output, what they queue since MULTI.
    ClientBytes,
    /// Room of the largest input and output of a connection, of the last seconds.
    InputBytesMax,
    OutputBytesMax,
}

const GAUGE_COUNT: usize = Gauge::OutputBytesMax as usize + 1;

/// One server thread's.
#[derive(Debug, Default)]
pub(super) struct Gauges([Count; GAUGE_COUNT]);

impl Gauges {
    pub(super) fn set(&self, gauge: Gauge, value: u64) {
        self.0[gauge as usize].set(value);
    }

    pub(super) fn get(&self, gauge: Gauge) -> u64 {
        self.0[gauge as usize].get()
    }
}
