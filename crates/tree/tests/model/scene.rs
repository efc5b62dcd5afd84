//! Threads on one model: under every schedule by loom, under many drawn ones by shuttle.

use std::sync::Arc;

use super::sync::thread;

/// What is done to a model of a database.
pub(crate) struct Scene<D: 'static> {
    /// Alone, at the beginning.
    pub(crate) first: fn(&D),
    /// Each on a thread of its own.
    pub(crate) beside: &'static [fn(&D)],
    /// Meanwhile.
    pub(crate) reader: fn(&D),
    /// Alone, at the end.
    pub(crate) last: fn(&D),
}

impl<D: Send + Sync + 'static> Scene<D> {
    fn play(&self, model: &Arc<D>) {
        (self.first)(model);
        let threads = self.beside.iter().map(|work| {
            let model = Arc::clone(model);
            thread::spawn(move || work(&model))
        });
        let threads: Vec<_> = threads.collect();
        (self.reader)(model);
        threads.into_iter().for_each(|thread| thread.join().expect("who fails has said so"));
        (self.last)(model);
    }

    /// Runs it under every schedule of a model that `make` makes. Where there is no mistake, it
    /// tries as many preemptions as loom is told to. Else, and by default, it tries two, which are
    /// enough to find out each mistake.
    #[cfg(loom)]
    pub(crate) fn run(self, is_mistaken: bool, make: impl Fn() -> D + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.filter(|_| !is_mistaken).or(Some(2));
        builder.max_branches = 10_000;
        builder.check(move || self.play(&Arc::new(make())));
    }

    /// Runs it under `schedules` that `scheduler` draws, of a model that `make` makes, or until it
    /// fails.
    #[cfg(not(loom))]
    pub(crate) fn run(
        self,
        scheduler: impl shuttle::scheduler::Scheduler + 'static,
        make: impl Fn() -> D + Send + Sync + 'static,
    ) {
        let mut config = shuttle::Config::new();
        config.stack_size = STACK_BYTES;
        // Orders of memory are loom's.
        config.silence_warnings = true;
        shuttle::Runner::new(scheduler, config).run(move || self.play(&Arc::new(make())));
    }
}

/// Of each thread of the model: a panic's message is made on it.
#[cfg(not(loom))]
const STACK_BYTES: usize = 1 << 18;
