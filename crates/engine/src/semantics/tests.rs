use super::*;
use crate::ErrorKind;

/// An operator, and a filter that drops values with its byte.
#[derive(Debug)]
struct Byte {
    name: &'static str,
    byte: u8,
    hash: u64,
}

impl MergeOperator for Byte {
    fn name(&self) -> &str {
        self.name
    }

    fn parameters_hash(&self) -> u64 {
        self.hash
    }

    fn merge(&self, _key: &[u8], _base: Option<&[u8]>, _operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(vec![self.byte])
    }
}

impl CompactionFilter for Byte {
    fn name(&self) -> &str {
        self.name
    }

    fn parameters_hash(&self) -> u64 {
        self.hash
    }

    fn verdict(&self, _key: &[u8], value: &[u8]) -> FilterVerdict {
        if value.contains(&self.byte) { FilterVerdict::Drop } else { FilterVerdict::Keep }
    }
}

/// All of these, as operators and as filters.
fn knowing(codes: &[(&'static str, u8, u64)]) -> Semantics {
    codes.iter().fold(Semantics::new(), |semantics, (name, byte, hash)| {
        let code = Arc::new(Byte { name, byte: *byte, hash: *hash });
        semantics.with_merge_operator(Arc::clone(&code) as _).with_compaction_filter(code)
    })
}

/// The byte of what a job gets under `identity`, which is the same for an operator and a filter.
fn found(semantics: &Semantics, identity: &str) -> Option<u8> {
    let operator = semantics.merge_operator_of_job(identity).ok();
    let byte = operator.map(|operator| operator.merge(b"", None, &[]).unwrap()[0]);
    let filter = semantics.compaction_filter_of_job(identity).ok();
    assert_eq!(filter.is_some(), byte.is_some());
    assert!(filter.is_none_or(|filter| filter.verdict(b"", &[byte.unwrap()]) == FilterVerdict::Drop));
    byte
}

#[test]
fn jobs_find_code_with_its_parameters_and_keyspaces_the_last_of_a_name() {
    let semantics = knowing(&[("deny.1", 1, 0xa), ("deny.1", 2, 0xb), ("plain.1", 3, 0), ("plain.1", 4, 0)]);
    assert_eq!(found(&semantics, "deny.1#000000000000000a"), Some(1));
    assert_eq!(found(&semantics, "deny.1#000000000000000b"), Some(2));
    assert_eq!(found(&semantics, "plain.1"), Some(4), "the same again takes the place of the first");
    for lacking in
        ["deny.1", "deny.1#000000000000000c", "deny.1#000000000000000A", "plain.1#0000000000000000"]
    {
        assert_eq!(found(&semantics, lacking), None, "{lacking}");
    }
    let of_keyspace = |name| semantics.merge_operator(name)?.merge(b"", None, &[]);
    assert_eq!((of_keyspace("deny.1"), of_keyspace("plain.1")), (Some(vec![2]), Some(vec![4])));
    assert_eq!(of_keyspace("deny.1#000000000000000b"), None, "keyspaces have names");
    assert_eq!(semantics.merge_operator_identity("deny.1"), Some("deny.1#000000000000000b"));
    assert_eq!(semantics.compaction_filter_identity("deny.1"), Some("deny.1#000000000000000b"));
    assert_eq!(semantics.compaction_filter_identity("plain.1"), Some("plain.1"));
    let all = ["deny.1#000000000000000a", "deny.1#000000000000000b", "plain.1"];
    assert_eq!(semantics.merge_operator_identities().collect::<Vec<_>>(), all);
    assert_eq!(semantics.compaction_filter_identities().collect::<Vec<_>>(), all);
}

#[test]
fn a_name_like_an_identity_is_not_taken_for_one() {
    let (parameters, alike) = (("a", 1, 0xab), ("a#00000000000000ab", 2, 0));
    let identity = "a#00000000000000ab";
    assert_eq!(found(&knowing(&[parameters]), identity), Some(1));
    assert_eq!(found(&knowing(&[alike]), identity), None);
    let both = knowing(&[parameters, alike]);
    assert_eq!(found(&both, both.merge_operator_identity("a").unwrap()), Some(1));
    assert_eq!(found(&both, both.merge_operator_identity(alike.0).unwrap()), Some(2));
    let plain = knowing(&[("a#b", 3, 0)]);
    assert_eq!(found(&plain, "a#b"), Some(3), "other names with a # stay as they are");
}

#[test]
fn who_lacks_the_parameters_says_which_it_has_and_what_to_do() {
    let semantics = knowing(&[("deny.1", 1, 0xa), ("deny.1", 2, 0xb)]);
    let error = semantics.compaction_filter_of_job("deny.1#000000000000000c").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(
        error.message(),
        "no compaction filter \"deny.1\" with the job's parameters here (hash 000000000000000c), only with others \
         (hash 000000000000000a, 000000000000000b): register it with the parameters that the job's database gives it"
    );
    let error = semantics.merge_operator_of_job("deny.1").unwrap_err();
    assert!(error.message().contains("(hash 0000000000000000)"), "{error}");
    let error = semantics.merge_operator_of_job("other.1").unwrap_err();
    assert_eq!(error.message(), "no merge operator \"other.1\" here");
}
