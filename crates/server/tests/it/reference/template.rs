//! Commands drawn from templates.

use fastrand::Rng;

const KEYS: [&str; 6] = ["a", "b", "c", "{a}d", "long-key-number-5", "e"];
const MEMBERS: [&str; 8] = ["m1", "m2", "m3", "m4", "x", "yy", "1", "-3"];
const PATTERNS: [&str; 5] = ["*", "m*", "?", "[a-c]", "*1"];
/// Words that are no number although they look like one, or are one where another is expected.
const ODD: [&str; 6] = ["", "abc", "1x", "9223372036854775807", "-9223372036854775808", " 1"];

/// The words of a command.
pub(super) fn draw(template: &str, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut is_left_out = false;
    for word in template.split(' ') {
        let opens = word.starts_with('[');
        let closes = word.ends_with(']');
        if opens {
            is_left_out = rng.bool();
        }
        if !is_left_out {
            let word = word.trim_start_matches('[').trim_end_matches(']');
            let choices: Vec<&str> = word.split('|').collect();
            words.push(word_for(choices[rng.usize(..choices.len())], rng));
        }
        if closes {
            is_left_out = false;
        }
    }
    words
}

fn word_for(word: &str, rng: &mut Rng) -> Vec<u8> {
    let of = |words: &[&str], rng: &mut Rng| words[rng.usize(..words.len())].as_bytes().to_vec();
    match word {
        "K" => of(&KEYS, rng),
        "M" => of(&MEMBERS, rng),
        "P" => of(&PATTERNS, rng),
        "I" if rng.u8(..) < 10 => of(&ODD, rng),
        "I" => rng.i64(-6..12).to_string().into_bytes(),
        "F" if rng.u8(..) < 10 => of(&["", "abc", "1x", "inf", "nan"], rng),
        "F" => (f64::from(rng.i32(-40..40)) / 4.0).to_string().into_bytes(),
        "D" => decimal(rng),
        "A" => (0..rng.usize(..40)).map(|_| rng.u8(b'a'..b'd')).collect(),
        "V" => value(rng),
        "S" => value(rng).into_iter().take(300).collect(),
        word => word.as_bytes().to_vec(),
    }
}

/// A number with up to 19 digits before and behind the point, sometimes with an exponent.
fn decimal(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::from(if rng.bool() { "-" } else { "" });
    text.push_str(&(rng.u64(..) >> rng.u32(..64)).to_string());
    if rng.bool() {
        text.push('.');
        (0..rng.usize(1..=19)).for_each(|_| text.push(rng.digit(10)));
    }
    if rng.u8(..) < 40 {
        text.push_str(&format!("e{}", rng.i32(-25..25)));
    }
    text.into_bytes()
}

fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.u8(..10) {
        0 => Vec::new(),
        1..4 => rng.i32(-20..1000).to_string().into_bytes(),
        4 => (0..rng.usize(..200)).map(|_| rng.u8(..)).collect(),
        5 => vec![b'v'; rng.usize(60_000..80_000)],
        _ => (0..rng.usize(1..12)).map(|_| rng.alphanumeric() as u8).collect(),
    }
}

/// A command as a person would type it, long words cut.
pub(super) fn shown(words: &[Vec<u8>]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| match word.len() {
            0 => "\"\"".into(),
            1..=40 => word.escape_ascii().to_string(),
            bytes => format!("{}…({bytes} bytes)", word[..16].escape_ascii()),
        })
        .collect();
    words.join(" ")
}
