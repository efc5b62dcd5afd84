//! A whole run of the load generator, from arguments to reports.

use firn_engine::{Error, Result};

use super::compare::{comparisons, order, table};
use super::phase::{Limit, Load};
use super::result::summary;
use super::{Contender, Keys, RespArgs, RespCommand, RespReport, RespResult};
use crate::args::command_line;
use crate::distribution::stream_seed;
use crate::driver::Watcher;
use crate::measure::Machine;
use crate::progress::watcher;
use crate::report::write_text;
use crate::server::ServerAddress;
use crate::workload::ValuePool;

/// How long a command runs unless something else is said.
const SECONDS_DEFAULT: f64 = 10.0;

/// Requests outstanding on a connection while keys are written, which is not measured.
const FILL_PIPELINE: usize = 16;

/// Keys have so many digits.
const KEYS_MAX: u64 = 1_000_000_000_000;

/// Largest value of any server there is.
const VALUE_BYTES_MAX: u64 = 512 << 20;

/// Loads the server or servers as `args` say, with progress on standard error, tables on standard
/// output and the JSON asked for; returns everything.
///
/// # Errors
/// `Invalid` for arguments that make no run; `Retry` if a server is not there; `Closed` if one
/// answers errors (unless they are allowed), breaks a connection or falls silent.
pub fn run_resp(args: &RespArgs) -> Result<RespReport> {
    let machine = Machine::here();
    eprintln!("{}", machine.line());
    let mut watcher = watcher(false);
    let run = Run::new(args)?;
    if args.load {
        run.fill(watcher.as_mut())?;
    }
    let results = run.measure(watcher.as_mut())?;
    let names: Vec<String> = run.contenders.iter().map(|contender| contender.name.clone()).collect();
    let comparisons = if args.compare.is_empty() { Vec::new() } else { comparisons(&results, &names) };
    match comparisons.is_empty() {
        true => print!("\n{}", summary(&results)),
        false => print!("\n{}\n{}", summary(&results), table(&comparisons)),
    }
    let report = RespReport { machine, command_line: command_line(), results, comparisons };
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)
            .map_err(|error| Error::bug("a report has no JSON form").because(error))?;
        write_text(path, &format!("{text}\n"))?;
        eprintln!("results: {}", path.display());
    }
    Ok(report)
}

/// The servers, and what is the same for all of them.
struct Run<'a> {
    args: &'a RespArgs,
    contenders: Vec<Contender>,
    values: ValuePool,
}

impl<'a> Run<'a> {
    fn new(args: &'a RespArgs) -> Result<Self> {
        if args.connections < args.threads {
            return Err(Error::invalid(format!(
                "--connections {}: each of the {} threads needs one",
                args.connections, args.threads
            )));
        }
        if args.keys > KEYS_MAX || args.value_bytes > VALUE_BYTES_MAX {
            return Err(Error::invalid("--keys or --value-bytes is larger than any server takes"));
        }
        if args.seconds == Some(0.0) {
            return Err(Error::invalid("--seconds 0: nothing would be measured"));
        }
        let contenders = if args.compare.is_empty() {
            let given = || ServerAddress { host: args.host.clone(), port: args.port, database: 0 };
            let address = args.target.clone().unwrap_or_else(given);
            vec![Contender { name: address.to_string(), address, pid: args.pid }]
        } else {
            args.compare.clone()
        };
        Contender::check_names(&contenders)?;
        let values = ValuePool::new(args.value_bytes as usize, args.seed);
        Ok(Self { args, contenders, values })
    }

    /// Writes what the commands work on, once, on every server.
    fn fill(&self, watcher: &mut dyn Watcher) -> Result<()> {
        let mut fills: Vec<RespCommand> = Vec::new();
        for fill in self.args.commands.iter().filter_map(|command| command.filled_by()) {
            if !fills.contains(&fill) {
                fills.push(fill);
            }
        }
        for contender in &self.contenders {
            for fill in &fills {
                let load = Load {
                    name: format!("load {} {}", contender.name, fill.name()),
                    pipeline: FILL_PIPELINE,
                    keys: Keys::Sequential.over(self.args.keys),
                    limit: Limit::Requests(self.args.keys),
                    rate: None,
                    stops_at_errors: true,
                    pid: None,
                    ..self.load(contender, *fill, 0)
                };
                let loaded = load.run(watcher)?;
                eprintln!(
                    "{}: {} requests in {:.1} s",
                    load.name,
                    loaded.answers.count,
                    loaded.run.as_secs_f64()
                );
            }
        }
        Ok(())
    }

    /// Every command on every server as often as asked; for each command the servers take turns.
    fn measure(&self, watcher: &mut dyn Watcher) -> Result<Vec<RespResult>> {
        let repetitions = if self.args.compare.is_empty() { 1 } else { self.args.repetitions as usize };
        let mut results = Vec::new();
        for command in &self.args.commands {
            for repetition in 0..repetitions {
                for turn in order(self.contenders.len(), repetition) {
                    let Some(contender) = self.contenders.get(turn) else { continue };
                    let load = self.load(contender, *command, repetition);
                    let loaded = load.run(watcher)?;
                    let keys = (self.args.keys, self.args.distribution.name());
                    let result = RespResult::new(&load, &loaded, &contender.name, repetition + 1, keys);
                    eprintln!("{}", result.line());
                    results.push(result);
                }
            }
        }
        Ok(results)
    }

    /// `command` as it is measured. Equal for all servers, the seed too.
    fn load<'l>(&self, contender: &'l Contender, command: RespCommand, repetition: usize) -> Load<'l> {
        let args = self.args;
        let seconds = std::time::Duration::from_secs_f64(args.seconds.unwrap_or(SECONDS_DEFAULT));
        Load {
            name: format!("{} {}", contender.name, command.name()),
            command,
            address: &contender.address,
            pid: contender.pid,
            connections: args.connections as usize,
            pipeline: args.pipeline as usize,
            threads: args.threads as usize,
            keys: args.distribution.over(args.keys),
            values: self.values.clone(),
            value_bytes: args.value_bytes as usize,
            seed: stream_seed(args.seed, repetition),
            limit: args.requests.map_or(Limit::Time(seconds), Limit::Requests),
            rate: args.rate,
            stops_at_errors: !args.allow_errors,
        }
    }
}
