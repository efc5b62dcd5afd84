//! Futures of one thread, run when they are woken by name.
//!
//! A task waits for one thing at a time and looks for it itself when it is run. The code that
//! brings that thing calls [`Tasks::wake`]. Running a task for nothing does no harm. So there are
//! no wakers.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What is run until it is over.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The tasks of a server thread, by the number of their connection.
#[derive(Default)]
pub(crate) struct Tasks {
    tasks: RefCell<Vec<Option<Task>>>,
    ready: RefCell<VecDeque<u32>>,
    current: Cell<u32>,
    /// When which task is run although nothing came for it; milliseconds of the clock that never
    /// goes back.
    timers: RefCell<BTreeSet<(u64, u32)>>,
}

impl Tasks {
    /// Takes in `task` under the free number `id`; it runs with the next
    /// [`run_ready`](Self::run_ready).
    pub(crate) fn add(&self, id: u32, task: Task) {
        let mut tasks = self.tasks.borrow_mut();
        let index = id as usize;
        if tasks.len() <= index {
            tasks.resize_with(index + 1, || None);
        }
        tasks[index] = Some(task);
        self.wake(id);
    }

    /// Lets the task look again at what it waits for.
    pub(crate) fn wake(&self, id: u32) {
        self.ready.borrow_mut().push_back(id);
    }

    /// Whether a task is to be run.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    /// The number of the task that runs.
    pub(crate) fn current(&self) -> u32 {
        self.current.get()
    }

    /// The task that runs is run again at `due_ms`, whatever comes. Answers what takes that back.
    pub(crate) fn set_timer(&self, due_ms: u64) -> (u64, u32) {
        let timer = (due_ms, self.current());
        self.timers.borrow_mut().insert(timer);
        timer
    }

    /// Takes a timer back, which may have run out.
    pub(crate) fn clear_timer(&self, timer: (u64, u32)) {
        self.timers.borrow_mut().remove(&timer);
    }

    /// Wakes the tasks whose time has come; asks for the time only where there are timers.
    pub(crate) fn run_timers(&self, now_ms: impl FnOnce() -> u64) {
        let mut timers = self.timers.borrow_mut();
        if timers.is_empty() {
            return;
        }
        let now_ms = now_ms();
        while let Some((_, task)) = timers.first().copied().filter(|(due_ms, _)| *due_ms <= now_ms) {
            timers.pop_first();
            self.wake(task);
        }
    }

    /// How long until the next task's time comes.
    pub(crate) fn next_timer(&self, now_ms: impl FnOnce() -> u64) -> Option<Duration> {
        let (due_ms, _) = *self.timers.borrow().first()?;
        Some(Duration::from_millis(due_ms.saturating_sub(now_ms())))
    }

    /// Drops every task where it stands.
    pub(crate) fn clear(&self) {
        // Out of the cell first: what a task holds may look at the tasks when it is dropped.
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
        self.ready.borrow_mut().clear();
    }

    /// Runs every task that was woken so far, and tells `ended` which are over.
    pub(crate) fn run_ready(&self, mut ended: impl FnMut(u32)) {
        let count = self.ready.borrow().len();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..count {
            let Some(id) = self.ready.borrow_mut().pop_front() else { return };
            // Taken out, so that what runs may add tasks.
            let task = self.tasks.borrow_mut().get_mut(id as usize).and_then(Option::take);
            let Some(mut task) = task else { continue };
            self.current.set(id);
            match task.as_mut().poll(&mut context) {
                Poll::Pending => self.tasks.borrow_mut()[id as usize] = Some(task),
                Poll::Ready(()) => ended(id),
            }
        }
    }
}
