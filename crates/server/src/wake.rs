//! Tasks of a server thread that other threads wake.
//!
//! A component that does something for a task on another thread, or keeps it waiting, is handed a
//! [`TaskWaker`]. It knows neither the thread nor what the task is for.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::net::Alarm;

/// Tasks of one thread that are to be run, and the alarm that the thread hears.
#[derive(Debug)]
pub(crate) struct Wakes {
    tasks: Mutex<Vec<u32>>,
    alarm: Arc<Alarm>,
}

impl Wakes {
    /// With no task yet.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { tasks: Mutex::default(), alarm: Alarm::new()? }))
    }

    /// What the thread hears while it waits for its sockets.
    pub(crate) fn alarm(&self) -> &Arc<Alarm> {
        &self.alarm
    }

    /// The tasks that were woken since this was last asked.
    pub(crate) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What wakes `task` of this thread.
    pub(crate) fn waker(self: &Arc<Self>, task: u32) -> TaskWaker {
        TaskWaker { wakes: Arc::clone(self), task }
    }
}

/// Wakes one task of one thread, from any thread. Waking for nothing does no harm.
#[derive(Clone, Debug)]
pub(crate) struct TaskWaker {
    wakes: Arc<Wakes>,
    task: u32,
}

impl TaskWaker {
    /// Lets the task look again at what it waits for.
    pub(crate) fn wake(&self) {
        self.wakes.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(self.task);
        self.wakes.alarm.ring();
    }
}
