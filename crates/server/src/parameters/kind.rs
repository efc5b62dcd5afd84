//! What a parameter may be set to.

use std::borrow::Cow;
use std::fmt::Display;
use std::num::IntErrorKind;

/// The values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `yes` or `no`.
    Flag,
    /// A number from the first to the second.
    Number(i64, i64),
    /// The same, kept as the third if it is less, as the fourth if it is more.
    Clamped(i64, i64, i64, i64),
    /// Bytes from the first to the second: digits and a unit.
    Memory(u64, u64),
    /// Bytes, or so many of a hundred of all memory.
    MemoryOrPercent,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Anything.
    Text,
    /// A text with names in braces, of [`TITLE_NAMES`].
    Title,
    /// As the kind says, but no other value than it has: why.
    Only(&'static Kind, &'static str),
    /// Pairs of seconds and changes.
    Save,
    /// Letters, each a class of events.
    Events,
    /// Limits for classes of clients, four words each.
    OutputLimits,
    /// Numbers from 0 to 100.
    Percentiles,
    /// Three numbers.
    ThreeNumbers,
    /// Nothing: as it is since the start.
    Fixed,
    /// Nothing that a client says.
    Guarded,
}

/// Classes of events, in the order in which they are answered; `A` stands for the first ten.
const EVENTS: &str = "g$lshzxetdKEmn";
const EVENTS_OF_A: usize = 10;

/// What the title of a process may name.
const TITLE_NAMES: [&str; 7] =
    ["title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"];

/// Those of them that say nothing here.
const EMPTY_TITLE_NAMES: [&str; 3] = ["title", "unixsocket", "config-file"];

impl Kind {
    /// `value` as it is kept, where `before` is kept now; or why it is refused, in the words of
    /// Redis.
    pub(super) fn check(self, value: &[u8], before: &[u8]) -> Result<Vec<u8>, Cow<'static, str>> {
        let text = std::str::from_utf8(value);
        let text = || text.map_err(|_| Cow::Borrowed("argument is not a text"));
        match self {
            Kind::Flag => match value.to_ascii_lowercase() {
                word if word == b"yes" || word == b"no" => Ok(word),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Kind::Number(min, max) => number(value, min, max),
            Kind::Clamped(min, max, low, high) => {
                let kept = integer(number(value, min, max)?.as_slice())?.clamp(low, high);
                Ok(kept.to_string().into_bytes())
            }
            Kind::Memory(min, max) => {
                let bytes = memory(value).ok_or(Cow::Borrowed("argument must be a memory value"))?;
                within(bytes, min, max)
            }
            Kind::MemoryOrPercent => match value.strip_suffix(b"%") {
                Some(share) if memory(share).is_some_and(|share| share <= 100) => Ok(value.to_vec()),
                Some(_) => Err("argument must be a memory or percent value".into()),
                None => match memory(value) {
                    Some(bytes) => Ok(bytes.to_string().into_bytes()),
                    None => Err("argument must be a memory or percent value".into()),
                },
            },
            Kind::Choice(words) => {
                let is_named = |word: &&&str| value.eq_ignore_ascii_case(word.as_bytes());
                let found = words.iter().find(is_named).map(|word| word.as_bytes().to_vec());
                found.ok_or_else(|| {
                    format!("argument(s) must be one of the following: {}", words.join(", ")).into()
                })
            }
            Kind::Text => Ok(value.to_vec()),
            Kind::Title => match is_title(text()?) {
                true => Ok(value.to_vec()),
                false => Err("template format is invalid or contains unknown variables".into()),
            },
            Kind::Only(kind, why) => kind
                .check(value, before)
                .and_then(|kept| if kept == before { Ok(kept) } else { Err(why.into()) }),
            Kind::Save => pairs(text()?).ok_or("Invalid save parameters".into()),
            Kind::Events => events(value),
            Kind::OutputLimits => output_limits(text()?, &String::from_utf8_lossy(before)),
            Kind::Percentiles => {
                percentiles(text()?).ok_or("Invalid latency-tracking-info-percentiles parameters".into())
            }
            Kind::ThreeNumbers => three_numbers(text()?),
            Kind::Fixed => Err("can't set immutable config".into()),
            Kind::Guarded => Err("can't set protected config".into()),
        }
    }
}

fn number(value: &[u8], min: i64, max: i64) -> Result<Vec<u8>, Cow<'static, str>> {
    within(integer(value)?, min, max)
}

fn integer(value: &[u8]) -> Result<i64, Cow<'static, str>> {
    firn_protocol::number::parse_integer(value)
        .ok_or(Cow::Borrowed("argument couldn't be parsed into an integer"))
}

/// Whether all names in braces are known, and what it says is not blank; two braces that open are
/// one of the text.
fn is_title(text: &str) -> bool {
    let mut rest = text;
    let mut has_text = false;
    while let Some((before, after)) = rest.split_once('{') {
        has_text |= !before.trim().is_empty();
        rest = match (after.strip_prefix('{'), after.split_once('}')) {
            (Some(after), _) => {
                has_text = true;
                after
            }
            (None, Some((name, after))) if TITLE_NAMES.contains(&name) => {
                has_text |= !EMPTY_TITLE_NAMES.contains(&name);
                after
            }
            _ => return false,
        };
    }
    has_text || !rest.trim().is_empty()
}

fn within<N: Copy + PartialOrd + Display>(number: N, min: N, max: N) -> Result<Vec<u8>, Cow<'static, str>> {
    match (min..=max).contains(&number) {
        true => Ok(number.to_string().into_bytes()),
        false => Err(format!("argument must be between {min} and {max} inclusive").into()),
    }
}

/// Bytes, from digits and perhaps a unit: more than a number can say are as many as it can.
fn memory(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.to_ascii_lowercase();
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let digits = text.get(..text.len() - unit.len())?;
    let factor: u64 = match unit {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    let number = match digits.parse::<u64>() {
        Ok(number) => number,
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => u64::MAX,
        Err(_) => return None,
    };
    Some(number.saturating_mul(factor))
}

fn pairs(text: &str) -> Option<Vec<u8>> {
    let words: Vec<&str> = text.split(' ').filter(|_| !text.is_empty()).collect();
    let is_pair = |pair: &[&str]| match pair {
        [seconds, changes] => {
            seconds.parse::<i64>().is_ok_and(|seconds| seconds >= 1)
                && changes.parse::<i64>().is_ok_and(|changes| changes >= 0)
        }
        _ => false,
    };
    words.chunks(2).all(is_pair).then(|| words.join(" ").into_bytes())
}

fn events(value: &[u8]) -> Result<Vec<u8>, Cow<'static, str>> {
    let mut wanted = [false; EVENTS.len()];
    for letter in value {
        match EVENTS.bytes().position(|known| known == *letter) {
            Some(index) => wanted[index] = true,
            None if *letter == b'A' => wanted[..EVENTS_OF_A].fill(true),
            None => return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into()),
        }
    }
    let has_all = wanted[..EVENTS_OF_A].iter().all(|is_wanted| *is_wanted);
    let skipped = if has_all { EVENTS_OF_A } else { 0 };
    let letters = EVENTS.bytes().zip(wanted).skip(skipped).filter(|(_, is_wanted)| *is_wanted);
    Ok(has_all.then_some(b'A').into_iter().chain(letters.map(|(letter, _)| letter)).collect())
}

/// Limits of all classes: those of `text` in place of those of `before`.
fn output_limits(text: &str, before: &str) -> Result<Vec<u8>, Cow<'static, str>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits: Vec<String> = before.split_whitespace().map(str::to_owned).collect();
    for group in words.chunks(4) {
        let [class, hard, soft, seconds] = group else { continue };
        let class = match class.to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 1,
            "pubsub" => 2,
            _ => return Err("Invalid client class specified in buffer limit configuration.".into()),
        };
        let parsed = (memory(hard.as_bytes()), memory(soft.as_bytes()), seconds.parse::<u32>());
        let (Some(hard), Some(soft), Ok(seconds)) = parsed else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".into());
        };
        let values = [hard.to_string(), soft.to_string(), seconds.to_string()];
        for (place, value) in limits.iter_mut().skip(class * 4 + 1).zip(values) {
            *place = value;
        }
    }
    Ok(limits.join(" ").into_bytes())
}

fn percentiles(text: &str) -> Option<Vec<u8>> {
    let is_one = |word: &str| word.parse::<f64>().is_ok_and(|number| (0.0..=100.0).contains(&number));
    let words: Vec<&str> = text.split_whitespace().collect();
    words.iter().all(|word| is_one(word)).then(|| words.join(" ").into_bytes())
}

fn three_numbers(text: &str) -> Result<Vec<u8>, Cow<'static, str>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    let is_one = |word: &&str| word.parse::<i32>().is_ok_and(|number| (-2000..=2000).contains(&number));
    match words.iter().all(is_one) {
        true => Ok(words.join(" ").into_bytes()),
        false => Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_in_one_form() {
        let kept = |kind: Kind, value: &str, before: &str| {
            let checked = kind.check(value.as_bytes(), before.as_bytes());
            checked.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(Cow::into_owned)
        };
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(kept(Kind::Flag, "YES", ""), ok("yes"));
        let memory = Kind::Memory(1 << 10, i64::MAX as u64);
        assert_eq!(kept(memory, "1Kb", ""), ok("1024"));
        assert_eq!(kept(memory, "2g", ""), ok("2000000000"));
        assert!(kept(memory, "1x", "").is_err() && kept(memory, "", "").is_err());
        for value in ["1023", "99999999999gb", "9223372036854775808", "99999999999999999999"] {
            let refusal = "argument must be between 1024 and 9223372036854775807 inclusive";
            assert_eq!(kept(memory, value, ""), Err(refusal.to_owned()), "{value}");
        }
        assert_eq!(kept(Kind::MemoryOrPercent, "10%", ""), ok("10%"));
        assert_eq!(kept(Kind::Choice(&["a", "b"]), "B", ""), ok("b"));
        assert_eq!(kept(Kind::Events, "KEA", ""), ok("AKE"));
        assert_eq!(kept(Kind::Events, "nxg", ""), ok("gxn"));
        assert_eq!(kept(Kind::Save, "60 1 5 10", ""), ok("60 1 5 10"));
        assert!(kept(Kind::Save, "60  1", "").is_err());
        assert_eq!(kept(Kind::Save, "", ""), ok(""));
        assert!(kept(Kind::Save, "60", "").is_err());
        let before = "normal 0 0 0 slave 1 2 3 pubsub 4 5 6";
        assert_eq!(
            kept(Kind::OutputLimits, "replica 1mb 2 60 normal 9 9 9", before),
            ok("normal 9 9 9 slave 1048576 2 60 pubsub 4 5 6")
        );
        assert!(kept(Kind::OutputLimits, "other 1 2 3", before).is_err());
        assert_eq!(kept(Kind::Percentiles, "50  99.9", ""), ok("50 99.9"));
        assert!(kept(Kind::Percentiles, "101", "").is_err());
        assert!(kept(Kind::Fixed, "x", "x").is_err());
        let clamped = Kind::Clamped(0, 1000, 1, 500);
        assert_eq!(kept(clamped, "1000", ""), ok("500"));
        assert_eq!((kept(clamped, "0", ""), kept(clamped, "7", "")), (ok("1"), ok("7")));
        assert!(kept(clamped, "1001", "").is_err() && kept(clamped, "x", "").is_err());
        let only = Kind::Only(&Kind::Flag, "why");
        assert_eq!((kept(only, "NO", "no"), kept(only, "yes", "no")), (ok("no"), Err("why".to_owned())));
        assert!(kept(only, "x", "no").is_err());
    }

    #[test]
    fn titles_name_what_is_known() {
        for title in ["a", "{title} {listen-addr}", "{port}}", "{{", "{{port}", "port}", "{title}{{{port}"] {
            assert!(is_title(title), "{title}");
        }
        for title in [
            "",
            " ",
            "{title}",
            " {unixsocket} {title}",
            "{",
            "{}",
            "{port",
            "{foo}",
            "{title} {Port}",
            "{{{",
        ] {
            assert!(!is_title(title), "{title}");
        }
    }
}
