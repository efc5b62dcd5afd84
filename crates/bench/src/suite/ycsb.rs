//! YCSB: load, then the mixes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Error, Result};

use super::{Store, Suite};
use crate::args::{RunArgs, YcsbArgs};
use crate::distribution::{AcknowledgedCounter, stream_seed};
use crate::driver::{Phase, Stream, Watcher, run_phase};
use crate::report::{Context, Holdings, PhaseResult};
use crate::target::OpenOptions;
use crate::workload::ycsb::{LoadStream, MixStream, Workload, standard};
use crate::workload::{Kind, Operations, Properties, ValuePool};

/// The name of the phase that fills the store.
const LOAD: &str = "load";

/// The name of the phase whose properties come from files and the command line alone.
const RUN: &str = "run";

/// YCSB's phases with everything about them decided.
pub struct YcsbSuite {
    steps: Vec<(String, Workload)>,
    records: u64,
    operations: u64,
    threads: usize,
    value_bytes: usize,
    /// Keys that a read of the mixes reads by one call.
    read_batch: usize,
    run: RunArgs,
    values: ValuePool,
    /// Records in the store; a new counter for each phase, since a phase may draw numbers it does
    /// not use.
    inserts: Arc<AcknowledgedCounter>,
}

impl YcsbSuite {
    /// What `args` ask for. `has_data` tells that the directory holds a database already.
    ///
    /// # Errors
    /// `Invalid` for an unknown workload or property value, or a load into a directory that holds a
    /// database.
    pub fn new(args: &YcsbArgs, has_data: bool) -> Result<Self> {
        let mut given = Properties::default();
        for file in &args.property_files {
            given.add(&Properties::read(file)?);
        }
        args.properties.iter().try_for_each(|pair| given.set_pair(pair))?;

        let names = step_names(args, has_data)?;
        let steps = names
            .into_iter()
            .map(|name| Ok((name.clone(), Workload::new(&step_properties(&name, &given, args)?)?)))
            .collect::<Result<Vec<_>>>()?;
        let threads = args.run.threads.map_or_else(|| given.get_or("threadcount", 2), Ok)?.max(1);
        let value_bytes = value_bytes(&args.run, &given)?;
        let records = args.records.map_or_else(|| given.get_or("recordcount", 300_000), Ok)?;
        let operations = args.ops.map_or_else(|| given.get_or("operationcount", 300_000), Ok)?;
        let loads_first = steps.first().is_some_and(|(name, _)| name == LOAD);
        Ok(Self {
            steps,
            records,
            operations,
            threads,
            value_bytes,
            read_batch: args.read_batch as usize,
            run: args.run.clone(),
            values: ValuePool::compressible(value_bytes, args.run.compression_ratio, args.run.seed),
            inserts: Arc::new(AcknowledgedCounter::new(if loads_first { 0 } else { records })),
        })
    }

    /// Leaves out the phases that scan, for a target that cannot; their names.
    ///
    /// # Errors
    /// `Invalid` if nothing is left of what was asked for.
    pub fn leave_out_scans(&mut self) -> Result<Vec<String>> {
        let (out, kept): (Vec<_>, Vec<_>) =
            self.steps.drain(..).partition(|(name, workload)| scans(name, workload));
        self.steps = kept;
        let names: Vec<String> = out.into_iter().map(|(name, _)| name).collect();
        if !names.is_empty() && self.steps.iter().all(|(name, _)| name == LOAD) {
            return Err(Error::invalid(format!(
                "workload {} scans, and this target has no scans over strings: name others",
                names.join(",")
            )));
        }
        Ok(names)
    }

    /// Leaves out the phases that scan where `args` name none by themselves, for a target without
    /// order; their names.
    ///
    /// # Errors
    /// `Invalid` if a phase that scans is named, or a file or a property makes one scan.
    pub fn leave_out_order(&mut self, args: &YcsbArgs, target: &str) -> Result<Vec<String>> {
        let scans: Vec<String> = self
            .steps
            .iter()
            .filter(|(name, workload)| scans(name, workload))
            .map(|(name, _)| name.clone())
            .collect();
        if args.workload.is_empty() && args.property_files.is_empty() && args.properties.is_empty() {
            self.steps.retain(|(name, workload)| !self::scans(name, workload));
            return Ok(scans);
        }
        match scans.is_empty() {
            true => Ok(scans),
            false => Err(no_order(&format!("workload {} scans", scans.join(",")), target)),
        }
    }

    /// What the results call a phase.
    fn workload_name(&self, name: &str) -> String {
        match self.read_batch {
            1 => name.to_owned(),
            _ if name == LOAD => name.to_owned(),
            keys => format!("{name}, {keys} a read"),
        }
    }

    fn seconds(&self, name: &str) -> Option<f64> {
        self.run.seconds.filter(|_| name != LOAD)
    }

    fn phase(&self, name: &str, workload: &Workload, seed: u64) -> Phase {
        let (loads, time) = (name == LOAD, self.seconds(name));
        // With a time limit the number of operations is unknown; this bounds what d and e may add.
        let operations = if loads {
            self.records
        } else {
            time.map_or(self.operations, |seconds| (seconds * 100_000.0 * self.threads as f64) as u64)
        };
        let requests = (!loads).then(|| workload.keys_drawn(&self.inserts, operations));
        let streams = (0..self.threads).map(|thread| {
            let seed = stream_seed(seed, thread);
            let (values, inserts) = (self.values.clone(), Arc::clone(&self.inserts));
            let stream: Box<dyn Operations> = match &requests {
                None => Box::new(LoadStream::new(
                    workload.keys,
                    values,
                    self.value_bytes,
                    inserts,
                    self.records,
                    seed,
                )),
                Some(requests) => {
                    let requests = requests.clone();
                    let mix = MixStream::new(workload, requests, inserts, values, self.value_bytes, seed);
                    Box::new(mix.reading_together(self.read_batch))
                }
            };
            let quota = (!loads && time.is_none()).then(|| share(operations, self.threads, thread));
            Stream { operations: stream, quota, counted: true }
        });
        Phase {
            name: name.to_owned(),
            streams: streams.collect(),
            operations: if time.is_some() { 0 } else { operations },
            time: time.map(Duration::from_secs_f64),
            warmup: if loads { Duration::ZERO } else { Duration::from_secs_f64(self.run.warmup_seconds) },
            rate: self.run.rate.filter(|_| !loads),
            drains: loads || workload.mix.writes(),
        }
    }
}

impl Suite for YcsbSuite {
    fn steps(&self) -> Vec<String> {
        self.steps.iter().map(|(name, _)| name.clone()).collect()
    }

    fn data_bytes(&self) -> u64 {
        let key_bytes = self.steps.first().map_or(24, |(_, workload)| workload.keys.key_bytes());
        self.records * (key_bytes + self.value_bytes) as u64
    }

    fn open_options(&self, dir: &Path) -> OpenOptions {
        OpenOptions {
            dir: dir.to_owned(),
            memory_bytes: self.run.memory_bytes,
            separate_bytes: self.run.separate_bytes.map(|bytes| bytes.try_into().unwrap_or(u32::MAX)),
            space_amplification_max: self.run.space_amplification_max,
            read_compaction_price: self.run.read_compaction_price,
            compression: self.run.compression,
            worker: self.run.worker.clone(),
            durability: self.run.durability,
            threads: self.threads,
        }
    }

    fn run_step(
        &mut self,
        step: usize,
        store: &mut Store<'_>,
        watcher: &mut dyn Watcher,
    ) -> Result<PhaseResult> {
        let (name, workload) = self.steps.get(step).ok_or_else(|| Error::bug("no such step"))?;
        let target = store.target()?;
        let seed = stream_seed(self.run.seed, 1_000 + step);
        let phase = self.phase(name, workload, seed);
        let context = Context {
            engine: target.name().to_owned(),
            suite: "ycsb".to_owned(),
            workload: self.workload_name(name),
            repetition: 1,
            threads: self.threads,
            key_bytes: workload.keys.key_bytes(),
            value_bytes: self.value_bytes,
            distribution: if name == LOAD { "sequential" } else { workload.distribution() }.to_owned(),
            rate: phase.rate,
            seed,
            settings: target.settings(),
        };
        let measured = run_phase(target, phase, watcher)?;
        let live = self.inserts.acknowledged();
        let record_bytes = (context.key_bytes + context.value_bytes) as u64;
        let holdings = Holdings {
            disk_bytes: target.disk_bytes(),
            live_bytes: live * record_bytes,
            memory: target.memory(),
        };
        self.inserts = Arc::new(AcknowledgedCounter::new(live));
        let mut result = PhaseResult::new(context, &measured, holdings);
        if target.is_server() {
            result.forget_store();
        }
        Ok(result)
    }
}

/// Whether a phase asks for records in order.
fn scans(name: &str, workload: &Workload) -> bool {
    name != LOAD && workload.mix.share(Kind::Scan) > 0.0
}

/// What asks for order, refused for a `target` that keeps none.
pub(super) fn no_order(what: &str, target: &str) -> Error {
    Error::invalid(format!("{what}, and `{target}` keeps keys in no order: leave it out, or measure `tree`"))
}

/// Thread `index`'s part of `operations` divided among `threads`.
pub(super) fn share(operations: u64, threads: usize, index: usize) -> u64 {
    let (threads, index) = (threads as u64, index as u64);
    operations / threads + u64::from(index < operations % threads)
}

fn step_names(args: &YcsbArgs, has_data: bool) -> Result<Vec<String>> {
    let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut names = match (args.workload.is_empty(), args.property_files.is_empty()) {
        (false, _) => args.workload.clone(),
        (true, true) => words("load,a,b,c,d,e,f"),
        (true, false) => words("load,run"),
    };
    names.iter_mut().for_each(|name| name.make_ascii_lowercase());
    let asks_load = names.iter().any(|name| name == LOAD);
    if asks_load && has_data {
        return Err(Error::invalid(
            "the directory is not empty: name an empty one, or leave `load` out to use the database in it",
        ));
    }
    if names.iter().skip(1).any(|name| name == LOAD) {
        return Err(Error::invalid("`load` can only be the first workload"));
    }
    if !asks_load && !has_data {
        names.insert(0, LOAD.to_owned());
    }
    Ok(names)
}

/// A letter's own properties, then the files' and the command line's.
fn step_properties(name: &str, given: &Properties, args: &YcsbArgs) -> Result<Properties> {
    let mut properties = match name {
        LOAD | RUN => Properties::default(),
        letter => standard(letter).ok_or_else(|| {
            Error::invalid(format!("no workload `{letter}`; there are load, a, b, c, d, e, f and run"))
        })?,
    };
    properties.add(given);
    match &args.distribution {
        Some(distribution) if name != "d" => properties.set("requestdistribution", distribution),
        _ => {}
    }
    Ok(properties)
}

fn value_bytes(run: &RunArgs, given: &Properties) -> Result<usize> {
    if let Some(bytes) = run.value_bytes {
        return usize::try_from(bytes).map_err(|_| Error::invalid("--value-bytes is too large"));
    }
    let (count, length) = (given.get::<usize>("fieldcount")?, given.get::<usize>("fieldlength")?);
    Ok(if count.is_none() && length.is_none() { 1024 } else { count.unwrap_or(10) * length.unwrap_or(100) })
}
