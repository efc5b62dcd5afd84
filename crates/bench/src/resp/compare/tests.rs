use super::*;
use crate::resp::result::ServerUse;

#[test]
fn turns_rotate() {
    let turns = |targets, repetitions| {
        (0..repetitions).map(|repetition| order(targets, repetition)).collect::<Vec<_>>()
    };
    assert_eq!(turns(2, 4), [[0, 1], [1, 0], [0, 1], [1, 0]]);
    assert_eq!(turns(3, 3), [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    assert_eq!(order(1, 5), [0]);
}

#[test]
fn medians_are_the_middle() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(median(&[7.0]), 7.0);
    assert_eq!(median(&[]), 0.0);
}

fn result(target: &str, command: &str, requests_per_s: f64, cpu_us: Option<f64>) -> RespResult {
    let server = cpu_us.map(|cpu_us_per_request| ServerUse { cpu_us_per_request, ..ServerUse::default() });
    RespResult {
        target: target.into(),
        command: command.into(),
        requests_per_s,
        server,
        ..RespResult::default()
    }
}

#[test]
fn commands_are_held_against_the_first_target() {
    let results = [
        result("a", "get", 100.0, Some(10.0)),
        result("b", "get", 300.0, Some(5.0)),
        result("b", "get", 200.0, None),
        result("a", "get", 80.0, Some(12.0)),
        result("a", "get", 120.0, Some(11.0)),
        result("b", "get", 250.0, Some(5.0)),
        result("a", "set", 10.0, Some(1.0)),
        result("b", "set", 5.0, Some(2.0)),
    ];
    let found = comparisons(&results, &["a".to_owned(), "b".to_owned()]);
    let named: Vec<_> = found.iter().map(|found| (found.command.as_str(), found.target.as_str())).collect();
    assert_eq!(named, [("get", "a"), ("get", "b"), ("set", "a"), ("set", "b")]);
    assert_eq!(found[0].requests_per_s, Versus { median: 100.0, spread: 0.4, ratio: Some(1.0) });
    assert_eq!(found[1].requests_per_s, Versus { median: 250.0, spread: 0.4, ratio: Some(2.5) });
    assert_eq!(found[0].server_cpu_us_per_request.map(|cpu| cpu.median), Some(11.0));
    assert_eq!(found[1].server_cpu_us_per_request, None, "one repetition does not know");
    assert_eq!(found[3].server_cpu_us_per_request.and_then(|cpu| cpu.ratio), Some(2.0));
    assert_eq!(found[3].requests_per_s.ratio, Some(0.5));
    let shown = table(&found);
    assert!(shown.contains("2.50x") && shown.contains("±20%") && shown.lines().count() == 6, "{shown}");
}
