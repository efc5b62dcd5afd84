use super::*;
use crate::spec::{CompactSpec, JobSpec, Rules};

fn job(filter: Option<&str>) -> Need {
    let rules = Rules { compaction_filter: filter.map(str::to_owned), ..Rules::default() };
    need_of(&JobSpec::from(CompactSpec { rules, ..CompactSpec::default() }))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The moments, of every tenth millisecond of the first three seconds, at which the executor is
/// asked, where the service goes well if `is_well`.
fn asked_at(is_well: impl Fn(u64) -> bool) -> Vec<u64> {
    let (mut trust, job, mut at) = (Trust::default(), job(None), Vec::new());
    for now in (0..3000).step_by(10) {
        match trust.advise(&job, ms(now)) {
            Advice::Wait | Advice::Lacking => continue,
            Advice::Ask => {}
            Advice::Probe => trust.begin_probe(),
        }
        at.push(now);
        trust.end_probe();
        match is_well(now) {
            true => trust.went_well(&job),
            false => trust.failed(&job, Concern::Service, ms(now), ms(0)),
        }
    }
    at
}

#[test]
fn who_fails_is_asked_later_and_later_and_who_comes_and_goes_too() {
    assert_eq!(asked_at(|_| false), [0, 100, 300, 700, 1500]);
    let back = asked_at(|now| now >= 250);
    assert_eq!(back[..4], [0, 100, 300, 310], "one after another until it is relied on");
    assert_eq!(back.len(), 2 + 270);
    // It fails each second time that it is asked.
    let calls = std::cell::Cell::new(0);
    let flaps = asked_at(|_| {
        calls.set(calls.get() + 1);
        calls.get() % 2 == 0
    });
    assert!(flaps.len() < 70, "{} of 300 times", flaps.len());
    // It goes well for two jobs each time before it fails again: each of them has taken back one
    // doubling, and no more.
    calls.set(0);
    let flaps = asked_at(|_| {
        calls.set(calls.get() + 1);
        ![1, 2, 3, 6, 9].contains(&calls.get())
    });
    let pauses: Vec<u64> =
        flaps.windows(2).map(|pair| pair[1] - pair[0]).filter(|pause| *pause > 10).collect();
    assert_eq!(pauses, [100, 200, 400, 200, 100]);
}

#[test]
fn one_probe_at_a_time_finds_out_and_one_outage_counts_once() {
    let (mut trust, job) = (Trust::default(), job(None));
    // Eight jobs were there when it went away.
    for _ in 0..8 {
        trust.failed(&job, Concern::Service, ms(1), ms(0));
    }
    assert_eq!(trust.advise(&job, ms(100)), Advice::Wait);
    assert_eq!(trust.advise(&job, ms(101)), Advice::Probe);
    trust.begin_probe();
    assert_eq!(trust.advise(&job, ms(101)), Advice::Wait, "somebody is finding out");
    trust.end_probe();
    trust.went_well(&job);
    assert!(trust.is_doubted());
    assert_eq!(trust.advise(&job, ms(102)), Advice::Probe);
    trust.went_well(&job);
    assert!(!trust.is_doubted());
    assert_eq!(trust.advise(&job, ms(102)), Advice::Ask);
    // It was waited for: for as long it is not asked, whatever went on.
    trust.failed(&job, Concern::Service, ms(200), ms(0));
    trust.failed(&job, Concern::Service, ms(210), ms(5000));
    assert_eq!(trust.advise(&job, ms(5209)), Advice::Wait);
    assert_eq!(trust.advise(&job, ms(5210)), Advice::Probe);
}

#[test]
fn what_is_lacking_for_some_jobs_says_nothing_of_others() {
    let (mut trust, plain, filtered) = (Trust::default(), job(None), job(Some("f")));
    trust.failed(&filtered, Concern::of(ErrorKind::Rejected), ms(0), ms(0));
    assert_eq!(trust.advise(&filtered, ms(99)), Advice::Lacking);
    assert_eq!(trust.advise(&plain, ms(0)), Advice::Ask);
    assert_eq!(trust.advise(&filtered, ms(100)), Advice::Ask, "somebody may have come who has it");
    trust.failed(&filtered, Concern::Need, ms(100), ms(0));
    assert_eq!(trust.advise(&filtered, ms(299)), Advice::Lacking);
    trust.went_well(&filtered);
    assert_eq!(trust.advise(&filtered, ms(299)), Advice::Ask);
    for number in 0..1000 {
        trust.failed(&job(Some(&format!("f{number}"))), Concern::Need, ms(number), ms(0));
    }
    assert_eq!(trust.lacking.len(), LACKING_MAX);
    assert!(!trust.is_doubted());
    // Jobs that fail for their own reasons are no outage, unless there is nothing else.
    let odd = |trust: &mut Trust| trust.failed(&plain, Concern::of(ErrorKind::Invalid), ms(2000), ms(0));
    (0..3).for_each(|_| odd(&mut trust));
    trust.went_well(&plain);
    (0..3).for_each(|_| odd(&mut trust));
    assert_eq!(trust.advise(&plain, ms(2000)), Advice::Ask);
    odd(&mut trust);
    assert_eq!(trust.advise(&plain, ms(2000)), Advice::Wait);
}
