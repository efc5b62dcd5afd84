use super::*;

#[test]
fn patterns_match_what_they_say() {
    let cases: [(&str, &str, bool); 33] = [
        ("", "", true),
        ("", "a", false),
        ("*", "", true),
        ("*", "abc", true),
        ("a*", "abc", true),
        ("a*", "bc", false),
        ("*c", "abc", true),
        ("*c", "abcd", false),
        ("a*c", "abbbc", true),
        ("a*b*c", "a1b2b3c", true),
        ("a*b*c", "a1c2b", false),
        ("***a", "bba", true),
        ("?", "a", true),
        ("?", "", false),
        ("h?llo", "hello", true),
        ("h?llo", "hllo", false),
        ("h[ae]llo", "hallo", true),
        ("h[ae]llo", "hillo", false),
        ("h[^e]llo", "hallo", true),
        ("h[^e]llo", "hello", false),
        ("h[a-b]llo", "hbllo", true),
        ("h[b-a]llo", "hallo", true),
        ("h[a-b]llo", "hcllo", false),
        ("\\*", "*", true),
        ("\\*", "a", false),
        ("[\\]]", "]", true),
        ("[\\-a]", "-", true),
        ("[a", "a", true),
        ("[a", "b", false),
        ("a\\", "a\\", true),
        ("[^", "x", true),
        ("[]", "a", false),
        ("[a-]", "a", true),
    ];
    for (pattern, text, expected) in cases {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern:?} on {text:?}");
    }
}

#[test]
fn case_matters_unless_it_does_not() {
    assert!(!matches(b"ABC*", b"abcd"));
    assert!(matches_any_case(b"ABC*", b"abcD"));
    assert!(matches_any_case(b"[A-C]x", b"bX"));
}

#[test]
fn many_stars_take_no_longer_than_the_text() {
    let pattern = b"a*".repeat(500);
    let text = b"a".repeat(5000);
    assert!(matches(&pattern, &text));
    assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
}

#[test]
fn prefixes_are_what_every_match_begins_with() {
    for (pattern, prefix) in [("user:*", "user:"), ("*", ""), ("abc", "abc"), ("a[bc]", "a"), ("a\\*", "a")] {
        assert_eq!(literal_prefix(pattern.as_bytes()), prefix.as_bytes());
    }
    assert!(is_literal(b"abc") && !is_literal(b"a?c"));
}

/// By trying everything.
fn slow(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|taken| slow(rest, &text[taken..])),
        _ => match one(pattern, text.first().copied(), &|byte| byte) {
            Some(rest) => slow(rest, &text[1..]),
            None => false,
        },
    }
}

#[test]
fn stars_find_every_match() {
    let mut rng = fastrand::Rng::with_seed(9);
    for _ in 0..20_000 {
        let mut word = |letters: &[u8], bytes_max| -> Vec<u8> {
            (0..rng.usize(0..bytes_max)).map(|_| letters[rng.usize(0..letters.len())]).collect()
        };
        let (pattern, text) = (word(b"ab*?*", 8), word(b"ab", 10));
        assert_eq!(matches(&pattern, &text), slow(&pattern, &text), "seed 9: {pattern:?} on {text:?}");
    }
}
