//! The parts, each a question that several runs answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use firn_engine::{Error, Result};

use super::cluster::{Cluster, ClusterPlan, Store, StoreSettings, beside};
use super::content::{self, Held};
use super::plan::ZONE_DELAY;
use super::proxy::Proxy;
use super::run::{Amount, Bench, Label, RunCost, Setting, Work};
use super::verdict::{Measure, Ratio};
use super::{simulated, stages};
use crate::measure::sleep;
use crate::report::{Cells, Finding, PhaseResult};

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CaasPart {
    /// Compaction here, by one fixed worker, by two workers with a scheduler: fillrandom, YCSB A, B
    /// and F
    Where,
    /// Several databases over two workers, by each scheduler; the simulator's figures beside it
    Schedulers,
    /// The store and the workers in another zone than the database
    Zones,
    /// As many processors for both: two for the database, or one for it and one for a worker; and
    /// one alone
    Cores,
    /// How long jobs take to their first byte on an object store, and what is asked while nothing
    /// is to do
    Stages,
}

/// What came of a part, as far as it went.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Found {
    pub(super) results: Vec<PhaseResult>,
    pub(super) costs: Vec<RunCost>,
    pub(super) findings: Vec<Finding>,
    pub(super) held: Vec<Held>,
}

/// What compacts, as results are named.
const LOCAL: &str = "local";
const FIXED: &str = "fixed worker";
const SERVICE: &str = "service";

impl CaasPart {
    pub(super) const ALL: [Self; 5] = [Self::Where, Self::Schedulers, Self::Zones, Self::Cores, Self::Stages];

    /// As the command line and results name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Where => "where",
            Self::Schedulers => "schedulers",
            Self::Zones => "zones",
            Self::Cores => "cores",
            Self::Stages => "stages",
        }
    }

    /// What it asks.
    pub(super) fn question(self) -> &'static str {
        match self {
            Self::Where => "what compaction elsewhere gives, by one worker and by a service",
            Self::Schedulers => "what a scheduler gives where databases share workers",
            Self::Zones => "what workers beside the store give where the database is far from it",
            Self::Cores => "what a worker gives where both sides have the same processors",
            Self::Stages => {
                "how soon jobs begin on an object store, and what is asked while nothing is to do"
            }
        }
    }

    /// Runs it; `found` has what was measured, also where it fails.
    ///
    /// # Errors
    /// A process fails, or something that is needed is missing, with what to do.
    pub(super) fn run(self, bench: &Bench<'_>, found: &mut Found) -> Result<()> {
        match self {
            Self::Where => run_where(bench, found),
            Self::Schedulers => run_schedulers(bench, found),
            Self::Zones => run_zones(bench, found),
            Self::Cores => run_cores(bench, found),
            Self::Stages => run_stages(bench, found),
        }?;
        check_jobs(&found.costs)
    }
}

/// A comparison with workers that did nothing compares nothing.
///
/// # Errors
/// Workers of one kind did no job in any run.
fn check_jobs(costs: &[RunCost]) -> Result<()> {
    let mut jobs: BTreeMap<&str, u64> = BTreeMap::new();
    for cost in costs {
        if let Some(count) = cost.worker_jobs {
            *jobs.entry(&cost.variant).or_default() += count;
        }
    }
    match jobs.iter().find(|(_, count)| **count == 0) {
        None => Ok(()),
        Some((variant, _)) => Err(Error::invalid(format!(
            "no job ran on a worker of {variant}: its figures are the database's own; write more, or see what its processes said (--dir)"
        ))),
    }
}

/// One way to run one database: which workers it has, and on which processors.
struct Way<'w> {
    variant: &'w str,
    /// 0: it does everything itself.
    workers: u32,
    database_processors: Option<&'w str>,
    worker_processors: Option<&'w str>,
}

impl<'w> Way<'w> {
    fn anywhere(variant: &'w str, workers: u32) -> Self {
        Self { variant, workers, database_processors: None, worker_processors: None }
    }
}

/// `processors` as they are named for the first repetition, with the first two exchanged in every
/// second one. Each has a speed of its own, which changes.
fn in_turn(processors: Option<&str>, repetition: u32) -> Option<&str> {
    match (processors, repetition.is_multiple_of(2)) {
        (Some("0"), true) => Some("1"),
        (Some("1"), true) => Some("0"),
        _ => processors,
    }
}

/// Runs each of `works` in each of `ways`, A B C A B C, each on a database of its own.
fn interleave(
    bench: &Bench<'_>,
    part: &str,
    ways: &[Way<'_>],
    works: &[Work],
    found: &mut Found,
) -> Result<()> {
    for repetition in 1..=bench.plan.repetitions {
        for work in works {
            for way in ways {
                let label = Label { part, variant: way.variant, repetition };
                let dir = bench.fresh("db")?;
                let cluster = (way.workers > 0).then(|| {
                    let plan = ClusterPlan {
                        workers: way.workers,
                        scheduler: URGENCY,
                        within: dir.display().to_string(),
                        processors: in_turn(way.worker_processors, repetition),
                        store: StoreSettings::new(),
                        link: None,
                    };
                    Cluster::start(&plan, &bench.logs()?)
                });
                let cluster = cluster.transpose()?;
                let setting = Setting {
                    control_plane: cluster.as_ref().map(Cluster::url),
                    processors: in_turn(way.database_processors, repetition),
                    ..Setting::default()
                };
                let results = bench.measure(label, work, std::slice::from_ref(&dir), &setting)?;
                found.costs.push(bench.cost(label, 1, &results, cluster.as_ref())?);
                found.results.extend(work.kept(results));
                cluster.map_or(Ok(()), Cluster::end)?;
                // Once: to read everything takes seconds.
                if let Some(workload) = work.name_in_order().filter(|_| repetition == 1) {
                    let (variant, content) = (way.variant.to_owned(), content::of(&dir)?);
                    found.held.push(Held { workload, variant, content });
                }
            }
        }
    }
    Ok(())
}

fn run_where(bench: &Bench<'_>, found: &mut Found) -> Result<()> {
    let part = CaasPart::Where.name();
    let ways = [Way::anywhere(LOCAL, 0), Way::anywhere(FIXED, 1), Way::anywhere(SERVICE, 2)];
    let plan = &bench.plan;
    let mixes = Work::ycsb(plan.mixes, 2, plan.records, Amount::Operations(plan.operations));
    interleave(bench, part, &ways, &[Work::fillrandom(plan), mixes], found)?;
    let claims = [
        (
            "service over one fixed worker, CaaS-LSM's README: up to 1.61 times as many operations",
            "fillrandom",
            FIXED,
            Measure::Throughput,
            1.61,
        ),
        (
            "service over local, CaaS-LSM's README for Kvrocks in one zone: 1.2 times as many operations",
            "a",
            LOCAL,
            Measure::Throughput,
            1.2,
        ),
        (
            "service over local, CaaS-LSM's abstract: p99 down by up to 98 %",
            "fillrandom",
            LOCAL,
            Measure::P99,
            0.02,
        ),
        ("service over local: no stop longer than here (p99.9)", "a", LOCAL, Measure::P999, 1.0),
        (
            "service over local: less of the database's processor for each operation",
            "fillrandom",
            LOCAL,
            Measure::DatabaseCpu,
            1.0,
        ),
    ];
    found.findings.extend(claims.map(|(claim, workload, than, measure, claimed)| {
        Ratio { claim, workload, of: SERVICE, than, measure, claimed, floor: None }
            .finding(part, &found.results)
    }));
    Ok(())
}

/// As `firn control-plane --scheduler` takes them, and as results are named.
const SCHEDULERS: [(&str, &str); 4] =
    [(URGENCY, SERVICE), ("least-loaded", "least-loaded"), ("fifo", "fifo"), ("random", "random")];

/// The service's own.
const URGENCY: &str = "urgency";

fn run_schedulers(bench: &Bench<'_>, found: &mut Found) -> Result<()> {
    let part = CaasPart::Schedulers.name();
    let plan = &bench.plan;
    let work = Work::ycsb("load,a", 1, plan.records, Amount::Operations(plan.operations));
    for repetition in 1..=plan.repetitions {
        for (scheduler, variant) in SCHEDULERS {
            let label = Label { part, variant, repetition };
            let all = bench.fresh("fleet")?;
            let cluster = ClusterPlan {
                workers: 2,
                scheduler,
                within: all.display().to_string(),
                processors: None,
                store: StoreSettings::new(),
                link: None,
            };
            let cluster = Cluster::start(&cluster, &bench.logs()?)?;
            let dirs: Vec<_> = (0..plan.databases).map(|at| all.join(format!("db-{at}"))).collect();
            let setting = Setting { control_plane: Some(cluster.url()), ..Setting::default() };
            let results = bench.measure(label, &work, &dirs, &setting)?;
            found.costs.push(bench.cost(label, dirs.len(), &results, Some(&cluster))?);
            found.results.extend(results);
            cluster.end()?;
        }
    }
    found.findings.extend(scheduler_findings(&found.results));
    found.findings.push(simulated::finding(bench, part));
    Ok(())
}

/// What `results` say of the service's scheduler beside each of the others.
fn scheduler_findings(results: &[PhaseResult]) -> Vec<Finding> {
    let claims = [
        (
            "urgency over random, CaaS-LSM's README for Nebula: random has 86 % fewer operations",
            "random",
            Measure::Throughput,
            7.1,
        ),
        (
            "urgency over least-loaded, which is CaaS-LSM's own: writers stand still for less",
            "least-loaded",
            Measure::Stalled,
            1.0,
        ),
        ("urgency over fifo: writers stand still for less", "fifo", Measure::Stalled, 1.0),
        ("urgency over random: writers stand still for less", "random", Measure::Stalled, 1.0),
    ];
    let found = claims.map(|(claim, than, measure, claimed)| {
        Ratio { claim, workload: "load", of: SERVICE, than, measure, claimed, floor: None }
            .finding(CaasPart::Schedulers.name(), results)
    });
    found.into()
}

fn run_zones(bench: &Bench<'_>, found: &mut Found) -> Result<()> {
    let part = CaasPart::Zones.name();
    let program = beside(bench.args.store_server.as_deref(), "firn-s3-server")?;
    let plan = &bench.plan;
    let work = Work::ycsb("load,a", 2, plan.far_records, Amount::Seconds(plan.far_seconds));
    for repetition in 1..=plan.repetitions {
        for (variant, is_far, workers) in
            [("local, one zone", false, 0), (LOCAL, true, 0), (SERVICE, true, 2)]
        {
            let label = Label { part, variant, repetition };
            let store = Store::start(&program, &bench.fresh("store")?, &bench.logs()?)?;
            let link = far_link(store.address(), is_far)?;
            let location = Store::location(&format!("{repetition}-{workers}-{is_far}"));
            let cluster = (workers > 0).then(|| {
                let plan = ClusterPlan {
                    workers,
                    scheduler: URGENCY,
                    within: location.clone(),
                    processors: None,
                    store: store.near(),
                    link: is_far.then_some(ZONE_DELAY),
                };
                Cluster::start(&plan, &bench.logs()?)
            });
            let cluster = cluster.transpose()?;
            let setting = Setting {
                control_plane: cluster.as_ref().map(Cluster::url),
                processors: None,
                shared: Some(location),
                store: link.as_ref().map_or_else(|| store.near(), |link| store.behind(link)),
            };
            let results = bench.measure(label, &work, &[bench.fresh("db")?], &setting)?;
            found.costs.push(bench.cost(label, 1, &results, cluster.as_ref())?);
            found.results.extend(results);
            cluster.map_or(Ok(()), Cluster::end)?;
        }
    }
    let claims = [
        (
            "workers beside the store over local, CaaS-LSM's README for Kvrocks across zones: 1.28 times as many operations",
            "load",
            Measure::Throughput,
            1.28,
        ),
        ("workers beside the store over local, the same: p99 down by 65 %", "a", Measure::P99, 0.35),
    ];
    found.findings.extend(claims.map(|(claim, workload, measure, claimed)| {
        Ratio { claim, workload, of: SERVICE, than: LOCAL, measure, claimed, floor: None }
            .finding(part, &found.results)
    }));
    Ok(())
}

/// The database's way to a store of another zone.
fn far_link(store: SocketAddr, is_far: bool) -> Result<Option<Proxy>> {
    is_far.then(|| Proxy::to(store, ZONE_DELAY)).transpose()
}

/// A database alone on one processor.
const ONE_CORE: &str = "local, one core";

/// Loads where latencies are compared, of what the slower way does when it is asked for all it can.
/// A database that is behind has a queue, which a client that waits for each operation never sees.
/// Which of both is the slower one changes from run to run.
const PACES: [(&str, f64); 2] = [("paced", 0.75), ("nearly full", 0.95)];

/// Operations of `workload` that `variant` does in a second, what is left to do counted: the
/// median; 0 if it did none.
fn drained_per_s(results: &[PhaseResult], part: &str, variant: &str, workload: &str) -> f64 {
    let measured = |result: &PhaseResult| Some(result.ops_per_s_drained);
    let spread = Cells::new(results).spread(variant, &format!("{part}: {workload}"), measured);
    spread.map_or(0.0, |spread| spread.median)
}

fn run_cores(bench: &Bench<'_>, found: &mut Found) -> Result<()> {
    let part = CaasPart::Cores.name();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if processors < 2 {
        return Err(Error::invalid("this part wants two processors, and there is one"));
    }
    let ways = [
        Way { variant: LOCAL, workers: 0, database_processors: Some("0,1"), worker_processors: None },
        Way { variant: SERVICE, workers: 1, database_processors: Some("0"), worker_processors: Some("1") },
        Way { variant: ONE_CORE, workers: 0, database_processors: Some("0"), worker_processors: None },
    ];
    let plan = &bench.plan;
    let mixes = Work::ycsb("load,a", 2, plan.records, Amount::Operations(plan.operations));
    let works = [mixes.clone(), Work::overwrite(plan), Work::compressed_overwrite(plan)];
    interleave(bench, part, &ways, &works, found)?;
    let [local, service, _] = ways;
    let same_load = [local, service];
    let paced = [("a", mixes), ("overwrite, zstd", Work::compressed_overwrite(plan))].map(|(name, work)| {
        let both = same_load.each_ref().map(|way| drained_per_s(&found.results, part, way.variant, name));
        let slower = both.into_iter().fold(f64::INFINITY, f64::min);
        PACES.map(|(how, share)| work.clone().at_rate((slower * share) as u64, how))
    });
    interleave(bench, part, &same_load, paced.as_flattened(), found)?;
    found.findings.extend(content::finding(part, &found.held)?);
    let more = "equal processors, our goal: 1.3 times as many operations (floor 1.0)";
    let meanwhile = "equal processors, while clients work: 1.3 times as many operations (floor 1.0)";
    let sooner = "equal processors, our goal: half the p99 (floor 0.8)";
    let at_pace = "equal processors at the same load, three quarters of what the slower of both can: half the p99 (our goal; floor 0.8)";
    let nearly_full = "equal processors at the same load, 0.95 of what the slower of both can: half the p99 (our goal; floor 0.8)";
    let less = "equal processors: less of the database's processor for each operation";
    let alone_more = "the database on one processor, with a worker elsewhere over without: more operations";
    let alone_sooner = "the database on one processor, with a worker elsewhere over without: p99.9 no higher";
    let claims = [
        (more, "a", LOCAL, Measure::Throughput, 1.3, Some(1.0)),
        (meanwhile, "a", LOCAL, Measure::Meanwhile, 1.3, Some(1.0)),
        (sooner, "a", LOCAL, Measure::P99, 0.5, Some(0.8)),
        (more, "overwrite", LOCAL, Measure::Throughput, 1.3, Some(1.0)),
        (meanwhile, "overwrite", LOCAL, Measure::Meanwhile, 1.3, Some(1.0)),
        (sooner, "overwrite", LOCAL, Measure::P99, 0.5, Some(0.8)),
        (more, "overwrite, zstd", LOCAL, Measure::Throughput, 1.3, Some(1.0)),
        (meanwhile, "overwrite, zstd", LOCAL, Measure::Meanwhile, 1.3, Some(1.0)),
        (sooner, "overwrite, zstd", LOCAL, Measure::P99, 0.5, Some(0.8)),
        (at_pace, "a, paced", LOCAL, Measure::P99, 0.5, Some(0.8)),
        (at_pace, "overwrite, zstd, paced", LOCAL, Measure::P99, 0.5, Some(0.8)),
        (nearly_full, "a, nearly full", LOCAL, Measure::P99, 0.5, Some(0.8)),
        (nearly_full, "overwrite, zstd, nearly full", LOCAL, Measure::P99, 0.5, Some(0.8)),
        (less, "overwrite", LOCAL, Measure::DatabaseCpu, 1.0, None),
        (alone_more, "a", ONE_CORE, Measure::Throughput, 1.0, None),
        (alone_sooner, "a", ONE_CORE, Measure::P999, 1.0, None),
        (alone_more, "overwrite", ONE_CORE, Measure::Throughput, 1.0, None),
        (alone_sooner, "overwrite", ONE_CORE, Measure::P999, 1.0, None),
        (alone_more, "overwrite, zstd", ONE_CORE, Measure::Throughput, 1.0, None),
        (alone_sooner, "overwrite, zstd", ONE_CORE, Measure::P999, 1.0, None),
    ];
    found.findings.extend(claims.map(|(claim, workload, than, measure, claimed, floor)| {
        Ratio { claim, workload, of: SERVICE, than, measure, claimed, floor }.finding(part, &found.results)
    }));
    Ok(())
}

/// Where the store is, as findings name it, and how long bytes take each way.
const STORES: [(&str, Duration); 2] = [("store beside", Duration::ZERO), ("store 10 ms away", ZONE_DELAY)];

/// How long after the last job a database looks for what jobs left, which shows where it is watched
/// for as long.
const ORPHAN_GC_AFTER: Duration = Duration::from_secs(60);

fn run_stages(bench: &Bench<'_>, found: &mut Found) -> Result<()> {
    let part = CaasPart::Stages.name();
    let program = beside(bench.args.store_server.as_deref(), "firn-s3-server")?;
    for (at, (variant, delay)) in STORES.into_iter().enumerate() {
        eprintln!("{part}: {variant}");
        let store = Store::start(&program, &bench.fresh("store")?, &bench.logs()?)?;
        let link = Proxy::to(store.address(), delay)?;
        let location = Store::location(&format!("stages-{at}"));
        let cluster = ClusterPlan {
            workers: 2,
            scheduler: URGENCY,
            within: location.clone(),
            processors: None,
            store: store.behind(&link),
            link: Some(Duration::ZERO),
        };
        let cluster = Cluster::start(&cluster, &bench.logs()?)?;
        let served = stages::Served::start(bench, &location, store.behind(&link), &cluster)?;
        stages::load(bench, &served)?;
        found.findings.push(stages::first_byte(part, variant, &served.rest()?));
        if bench.plan.idle >= ORPHAN_GC_AFTER {
            eprintln!(
                "{part}: {variant}: a minute until what jobs left is looked for, and then nothing to do"
            );
            sleep(ORPHAN_GC_AFTER + Duration::from_secs(5));
        }
        let (store_before, plane_before) = (link.sent(), cluster.sent());
        sleep(bench.plan.idle);
        let claim = format!(
            "{variant}: a database and two workers with nothing to do ask the store for nothing (our goal)"
        );
        let asked = link.sent() - store_before;
        found.findings.push(stages::idle(part, &claim, asked, bench.plan.idle, 0.0));
        let claim = format!(
            "{variant}: two workers with nothing to do tell their control plane no more than once a second, each (our goal)"
        );
        let asked = cluster.sent() - plane_before;
        found.findings.push(stages::idle(part, &claim, asked, bench.plan.idle, 7200.0));
        served.end()?;
        cluster.end()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Context, Verdict};

    #[test]
    fn each_scheduler_beside_ours_is_judged_by_how_long_writers_stand_still() {
        let results = SCHEDULERS.map(|(scheduler, variant)| {
            let workload = "schedulers: load".into();
            let context = Context { engine: variant.into(), workload, ..Context::default() };
            let stall_s = if scheduler == URGENCY { 1.0 } else { 2.0 };
            PhaseResult { context, stall_s, ..PhaseResult::default() }
        });
        let findings = scheduler_findings(&results);
        let stalled = findings.iter().filter(|finding| finding.figure.contains("stopped and slowed"));
        let others = SCHEDULERS.into_iter().filter(|(scheduler, _)| *scheduler != URGENCY);
        for (_, variant) in others {
            let mut judged = stalled.clone().filter(|it| it.figure.contains(&format!(", {variant} ")));
            assert_eq!(judged.next().map(|it| it.verdict), Some(Verdict::AsClaimed), "{variant}");
            assert_eq!(judged.next(), None, "{variant}");
        }
    }

    #[test]
    fn a_pace_follows_the_median_of_what_a_way_did() {
        let result = |variant: &str, workload: &str, ops_per_s_drained| {
            let context = Context { engine: variant.into(), workload: workload.into(), ..Context::default() };
            PhaseResult { context, ops_per_s_drained, ..PhaseResult::default() }
        };
        let mut results = vec![result(SERVICE, "cores: a", 7.0), result(LOCAL, "cores: load", 8.0)];
        results.extend([300.0, 100.0, 200.0].map(|ops_per_s| result(LOCAL, "cores: a", ops_per_s)));
        assert_eq!(drained_per_s(&results, "cores", LOCAL, "a"), 200.0);
        assert_eq!(drained_per_s(&results, "cores", LOCAL, "b"), 0.0);
    }

    #[test]
    fn a_database_and_its_worker_change_places_between_repetitions() {
        let places =
            |repetition| [Some("0"), Some("1"), Some("0,1"), None].map(|one| in_turn(one, repetition));
        assert_eq!(places(1), [Some("0"), Some("1"), Some("0,1"), None]);
        assert_eq!(places(2), [Some("1"), Some("0"), Some("0,1"), None]);
        assert_eq!(places(3), places(1));
    }

    #[test]
    fn workers_that_did_nothing_fail_their_part() {
        let cost = |variant: &str, worker_jobs| RunCost {
            part: "where".into(),
            variant: variant.into(),
            repetition: 1,
            databases: 1,
            database_cpu_s: 1.0,
            workers_cpu_s: 0.0,
            worker_jobs,
        };
        let fine = [cost(LOCAL, None), cost(SERVICE, Some(0)), cost(SERVICE, Some(1))];
        assert!(check_jobs(&fine).is_ok());
        let error = check_jobs(&[cost(FIXED, Some(0)), cost(SERVICE, Some(1))]).unwrap_err();
        assert!(error.to_string().contains("a worker of fixed worker"), "{error}");
    }
}
