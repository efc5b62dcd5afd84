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

/// A filter and an operator of one name, with its parameters' hash.
#[derive(Debug)]
struct Hashed(u64);

impl CompactionFilter for Hashed {
    fn name(&self) -> &str {
        "deny.1"
    }

    fn parameters_hash(&self) -> u64 {
        self.0
    }

    fn verdict(&self, _: &[u8], _: &[u8]) -> FilterVerdict {
        FilterVerdict::Keep
    }
}

impl MergeOperator for Hashed {
    fn name(&self) -> &str {
        "deny.1"
    }

    fn parameters_hash(&self) -> u64 {
        self.0
    }

    fn merge(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn other_parameters_are_rejected_with_the_hashes_of_both() {
    let knowing = |hash| {
        let semantics = Semantics::new().with_merge_operator(Arc::new(Hashed(hash)));
        semantics.with_compaction_filter(Arc::new(Hashed(hash)))
    };
    for hash in [0, 0xa] {
        let makes = knowing(hash);
        let named = makes.merge_operator_identity("deny.1").map(str::to_owned);
        let merges = Rules { merge_operator: named.clone(), ..Rules::default() };
        let filters = Rules { compaction_filter: named, ..Rules::default() };
        for rules in [merges, filters] {
            CompactRules::new(&rules, &makes).unwrap();
            let error = CompactRules::new(&rules, &knowing(0xb)).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Rejected);
            let hashes = format!("(hash {hash:016x}), only with others (hash 000000000000000b)");
            assert!(error.message.contains(&hashes), "{error}");
            assert!(error.message.contains("register it with the parameters"), "{error}");
        }
    }
}
