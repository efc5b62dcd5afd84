//! The longest common subsequence of two strings.

use std::ops::Range;

use super::call::Call;
use crate::failure::{Failure, Result};
use crate::transaction::STRING_BYTES_MAX;

/// Most memory that Redis, which takes four bytes for each pair of prefixes, spends on it. Here a
/// bit is enough.
const REDIS_BYTES_MAX: u64 = STRING_BYTES_MAX as u64;

/// Pairs that are looked at before others have a turn.
const CELLS_A_TURN: usize = 1 << 20;

/// What is asked for.
#[derive(Debug, Default)]
struct Options {
    only_len: bool,
    has_ranges: bool,
    has_lens: bool,
    /// Shortest range to be answered.
    len_min: u64,
}

impl Options {
    fn of(call: &Call<'_>) -> Result<Self> {
        let mut options = Self::default();
        let mut index = 3;
        while index < call.arguments.len() {
            match call.argument(index).to_ascii_lowercase().as_slice() {
                b"len" => options.only_len = true,
                b"idx" => options.has_ranges = true,
                b"withmatchlen" => options.has_lens = true,
                b"minmatchlen" if index + 1 < call.arguments.len() => {
                    index += 1;
                    options.len_min = u64::try_from(call.integer(index)?).unwrap_or(0);
                }
                _ => return Err(Failure::SYNTAX),
            }
            index += 1;
        }
        if options.has_ranges && options.only_len {
            return Err(Failure::new("ERR If you want both the length and indexes, please just use IDX."));
        }
        Ok(options)
    }
}

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN len] [WITHMATCHLEN]`
pub(super) async fn lcs(call: &mut Call<'_>) -> Result<()> {
    const NO_STRINGS: Failure = Failure::new("ERR The specified keys must contain string values");
    let entries = [call.entry(1).await?, call.entry(2).await?];
    if entries.iter().any(|entry| call.transaction.string_len(entry).is_err()) {
        return Err(NO_STRINGS);
    }
    let options = Options::of(call)?;
    let a = call.transaction.string(&entries[0]).await?.unwrap_or_default();
    let b = call.transaction.string(&entries[1]).await?.unwrap_or_default();
    let table = Table::of(call, &a, &b, !options.only_len).await?;
    if options.only_len {
        call.reply(|reply| reply.integer(table.len as i64));
        return Ok(());
    }
    let matches = table.matches(&a, &b);
    if !options.has_ranges {
        let common: Vec<u8> = matches.iter().rev().flat_map(|common| &a[common.in_a()]).copied().collect();
        call.reply(|reply| reply.bulk(&common));
        return Ok(());
    }
    let shown: Vec<&Match> = matches.iter().filter(|common| common.len as u64 >= options.len_min).collect();
    call.reply(|reply| {
        reply.map(2);
        reply.bulk(b"matches");
        reply.array(shown.len());
        for common in shown {
            reply.array(if options.has_lens { 3 } else { 2 });
            for range in [common.in_a(), common.in_b()] {
                reply.array(2);
                reply.integer(range.start as i64);
                reply.integer(range.end as i64 - 1);
            }
            if options.has_lens {
                reply.integer(common.len as i64);
            }
        }
        reply.bulk(b"len");
        reply.integer(table.len as i64);
    });
    Ok(())
}

/// A piece that both strings have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    a: usize,
    b: usize,
    len: usize,
}

impl Match {
    fn in_a(&self) -> Range<usize> {
        self.a..self.a + self.len
    }

    fn in_b(&self) -> Range<usize> {
        self.b..self.b + self.len
    }
}

/// How long the longest common subsequence is, and the way to it from the ends of both strings.
struct Table {
    len: u32,
    /// A bit for each pair of bytes that differ: the first string loses one, else the second does.
    ways: Vec<u64>,
}

impl Table {
    async fn of(call: &mut Call<'_>, a: &[u8], b: &[u8], has_way: bool) -> Result<Self> {
        if 4 * (a.len() as u64 + 1) * (b.len() as u64 + 1) > REDIS_BYTES_MAX {
            const TOO_LONG: &str =
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
            return Err(Failure::new(TOO_LONG));
        }
        let cells = a.len() * b.len();
        let mut ways = vec![0; if has_way { cells.div_ceil(64) } else { 0 }];
        // Lengths for what `a` has so far and each front of `b`.
        let mut row = vec![0_u32; b.len() + 1];
        let mut cells_done = 0;
        for (i, byte) in a.iter().enumerate() {
            let mut diagonal = 0;
            for j in 0..b.len() {
                let (up, left) = (row[j + 1], row[j]);
                row[j + 1] = if *byte == b[j] { diagonal + 1 } else { up.max(left) };
                diagonal = up;
                if has_way && up > left {
                    let cell = i * b.len() + j;
                    ways[cell / 64] |= 1 << (cell % 64);
                }
            }
            cells_done += b.len();
            if cells_done >= CELLS_A_TURN {
                cells_done = 0;
                call.thread.breathe().await;
            }
        }
        Ok(Self { len: row.last().copied().unwrap_or(0), ways })
    }

    /// The pieces of the subsequence, last one first.
    fn matches(&self, a: &[u8], b: &[u8]) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                match matches.last_mut().filter(|last| last.a == i && last.b == j) {
                    Some(last) => *last = Match { a: i - 1, b: j - 1, len: last.len + 1 },
                    None => matches.push(Match { a: i - 1, b: j - 1, len: 1 }),
                }
                (i, j) = (i - 1, j - 1);
                continue;
            }
            let cell = (i - 1) * b.len() + j - 1;
            match self.ways[cell / 64] >> (cell % 64) & 1 {
                1 => i -= 1,
                _ => j -= 1,
            }
        }
        matches
    }
}
