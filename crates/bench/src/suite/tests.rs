use clap::Parser;
use firn::EngineKind;

use super::*;
use crate::args::{DbArgs, YcsbArgs};
use crate::progress::Silent;
use crate::target::{FirnFactory, MemoryFactory};

#[derive(Parser)]
struct Ycsb {
    #[command(flatten)]
    args: YcsbArgs,
}

#[derive(Parser)]
struct Db {
    #[command(flatten)]
    args: DbArgs,
}

fn ycsb(words: &[&str]) -> YcsbArgs {
    Ycsb::try_parse_from([&["ycsb"], words].concat()).unwrap().args
}

fn db(words: &[&str]) -> DbArgs {
    Db::try_parse_from([&["db"], words].concat()).unwrap().args
}

fn run_all(suite: &mut dyn Suite) -> Vec<PhaseResult> {
    let dir = BenchDir::new(None).unwrap();
    let mut store = Store::new(&MemoryFactory, suite.open_options(dir.path()));
    let results =
        (0..suite.steps().len()).map(|step| suite.run_step(step, &mut store, &mut Silent).unwrap()).collect();
    store.close().unwrap();
    results
}

#[test]
fn ycsb_runs_every_letter_by_default_and_finds_every_record() {
    let args = ycsb(&["--records", "2k", "--ops", "1001", "--value-bytes", "100"]);
    let mut suite = YcsbSuite::new(&args, false).unwrap();
    assert_eq!(suite.steps(), ["load", "a", "b", "c", "d", "e", "f"]);
    let results = run_all(&mut suite);
    for result in &results[1..] {
        assert_eq!((result.operations, result.not_found), (1_001, 0), "{}", result.context.workload);
    }
    let load = &results[0];
    assert_eq!((load.operations, load.live_bytes), (2_000, 2_000 * 124));
    assert_eq!(load.write_amplification, Some(1.0));
    assert_eq!(load.space_amplification, Some(1.0));
    assert_eq!(results[3].write_amplification, None, "c writes nothing");
    let inserted: u64 =
        results.iter().filter_map(|result| result.by_kind.get("INSERT")).map(|figures| figures.count).sum();
    assert_eq!(results[6].live_bytes, inserted * 124, "d and e add records that later phases know");
    assert_eq!(results[4].context.distribution, "latest");
}

#[test]
fn the_same_seed_draws_the_same_operations() {
    let args =
        ycsb(&["--workload", "load,a", "--records", "500", "--ops", "2000", "--threads", "1", "--seed", "9"]);
    let counts = |args: &YcsbArgs| {
        let results = run_all(&mut YcsbSuite::new(args, false).unwrap());
        results[1].by_kind.iter().map(|(name, figures)| (name.clone(), figures.count)).collect::<Vec<_>>()
    };
    assert_eq!(counts(&args), counts(&args));
    assert_ne!(
        counts(&args),
        counts(&YcsbArgs { run: crate::args::RunArgs { seed: 10, ..args.run.clone() }, ..args })
    );
}

#[test]
fn a_distribution_applies_to_every_workload_but_d() {
    let args =
        ycsb(&["--workload", "load,a,d,c", "--records", "100", "--ops", "100", "--distribution", "uniform"]);
    let results = run_all(&mut YcsbSuite::new(&args, false).unwrap());
    let names: Vec<&str> = results.iter().map(|result| result.context.distribution.as_str()).collect();
    assert_eq!(names, ["sequential", "uniform", "latest", "uniform"]);
}

#[test]
fn reads_of_several_keys_count_each_and_say_how_many() {
    let words = ["--workload", "load,c,a", "--records", "500", "--ops", "4000", "--threads", "1"];
    let args = ycsb(&[words.as_slice(), &["--read-batch", "16", "--value-bytes", "100"]].concat());
    let results = run_all(&mut YcsbSuite::new(&args, false).unwrap());
    let names: Vec<&str> = results.iter().map(|result| result.context.workload.as_str()).collect();
    assert_eq!(names, ["load", "c, 16 a read", "a, 16 a read"]);
    let c = &results[1];
    assert_eq!((c.operations, c.not_found, c.by_kind["READ"].count), (4_000, 0, 4_000));
    assert_eq!(c.user_bytes_read, 4_000 * 124);
    let a = &results[2];
    assert_eq!((a.by_kind["READ"].count % 16, a.not_found), (0, 0));
    assert!(a.by_kind["UPDATE"].count < 500, "a call of 16 reads is one of the mix's operations");
}

#[test]
fn property_files_shape_the_run_phase() {
    let dir = BenchDir::new(None).unwrap();
    let file = dir.path().join("workload");
    std::fs::write(
        &file,
        "recordcount=300\noperationcount=400\nreadproportion=0\nupdateproportion=1\nfieldlength=20\n",
    )
    .unwrap();
    let args = ycsb(&["-P", file.to_str().unwrap(), "-p", "fieldcount=5"]);
    let mut suite = YcsbSuite::new(&args, false).unwrap();
    assert_eq!(suite.steps(), ["load", "run"]);
    let results = run_all(&mut suite);
    assert_eq!((results[0].operations, results[0].context.value_bytes), (300, 100));
    assert_eq!(results[1].by_kind.keys().collect::<Vec<_>>(), ["UPDATE"]);
    assert_eq!(results[1].context.distribution, "uniform");
}

#[test]
fn a_database_that_is_there_is_used_and_never_loaded_over() {
    assert!(YcsbSuite::new(&ycsb(&["--workload", "load,a"]), true).is_err());
    assert_eq!(YcsbSuite::new(&ycsb(&["--workload", "a"]), true).unwrap().steps(), ["a"]);
    assert_eq!(YcsbSuite::new(&ycsb(&["--workload", "a"]), false).unwrap().steps(), ["load", "a"]);
    assert!(DbSuite::new(&db(&["--benchmarks", "fillseq"]), true).is_err());
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is_opened() {
    for words in [
        &["--workload", "g"][..],
        &["--workload", "a,load"],
        &["-p", "readproportion=x"],
        &["-P", "/nowhere"],
    ] {
        assert!(YcsbSuite::new(&ycsb(words), false).is_err(), "{words:?}");
    }
    for words in [&["--benchmarks", "fillsync"][..], &["--key-bytes", "4"]] {
        assert!(DbSuite::new(&db(words), false).is_err(), "{words:?}");
    }
}

#[test]
fn db_benchmarks_follow_each_other_on_what_is_there() {
    let all = "fillbatch,fillingest,fillseq,readrandom,readseq,seekrandom,overwrite,readwhilewriting,deleterandom,fillrandom";
    let args = db(&["--benchmarks", all, "--num", "2000", "--value-bytes", "100", "--reads", "600"]);
    let results = run_all(&mut DbSuite::new(&args, false).unwrap());
    let by_name = |name: &str| results.iter().find(|result| result.context.workload == name).unwrap();
    for name in ["fillseq", "fillbatch", "fillingest"] {
        let (filled, sequential) = (by_name(name), "sequential".to_owned());
        assert_eq!((filled.operations, filled.live_bytes), (2_000, 2_000 * 116), "{name}");
        assert_eq!((filled.context.threads, &filled.context.distribution), (1, &sequential), "{name}");
    }
    assert_eq!((by_name("readrandom").operations, by_name("readrandom").not_found), (600, 0));
    assert!(by_name("readseq").operations >= 600);
    assert_eq!(by_name("readwhilewriting").operations, 600);
    assert!(by_name("deleterandom").live_bytes < 2_000 * 116);
    let refilled = by_name("fillrandom");
    assert_eq!(refilled.space_amplification, Some(1.0), "fillrandom began with an empty store");
    assert!(refilled.live_bytes < 1_400 * 116, "fillrandom kept older records");
}

#[test]
fn what_needs_order_is_left_out_or_refused_without_it() {
    let args = ycsb(&["--records", "100"]);
    let mut suite = YcsbSuite::new(&args, false).unwrap();
    assert_eq!(suite.leave_out_order(&args, "hashlog").unwrap(), ["e"]);
    assert_eq!(suite.steps(), ["load", "a", "b", "c", "d", "f"]);
    for words in [&["--workload", "a,e"][..], &["-p", "scanproportion=0.5"]] {
        let args = ycsb(words);
        let error = YcsbSuite::new(&args, false).unwrap().leave_out_order(&args, "hashlog").unwrap_err();
        assert!(error.message().contains("`hashlog` keeps keys in no order"), "{error}");
    }
    let args = db(&[]);
    let mut suite = DbSuite::new(&args, false).unwrap();
    assert_eq!(suite.leave_out_order(&args, "hashlog").unwrap(), ["readseq", "seekrandom"]);
    let left = ["fillseq", "fillrandom", "overwrite", "readrandom", "readwhilewriting", "deleterandom"];
    assert_eq!(suite.steps(), left);
    let args = db(&["--benchmarks", "fillbatch,fillingest,readseq"]);
    let error = DbSuite::new(&args, false).unwrap().leave_out_order(&args, "hashlog").unwrap_err();
    assert!(error.message().contains("fillingest,readseq"), "{error}");
}

#[test]
fn suites_run_on_the_hashed_engine() {
    let factory = FirnFactory::of(EngineKind::Hash);
    let run = |suite: &mut dyn Suite| {
        let dir = BenchDir::new(None).unwrap();
        let mut store = Store::new(&factory, suite.open_options(dir.path()));
        let steps = 0..suite.steps().len();
        let results: Vec<_> =
            steps.map(|step| suite.run_step(step, &mut store, &mut Silent).unwrap()).collect();
        store.close().unwrap();
        results
    };
    let size = ["--memory-bytes", "64M", "--value-bytes", "100"];
    let args =
        ycsb(&[&["--records", "2k", "--ops", "1001", "--workload", "load,a,b,c,d,f"], &size[..]].concat());
    for result in &run(&mut YcsbSuite::new(&args, false).unwrap())[1..] {
        assert_eq!((result.operations, result.not_found), (1_001, 0), "{}", result.context.workload);
        assert_eq!(result.context.engine, "hashlog");
        assert!(result.context.settings.contains_key("redo_bytes_max"));
    }
    let asked = ["--benchmarks", "fillbatch,readrandom,deleterandom", "--num", "2000"];
    let results = run(&mut DbSuite::new(&db(&[&asked[..], &size[..]].concat()), false).unwrap());
    assert_eq!((results[1].operations, results[1].not_found), (2_000, 0));

    for (words, option) in [
        (&["--separate-bytes", "4k"][..], "--separate-bytes"),
        (&["--compression", "zstd"], "--compression"),
        (&["--space-amplification-max", "2"], "--space-amplification-max"),
    ] {
        let suite = YcsbSuite::new(&ycsb(words), false).unwrap();
        let dir = BenchDir::new(None).unwrap();
        let Err(error) = factory.open(&suite.open_options(dir.path())) else { panic!("{words:?}") };
        assert!(error.message().contains(option) && error.message().contains("`hashlog`"), "{error}");
    }
}
