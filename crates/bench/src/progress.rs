//! Live progress: a bar on a terminal, a line every two seconds elsewhere, YCSB-cpp's status lines
//! on request.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::driver::{Phase, Sample, Watcher};
use crate::measure::wall_clock_text;
use crate::report::{figure, status_line};

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// How often YCSB-cpp prints its status.
const STATUS_EVERY: Duration = Duration::from_secs(10);

/// The watcher that fits where standard error goes; `ycsb_output` asks for YCSB-cpp's lines on
/// standard output.
pub fn watcher(ycsb_output: bool) -> Box<dyn Watcher> {
    if ycsb_output {
        Box::new(StatusLines { next: STATUS_EVERY })
    } else if std::io::stderr().is_terminal() {
        Box::new(Bar::default())
    } else {
        Box::new(Lines { name: String::new(), next: LINE_EVERY, last: (Duration::ZERO, 0), operations: 0 })
    }
}

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Watcher for Silent {
    fn phase_begins(&mut self, _phase: &Phase) {}
    fn sample(&mut self, _sample: &Sample) {}
    fn drain_begins(&mut self) {}
    fn phase_ends(&mut self) {}
}

/// A bar with rate and time left.
#[derive(Default)]
struct Bar {
    bar: Option<ProgressBar>,
    time: Option<Duration>,
    last: (Duration, u64),
}

impl Watcher for Bar {
    fn phase_begins(&mut self, phase: &Phase) {
        self.time = phase.time;
        self.last = (Duration::ZERO, 0);
        let length = phase.time.map_or(phase.operations, |time| time.as_millis() as u64);
        let bar = ProgressBar::new(length.max(1));
        if let Ok(style) = ProgressStyle::with_template("{prefix:>16} [{bar:32}] {percent:>3}% {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(phase.name.clone());
        self.bar = Some(bar);
    }

    fn sample(&mut self, sample: &Sample) {
        let Some(bar) = &self.bar else { return };
        let done = sample.operations();
        bar.set_position(self.time.map_or(done, |_| sample.elapsed.as_millis() as u64));
        let span = sample.elapsed.saturating_sub(self.last.0);
        if span >= Duration::from_millis(500) {
            let rate = (done - self.last.1) as f64 / span.as_secs_f64();
            bar.set_message(format!("{} kops/s, max {} ms", figure(rate / 1e3), figure(max_ms(sample))));
            self.last = (sample.elapsed, done);
        }
    }

    fn drain_begins(&mut self) {
        if let Some(bar) = &self.bar {
            bar.set_message("draining");
            bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    fn phase_ends(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// A line every two seconds.
struct Lines {
    name: String,
    next: Duration,
    last: (Duration, u64),
    operations: u64,
}

impl Watcher for Lines {
    fn phase_begins(&mut self, phase: &Phase) {
        self.name.clone_from(&phase.name);
        (self.next, self.last, self.operations) = (LINE_EVERY, (Duration::ZERO, 0), phase.operations);
    }

    fn sample(&mut self, sample: &Sample) {
        if sample.elapsed < self.next {
            return;
        }
        let done = sample.operations();
        let rate = (done - self.last.1) as f64 / sample.elapsed.saturating_sub(self.last.0).as_secs_f64();
        let part = match self.operations {
            0 => String::new(),
            all => format!(" ({} %)", done * 100 / all),
        };
        eprintln!(
            "{}: {} s, {done} operations{part}, {} kops/s, max {} ms",
            self.name,
            sample.elapsed.as_secs(),
            figure(rate / 1e3),
            figure(max_ms(sample)),
        );
        (self.next, self.last) = (sample.elapsed + LINE_EVERY, (sample.elapsed, done));
    }

    fn drain_begins(&mut self) {}

    fn phase_ends(&mut self) {}
}

/// YCSB-cpp's status lines, on standard output.
struct StatusLines {
    next: Duration,
}

impl Watcher for StatusLines {
    fn phase_begins(&mut self, _phase: &Phase) {
        self.next = STATUS_EVERY;
    }

    fn sample(&mut self, sample: &Sample) {
        if sample.elapsed >= self.next {
            println!("{} {}", wall_clock_text(), status_line(sample));
            let _ = std::io::stdout().flush();
            self.next += STATUS_EVERY;
        }
    }

    fn drain_begins(&mut self) {}

    fn phase_ends(&mut self) {}
}

/// Longest latency of the interval, in milliseconds.
fn max_ms(sample: &Sample) -> f64 {
    sample.interval_max_ns as f64 / 1e6
}
