//! How much of everything.

use std::time::Duration;

use clap::ValueEnum;

/// How much is written, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CaasScale {
    /// Seconds a part: to see that everything works. Its figures mean nothing.
    Tiny,
    /// Below ten minutes on two processors.
    Small,
    /// About an hour.
    Medium,
    /// CaaS-LSM's own: 64 M records of 16 and 100 bytes by 16 threads. Hours.
    Full,
}

/// The figures of a scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Puts of fillrandom, all threads together: keys of 16 bytes, values of 100, as CaaS-LSM's
    /// README has it.
    pub(super) puts: u64,
    pub(super) put_threads: usize,
    /// Records of YCSB, of 1 KiB, and operations of each workload.
    pub(super) records: u64,
    pub(super) operations: u64,
    /// Which of YCSB's workloads run where workers are near, in this order.
    pub(super) mixes: &'static str,
    /// Puts of fillrandom and then of overwrite by one thread, values of 400 bytes.
    pub(super) overwrites: u64,
    /// Memory of a database.
    pub(super) memory: &'static str,
    /// Times that each run is repeated, interleaved.
    pub(super) repetitions: u32,
    /// Databases that share two workers.
    pub(super) databases: u32,
    /// Records loaded over the link between zones, and seconds of the workload after it.
    pub(super) far_records: u64,
    pub(super) far_seconds: u32,
    /// Simulated seconds of the fleet.
    pub(super) simulated_seconds: u32,
    /// How long it is watched what is asked while nothing is to do.
    pub(super) idle: Duration,
    /// After this a run has failed.
    pub(super) run_max: Duration,
}

/// One way over the link between zones: 10 ms there and back, as between distant regions of one
/// continent.
pub(super) const ZONE_DELAY: Duration = Duration::from_millis(5);

impl CaasScale {
    pub(super) fn plan(self) -> Plan {
        match self {
            Self::Tiny => Plan {
                puts: 200_000,
                put_threads: 2,
                records: 20_000,
                operations: 20_000,
                mixes: "load,a,b,f",
                overwrites: 100_000,
                memory: "16M",
                repetitions: 1,
                databases: 2,
                far_records: 60_000,
                far_seconds: 1,
                simulated_seconds: 60,
                idle: Duration::from_secs(3),
                run_max: Duration::from_secs(120),
            },
            Self::Small => Plan {
                puts: 4_000_000,
                put_threads: 4,
                records: 250_000,
                operations: 500_000,
                mixes: "load,a,b,f",
                overwrites: 1_200_000,
                memory: "64M",
                repetitions: 3,
                databases: 3,
                far_records: 100_000,
                far_seconds: 5,
                simulated_seconds: 600,
                idle: Duration::from_secs(10),
                run_max: Duration::from_secs(120),
            },
            Self::Medium => Plan {
                puts: 8_000_000,
                put_threads: 8,
                records: 500_000,
                operations: 1_000_000,
                mixes: "load,a,b,c,f,d,e",
                overwrites: 4_000_000,
                memory: "128M",
                repetitions: 3,
                databases: 6,
                far_records: 500_000,
                far_seconds: 30,
                simulated_seconds: 1_200,
                idle: Duration::from_secs(60),
                run_max: Duration::from_secs(900),
            },
            Self::Full => Plan {
                puts: 64_000_000,
                put_threads: 16,
                records: 10_000_000,
                operations: 10_000_000,
                mixes: "load,a,b,c,f,d,e",
                overwrites: 16_000_000,
                memory: "512M",
                repetitions: 3,
                databases: 16,
                far_records: 2_000_000,
                far_seconds: 120,
                simulated_seconds: 1_200,
                idle: Duration::from_secs(120),
                run_max: Duration::from_secs(7_200),
            },
        }
    }
}
