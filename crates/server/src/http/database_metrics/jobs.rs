//! Background jobs as metrics: where they ran, what their stages took, what waits.

use std::fmt::Display;

use firn_engine::{JobKindStats, JobStats};

use super::super::exposition::Exposition;
use super::super::exposition::Kind::{Counter, Gauge, Histogram};

type Label<'s> = (&'static str, &'s dyn Display);

/// docs/operate/monitoring.md names these.
pub(super) fn text(jobs: &JobStats, text: &mut Exposition) {
    type Figures = fn(&JobKindStats) -> [u64; 2];
    let families: [(&str, &str, Figures); 2] = [
        ("firn_engine_jobs_total", "Jobs that came off, by where they ran.", |kind| {
            [kind.elsewhere_count, kind.here_count]
        }),
        ("firn_engine_job_read_bytes_total", "Bytes of their inputs.", |kind| {
            [kind.elsewhere_bytes, kind.here_bytes]
        }),
    ];
    for (name, help, figures) in families {
        text.family(name, Counter, help);
        for kind in &jobs.kinds {
            for (place, value) in ["elsewhere", "here"].into_iter().zip(figures(kind)) {
                text.sample(name, &[("kind", &kind.kind), ("place", &place)], value);
            }
        }
    }
    let name = "firn_engine_job_stage_seconds";
    let help = "How long stages of jobs done elsewhere took, and jobs done here; commits of both.";
    text.family(name, Histogram, help);
    for stage in &jobs.stages {
        let (kind, stage_name): (Label<'_>, Label<'_>) = (("kind", &stage.kind), ("stage", &stage.stage));
        let bucket = format!("{name}_bucket");
        for (us, count) in &stage.within_us {
            text.sample(&bucket, &[kind, stage_name, ("le", &(*us as f64 / 1e6))], count);
        }
        text.sample(&bucket, &[kind, stage_name, ("le", &"+Inf")], stage.count);
        text.sample(&format!("{name}_sum"), &[kind, stage_name], stage.us_total as f64 / 1e6);
        text.sample(&format!("{name}_count"), &[kind, stage_name], stage.count);
    }
    text.single(
        "firn_engine_jobs_held",
        Gauge,
        "Jobs of deep work that wait for workers or their turn.",
        jobs.held_count,
    );
    text.single("firn_engine_jobs_held_bytes", Gauge, "Bytes of their inputs.", jobs.held_bytes);
    let help = "Jobs done by workers that were done here too, to compare.";
    text.single("firn_engine_jobs_reexecuted_total", Counter, help, jobs.reexecuted_count);
    let help = "Those of them of which something else came here.";
    text.single("firn_engine_jobs_differed_total", Counter, help, jobs.differed_count);
    let help = "Jobs that waited for workers and were done on idle processors here.";
    text.single("firn_engine_jobs_idle_total", Counter, help, jobs.idle_count);
    let help = "Jobs begun so that took too long, and were given to workers again.";
    text.single("firn_engine_jobs_idle_late_total", Counter, help, jobs.late_count);
    let name = "firn_engine_job_passed_on_causes_total";
    text.family(name, Counter, "Jobs done here that workers were to do, by why.");
    for (cause, count) in &jobs.passed_on {
        text.sample(name, &[("cause", cause)], count);
    }
    let is_away = u8::from(jobs.is_executor_away);
    let help = "1 while workers are asked for no more than to find out whether they are back; INFO says why.";
    text.single("firn_engine_executor_away", Gauge, help, is_away);
}
