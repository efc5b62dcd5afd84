//! `firn jobs`: what a control plane knows.

mod words; // how people call what there is
mod json; // everything, for programs
mod table; // columns of text in a width
mod shown; // everything, for people
mod screen; // a terminal that is written again

use std::path::PathBuf;
use std::time::Duration;

use firn_job_service::control::pool::JobKey;
use firn_job_service::{AdminClient, proto};
use firn_jobs::ErrorKind;
use firn_storage::{Clock, SystemClock, ThreadSpawn};

use crate::ending::{Ending, Failure, Result};
use crate::output::{Output, report};
use crate::service::{read_token, warn_of_plain_token};
use crate::tls::ClientFiles;
pub(crate) use json::listed;
use screen::Screen;
use shown::{Width, shown};

/// Show the jobs and workers of a control plane, or end a job.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The control plane: http://HOST:PORT or https://HOST:PORT.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7380")]
    control_plane: String,
    /// The file with its token.
    #[arg(long, value_name = "FILE")]
    control_plane_token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: ClientFiles,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Workers, and jobs that wait, run or ended lately. This is what is done where nothing is
    /// said.
    List {
        #[command(flatten)]
        shows: Shows,
    },
    /// The same again and again, until it is ended. On a terminal each look is shown in the place
    /// of the one before. A control plane that does not answer any more is asked again.
    Watch {
        /// Seconds between two looks.
        #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: u64,
        #[command(flatten)]
        shows: Shows,
    },
    /// All about one job.
    Show {
        /// As `firn jobs list` shows it, or its long name.
        job: String,
    },
    /// End a job; its database does it itself then.
    Cancel {
        /// As `firn jobs list` shows it, or its long name.
        job: String,
    },
}

/// What is shown, and how.
#[derive(Clone, Copy, Default, clap::Args)]
struct Shows {
    /// Show below each job that was done what its stages took, in ms. It waits for a worker
    /// (queue), its inputs are opened (open), read (read) and merged (merge), and its outputs
    /// written (write). Of a job that runs all but the first are told together (ran), of others how
    /// long they waited. What its database does then (check, commit) is in that one's metrics:
    /// firn_engine_job_stage_seconds.
    #[arg(long, conflicts_with = "json")]
    stages: bool,
    /// Print one line of JSON for each look: everything that there is to know, for programs.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let token = read_token(arguments.control_plane_token_file.as_deref())?;
    if arguments.control_plane_token_file.is_some() {
        warn_of_plain_token(&arguments.control_plane);
    }
    let (url, tls) = (arguments.control_plane.trim_end_matches('/'), arguments.tls.read()?);
    let client = AdminClient::at(url, &token, &tls, &ThreadSpawn::new());
    let client = client.map_err(|error| Failure::new(Ending::Usage, error.to_string()))?;
    match arguments.action.as_ref().unwrap_or(&Action::List { shows: Shows::default() }) {
        Action::List { shows } => print(&look(&list(&client)?, *shows, Width::of_output())),
        Action::Watch { every, shows } => watch(&client, Duration::from_secs(*every), *shows),
        Action::Show { job } => {
            let (list, key) = find(&client, job)?;
            let row = list.jobs.iter().find(|row| row.key.as_ref().and_then(words::key_of) == Some(key));
            match row {
                Some(row) => print(&shown::in_detail(row)),
                None => Err(is_not_there(job)),
            }
        }
        Action::Cancel { job } => {
            let (_, key) = find(&client, job)?;
            match client.cancel(key).map_err(failed)? {
                true => print(&format!("{job} is cancelled")),
                false => Err(is_not_there(job)),
            }
        }
    }
}

fn failed(error: firn_jobs::Error) -> Failure {
    let remedy = match error.kind {
        ErrorKind::Unavailable => {
            ": start one with `firn control-plane`, or name another with --control-plane"
        }
        _ => "",
    };
    Failure::new(Ending::Failed, format!("{error}{remedy}"))
}

fn is_not_there(job: &str) -> Failure {
    Failure::new(Ending::NotFound, format!("{job} is not there, or has ended"))
}

fn list(client: &AdminClient) -> Result<proto::ListReply> {
    client.list().map_err(failed)
}

fn look(list: &proto::ListReply, shows: Shows, width: Width) -> String {
    match shows.json {
        true => listed(list).to_string(),
        false => shown(list, shows.stages, width),
    }
}

/// Looks for ever. A wrong address is an error at once; later the control plane may just be away
/// for a while.
fn watch(client: &AdminClient, every: Duration, shows: Shows) -> Result<Ending> {
    let clock = SystemClock::new();
    let mut screen = if shows.json { None } else { Screen::of_output() };
    let (mut last, mut heard) = (list(client)?, clock.now());
    let mut trouble = None;
    loop {
        match (&mut screen, &trouble) {
            (Some(screen), trouble) => {
                let trouble = trouble.as_ref().map(|trouble| {
                    let ago = words::time(clock.now().saturating_sub(heard));
                    format!("firn: {trouble}\nWhat follows is from {ago} ago.\n")
                });
                let text = trouble.unwrap_or_default() + &look(&last, shows, Width::of_output());
                screen.show(&text)?;
            }
            (None, None) => drop(print(&look(&last, shows, Width::of_output()))?),
            (None, Some(trouble)) => report(format_args!("firn: {trouble}")),
        }
        clock.sleep(every);
        match list(client) {
            Ok(list) => (last, heard, trouble) = (list, clock.now(), None),
            Err(failure) => trouble = Some(failure),
        }
    }
}

/// The job that people call `name`: its long name, or the first digits of it and its number. With
/// it all that the control plane lists.
fn find(client: &AdminClient, name: &str) -> Result<(proto::ListReply, JobKey)> {
    let wrong = |what: String| Failure::new(Ending::Usage, what);
    let digits = name.split_once('.').filter(|(client, number)| {
        let is_client = (1..=32).contains(&client.len()) && client.chars().all(|it| it.is_ascii_hexdigit());
        is_client && number.parse::<u64>().is_ok()
    });
    let Some((digits, _)) = digits else {
        return Err(wrong(format!("expected a job as `firn jobs list` shows it, found {name:?}")));
    };
    let list = list(client)?;
    if digits.len() == 32 {
        return match words::parse_key(name) {
            Some(key) => Ok((list, key)),
            None => Err(is_not_there(name)),
        };
    }
    let keys = list.jobs.iter().filter_map(|row| row.key.as_ref().and_then(words::key_of));
    let mut found: Vec<JobKey> = keys.filter(|key| words::is_called(*key, name)).collect();
    found.sort_unstable();
    found.dedup();
    match found[..] {
        [key] => Ok((list, key)),
        [] => Err(is_not_there(name)),
        _ => {
            let names: Vec<String> = found.iter().map(|key| words::long_name(*key)).collect();
            Err(wrong(format!("{name} may be any of {}: say its long name", names.join(", "))))
        }
    }
}

fn print(text: &str) -> Result<Ending> {
    let mut out = Output::new();
    out.line(text.trim_end_matches('\n'));
    out.finish()?;
    Ok(Ending::Done)
}

#[cfg(test)]
mod tests;
