//! The checks of the fuzz targets, with bytes from a seed: sensible messages that were damaged.

#[path = "../fuzz/checks.rs"]
mod checks;

/// Messages to begin with.
const MESSAGES: &[&[u8]] = &[
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    b"SET key \"a \\x00 value\"\r\nGET key\nMGET a b c\r\n\r\n",
    b"*5\r\n$4\r\nEVAL\r\n$1\r\nx\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\nb\r\n",
    b"*6\r\n$11\r\nZUNIONSTORE\r\n$1\r\nd\r\n$1\r\n2\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n*0\r\n*-1\r\nPING\r\n",
    b"*2\r\n%1\r\n+a\r\n:1\r\n~2\r\n,1.5\r\n#t\r\n",
    b"*4\r\n$-1\r\n_\r\n(123456789012345678901234567890\r\n=7\r\ntxt:abc\r\n",
    b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n-ERR no\r\n",
];

#[test]
fn damaged_messages_are_parsed_alike_however_they_come() {
    const SEED: u64 = 1;
    let mut rng = fastrand::Rng::with_seed(SEED);
    for _ in 0..40_000 {
        let mut bytes = MESSAGES[rng.usize(..MESSAGES.len())].to_vec();
        for _ in 0..rng.usize(..5) {
            let at = rng.usize(..bytes.len());
            match rng.u8(..4) {
                0 => bytes[at] = rng.u8(..),
                1 => bytes[at] = *rng.choice(b"*$\r\n0123456789-+\"'\\ %~#,_(>=").expect("some"),
                2 => bytes.truncate(at.max(1)),
                _ => bytes.extend_from_slice(MESSAGES[rng.usize(..MESSAGES.len())]),
            }
        }
        for (name, check) in checks::ALL {
            let checked = std::panic::catch_unwind(|| check(&bytes));
            assert!(checked.is_ok(), "{name}: {}", bytes.escape_ascii());
        }
    }
    checks::run("reply", b"+OK\r\n");
}
