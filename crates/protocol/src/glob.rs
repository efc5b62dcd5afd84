//! Patterns of `KEYS`, `SCAN MATCH`, `PSUBSCRIBE` and ACL rules.

mod pieces;

/// Whether all of `text` matches `pattern`.
///
/// `*` any bytes, `?` one byte, `[a-z^...]` one byte of a set (`^` first: not of it), `\` makes the
/// next byte ordinary. A set that is not closed ends with the pattern. Never blocks, and allocates
/// only where both are long.
///
/// Steps, for a pattern of m bytes and a text of n: m + n where the pieces between stars are plain
/// bytes. Otherwise also n for each 64 bytes of the longest piece that has `?` or sets, and 256 for
/// each range of a set.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_folded(pattern, text, |byte| byte)
}

/// As [`matches()`], where `A` is `a`.
pub fn matches_any_case(pattern: &[u8], text: &[u8]) -> bool {
    matches_folded(pattern, text, |byte| byte.to_ascii_lowercase())
}

/// Up to this product of both lengths the walk, which takes up to so many steps, costs less than
/// looking at the pattern first.
const WALK_STEPS_MAX: usize = 64 << 10;

fn matches_folded(pattern: &[u8], text: &[u8], fold: impl Fn(u8) -> u8) -> bool {
    match pattern.len().saturating_mul(text.len()) <= WALK_STEPS_MAX {
        true => walk(pattern, text, fold),
        false => pieces::matches(pattern, text, fold),
    }
}

/// Whether no byte of `pattern` means anything but itself.
pub fn is_literal(pattern: &[u8]) -> bool {
    !pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

/// The bytes that every match begins with.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'));
    pattern.get(..end.unwrap_or(pattern.len())).unwrap_or_default()
}

/// Of several stars only the last one need ever take more: what the earlier ones took is the
/// shortest that works.
fn walk(pattern: &[u8], text: &[u8], fold: impl Fn(u8) -> u8) -> bool {
    let (mut rest, mut left) = (pattern, text);
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some((b'*', after)) = rest.split_first() {
            rest = after;
            retry = Some((rest, left));
            continue;
        }
        match (one(rest, left.first().copied(), &fold), left.split_first()) {
            (_, None) if rest.is_empty() => return true,
            (Some(after), Some((_, others))) => (rest, left) = (after, others),
            _ => {
                let Some((after_star, from)) = retry else { return false };
                let Some((_, shorter)) = from.split_first() else { return false };
                (rest, left) = (after_star, shorter);
                retry = Some((after_star, shorter));
            }
        }
    }
}

/// What is left of `pattern` after its first element, if that matches `byte`.
fn one<'a>(pattern: &'a [u8], byte: Option<u8>, fold: &impl Fn(u8) -> u8) -> Option<&'a [u8]> {
    let byte = fold(byte?);
    match pattern {
        [] => None,
        [b'?', after @ ..] => Some(after),
        [b'[', set @ ..] => {
            let (is_in, after) = in_set(set, byte, fold);
            is_in.then_some(after)
        }
        [b'\\', literal, after @ ..] | [literal, after @ ..] => (fold(*literal) == byte).then_some(after),
    }
}

/// Whether `byte` is in the set that begins `pattern`, and what follows the set.
fn in_set<'a>(pattern: &'a [u8], byte: u8, fold: &impl Fn(u8) -> u8) -> (bool, &'a [u8]) {
    let (is_negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => return (found != is_negated, rest),
            [b']', after @ ..] => return (found != is_negated, after),
            [b'\\', literal, after @ ..] => {
                found |= fold(*literal) == byte;
                after
            }
            [first, b'-', last, after @ ..] => {
                let (first, last) = (fold(*first), fold(*last));
                found |= (first.min(last)..=first.max(last)).contains(&byte);
                after
            }
            [literal, after @ ..] => {
                found |= fold(*literal) == byte;
                after
            }
        };
    }
}

#[cfg(test)]
mod tests;
