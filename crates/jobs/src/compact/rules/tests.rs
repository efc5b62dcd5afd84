use super::*;

fn range(start: &str, end: Option<&str>) -> KeyRange {
    KeyRange { start: start.into(), end: end.map(Into::into) }
}

#[test]
fn ranges_are_joined() {
    let ranges = vec![
        range("m", Some("p")),
        range("a", Some("c")),
        range("b", Some("d")),
        range("d", Some("e")),
        range("x", None),
        range("y", Some("z")),
        range("q", Some("q")),
    ];
    assert_eq!(disjoint(ranges), [range("a", Some("e")), range("m", Some("p")), range("x", None)]);
    assert_eq!(disjoint(vec![KeyRange::all(), range("b", Some("c"))]), [KeyRange::all()]);
}

#[test]
fn names_nobody_knows_are_rejected() {
    let named = |merge: Option<&str>, filter: Option<&str>| {
        let (merge_operator, compaction_filter) = (merge.map(Into::into), filter.map(Into::into));
        let rules = Rules { merge_operator, compaction_filter, ..Rules::default() };
        CompactRules::new(&rules, &Semantics::new()).map(drop).map_err(|error| error.kind)
    };
    assert_eq!(named(None, None), Ok(()));
    assert_eq!(named(Some("add.1"), None), Err(ErrorKind::Rejected));
    assert_eq!(named(None, Some("odd.1")), Err(ErrorKind::Rejected));
}
