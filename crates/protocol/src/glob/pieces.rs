//! Long patterns on long texts: the pieces between stars are looked for one by one.
//!
//! Each element of a piece takes one byte. The first piece must stand at the front and the last one
//! at the end. Each piece between them is taken where it is found first, which leaves the most text
//! to the others.

/// What one byte must be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Element {
    Any,
    Byte(u8),
    /// Which bytes, a bit for each.
    Set(Box<[u64; 4]>),
}

impl Element {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Element::Any => true,
            Element::Byte(wanted) => *wanted == byte,
            Element::Set(set) => set[usize::from(byte / 64)] >> (byte % 64) & 1 == 1,
        }
    }
}

/// As [`matches()`](super::matches) with folded bytes, by the pieces of the pattern.
pub(super) fn matches(pattern: &[u8], text: &[u8], fold: impl Fn(u8) -> u8) -> bool {
    let pieces = pieces_of(pattern, &fold);
    let bytes_min: usize = pieces.iter().map(Vec::len).sum();
    let ([first, rest @ ..], true) = (pieces.as_slice(), bytes_min <= text.len()) else { return false };
    let stands_at =
        |piece: &[Element], at: &[u8]| piece.iter().zip(at).all(|(element, byte)| element.takes(fold(*byte)));
    let Some((last, middle)) = rest.split_last() else {
        return first.len() == text.len() && stands_at(first, text);
    };
    let (front, text) = text.split_at(first.len());
    let (mut text, end) = text.split_at(text.len() - last.len());
    if !stands_at(first, front) || !stands_at(last, end) {
        return false;
    }
    for piece in middle {
        let Some(end) = end_of_first(piece, text, &fold) else { return false };
        text = text.get(end..).unwrap_or_default();
    }
    true
}

/// What stands before, between and behind the stars.
fn pieces_of(pattern: &[u8], fold: &impl Fn(u8) -> u8) -> Vec<Vec<Element>> {
    let mut pieces = vec![Vec::new()];
    let mut rest = pattern;
    while let Some((byte, after)) = rest.split_first() {
        let (element, after) = match (byte, after) {
            (b'*', _) => {
                // Between two stars there is nothing.
                if pieces.len() == 1 || pieces.last().is_some_and(|piece| !piece.is_empty()) {
                    pieces.push(Vec::new());
                }
                rest = after;
                continue;
            }
            (b'?', _) => (Element::Any, after),
            (b'[', _) => {
                let (set, after) = set_of(after, fold);
                (Element::Set(Box::new(set)), after)
            }
            (b'\\', [literal, after @ ..]) => (Element::Byte(fold(*literal)), after),
            _ => (Element::Byte(fold(*byte)), after),
        };
        if let Some(piece) = pieces.last_mut() {
            piece.push(element);
        }
        rest = after;
    }
    pieces
}

/// The set that begins `pattern`, and what follows it.
fn set_of<'a>(pattern: &'a [u8], fold: &impl Fn(u8) -> u8) -> ([u64; 4], &'a [u8]) {
    let (is_negated, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut set = [0; 4];
    let mut add = |byte: u8| set[usize::from(byte / 64)] |= 1 << (byte % 64);
    rest = loop {
        rest = match rest {
            [] => break rest,
            [b']', after @ ..] => break after,
            [b'\\', literal, after @ ..] => {
                add(fold(*literal));
                after
            }
            [first, b'-', last, after @ ..] => {
                let (first, last) = (fold(*first), fold(*last));
                (first.min(last)..=first.max(last)).for_each(&mut add);
                after
            }
            [literal, after @ ..] => {
                add(fold(*literal));
                after
            }
        };
    };
    (set.map(|word| if is_negated { !word } else { word }), rest)
}

/// Where the first place ends at which `piece` stands.
fn end_of_first(piece: &[Element], text: &[u8], fold: &impl Fn(u8) -> u8) -> Option<usize> {
    if piece.len() > text.len() {
        return None;
    }
    let plain =
        piece.iter().map(|element| if let Element::Byte(byte) = element { Some(*byte) } else { None });
    match plain.collect::<Option<Vec<u8>>>() {
        Some(bytes) => end_of_bytes(&bytes, text, fold),
        None => end_of_elements(piece, text, fold),
    }
}

/// The same of plain bytes. After a byte that does not fit, what was found stays of use: of the
/// longest piece's front that the text ends with there.
fn end_of_bytes(wanted: &[u8], text: &[u8], fold: &impl Fn(u8) -> u8) -> Option<usize> {
    // For each front of what is wanted, the longest shorter front that it ends with.
    let mut shorter = vec![0_usize; wanted.len()];
    let mut found = 0;
    for at in 1..wanted.len() {
        while found > 0 && wanted[at] != wanted[found] {
            found = shorter[found - 1];
        }
        found += usize::from(wanted[at] == wanted[found]);
        shorter[at] = found;
    }
    found = 0;
    for (at, byte) in text.iter().enumerate() {
        let byte = fold(*byte);
        while found > 0 && wanted.get(found) != Some(&byte) {
            found = shorter[found - 1];
        }
        found += usize::from(wanted.get(found) == Some(&byte));
        if found == wanted.len() {
            return Some(at + 1);
        }
    }
    None
}

/// The same of any elements: a bit for each front of the piece says whether the text ends with it,
/// 64 of them a step.
fn end_of_elements(piece: &[Element], text: &[u8], fold: &impl Fn(u8) -> u8) -> Option<usize> {
    let words = piece.len().div_ceil(64);
    // For each byte the elements that take it.
    let mut takes = vec![0_u64; 256 * words];
    for byte in 0..=u8::MAX {
        let row = &mut takes[usize::from(byte) * words..][..words];
        for (at, element) in piece.iter().enumerate() {
            row[at / 64] |= u64::from(element.takes(byte)) << (at % 64);
        }
    }
    let mut fronts = vec![0_u64; words];
    let last = piece.len() - 1;
    for (at, byte) in text.iter().enumerate() {
        let row = &takes[usize::from(fold(*byte)) * words..][..words];
        let mut carried = 1;
        for (front, takes) in fronts.iter_mut().zip(row) {
            let longer = *front << 1 | carried;
            carried = *front >> 63;
            *front = longer & takes;
        }
        if fronts[last / 64] >> (last % 64) & 1 == 1 {
            return Some(at + 1);
        }
    }
    None
}
