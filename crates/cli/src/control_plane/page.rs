//! The queue, the workers and their leases, for a look by HTTP.

use firn_job_service::ControlPlaneWatch;
use firn_server::http::Answer;

use crate::{build_info, jobs};

const BODY: &str = include_str!("page.html");
const SCRIPT: &str = include_str!("page.js");

/// What there is besides numbers and health.
pub(crate) const PATHS: &str = "/, /jobs, ";

/// Jobs of each state that are told, at most.
const JOBS_MAX: usize = 200;

/// The answer for `path`, if that is one of [`PATHS`]. `/jobs` is what `firn jobs list --json`
/// prints.
pub(crate) fn answer(watch: &ControlPlaneWatch, path: &str) -> Option<Answer> {
    match path {
        "/" => Some(Answer::page("Firn control plane", BODY, SCRIPT)),
        "/jobs" => {
            let mut shown = jobs::listed(&watch.list(JOBS_MAX));
            shown["build"] = build_info::name().into();
            Some(Answer::json(shown.to_string() + "\n"))
        }
        _ => None,
    }
}
