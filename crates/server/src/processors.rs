//! Which processor a server thread stays on.
//!
//! Where there are as many server threads as processors, each gets one. What it has in its caches
//! stays there, and the system never puts two of them on one processor while another is idle. Fewer
//! server threads stay free, so that servers that share a machine do not all sit on its first
//! processors.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors of this process, one for each server thread or all for every one.
#[derive(Debug)]
pub(crate) struct Processors {
    /// Processors that the process may run on; `None` if the system does not say.
    all: Option<CpuSet>,
    /// By server thread; empty if server threads are not pinned.
    each: Vec<CpuSet>,
}

impl Processors {
    /// The processors that the calling thread may run on, shared out among `threads` if that is
    /// `wanted` and there are as many.
    pub(crate) fn share_out(threads: usize, wanted: bool) -> Self {
        let all = sched_getaffinity(None).ok();
        let of_thread = |processor| {
            let mut set = CpuSet::new();
            set.set(processor);
            set
        };
        let each = match &all {
            Some(all) if wanted && threads > 1 && all.count() as usize == threads => {
                (0..CpuSet::MAX_CPU).filter(|processor| all.is_set(*processor)).map(of_thread).collect()
            }
            _ => Vec::new(),
        };
        Self { all, each }
    }

    /// Whether each server thread stays on a processor of its own.
    pub(crate) fn are_pinned(&self) -> bool {
        !self.each.is_empty()
    }

    /// Puts the calling thread, server thread `index`, where it stays.
    ///
    /// # Errors
    /// What the system says that does not allow it; the thread runs anywhere then.
    pub(crate) fn pin(&self, index: usize) -> io::Result<()> {
        self.each.get(index).map_or(Ok(()), |own| sched_setaffinity(None, own).map_err(io::Error::from))
    }

    /// Lets the calling thread, which a server thread has started, run anywhere.
    pub(crate) fn unpin(&self) {
        if let (Some(all), true) = (&self.all, self.are_pinned()) {
            // Where that fails it shares a server thread's processor: slower, nothing else.
            let _freed = sched_setaffinity(None, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    #[test]
    fn each_thread_has_its_own_processor_and_what_it_starts_has_all() {
        let all = here();
        let threads = all.count() as usize;
        let processors = Processors::share_out(threads, true);
        assert_eq!(processors.are_pinned(), threads > 1);
        let mut taken = CpuSet::new();
        for index in 0..threads {
            let found = std::thread::scope(|scope| {
                let pinned = scope.spawn(|| {
                    processors.pin(index).unwrap();
                    let own = here();
                    processors.unpin();
                    (own, here())
                });
                pinned.join().unwrap()
            });
            assert_eq!(found.1, all);
            if threads > 1 {
                assert_eq!(found.0.count(), 1, "server thread {index}");
                (0..CpuSet::MAX_CPU).filter(|it| found.0.is_set(*it)).for_each(|it| taken.set(it));
            }
        }
        assert!(threads == 1 || taken == all);
    }

    #[test]
    fn fewer_threads_stay_free_and_so_do_those_who_are_not_to_be_pinned() {
        let threads = here().count() as usize;
        for processors in [
            Processors::share_out(threads - 1, true),
            Processors::share_out(threads + 1, true),
            Processors::share_out(threads, false),
        ] {
            assert!(!processors.are_pinned());
            processors.pin(0).unwrap();
            assert_eq!(here().count() as usize, threads);
        }
    }
}
