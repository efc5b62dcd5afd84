//! INFO: everything that is counted, in sections of lines.
//!
//! Names are those of Redis where the thing is the same or must be there for clients. Names that
//! have no meaning here and that no client reads are left out. Section `firn` is the engine's.

mod sections;
mod commands;
mod engine;

use std::fmt::{Display, Write as _};

use crate::count_keys::{self, Age};
use crate::execute::call::Call;
use crate::failure::Result;

/// The sections in their order, and whether they are told unless others are asked for.
const SECTIONS: [(&str, bool); 14] = [
    ("server", true),
    ("clients", true),
    ("memory", true),
    ("persistence", true),
    ("stats", true),
    ("replication", true),
    ("cpu", true),
    ("modules", true),
    ("commandstats", false),
    ("errorstats", true),
    ("latencystats", false),
    ("cluster", true),
    ("keyspace", true),
    ("firn", true),
];

/// The lines of a reply.
#[derive(Debug, Default)]
pub(super) struct Lines(String);

impl Lines {
    fn section(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push_str("\r\n");
        }
        let mut letters = name.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        // As `CPU` is written.
        let title = if name == "cpu" { "CPU".to_owned() } else { first.into_iter().chain(letters).collect() };
        self.0.push_str(&format!("# {title}\r\n"));
    }

    /// A line.
    pub(super) fn line(&mut self, name: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{name}:{value}\r\n");
    }

    /// Bytes, and the same for people.
    pub(super) fn bytes(&mut self, name: &str, bytes: u64) {
        self.line(name, bytes);
        self.line(&format!("{name}_human"), human(bytes));
    }
}

/// Bytes as people read them.
fn human(bytes: u64) -> String {
    let units = ["B", "K", "M", "G", "T", "P"];
    let power = (bytes.max(1).ilog2() / 10).min(units.len() as u32 - 1);
    match power {
        0 => format!("{bytes}B"),
        power => format!("{:.2}{}", bytes as f64 / (1_u64 << (10 * power)) as f64, units[power as usize]),
    }
}

/// `INFO [section ...]`
pub(super) async fn info(call: &mut Call<'_>) -> Result<()> {
    let mut wanted: Vec<&str> = Vec::new();
    let mut want = |is_meant: &dyn Fn(&str, bool) -> bool| {
        let meant = SECTIONS.iter().filter(|(name, is_default)| is_meant(name, *is_default));
        wanted.extend(meant.map(|(name, _)| *name));
    };
    if call.arguments.len() == 1 {
        want(&|_, is_default| is_default);
    }
    for word in call.arguments.from(1).iter() {
        let word = String::from_utf8_lossy(word).to_ascii_lowercase();
        match word.as_str() {
            "default" => want(&|_, is_default| is_default),
            "all" | "everything" => want(&|_, _| true),
            word => want(&|name, _| name == word),
        }
    }
    let mut lines = Lines::default();
    for (name, _) in SECTIONS.iter().filter(|(name, _)| wanted.contains(name)) {
        lines.section(name);
        write_section(call, name, &mut lines).await?;
    }
    call.reply(|reply| reply.verbatim(b"txt", lines.0.as_bytes()));
    Ok(())
}

async fn write_section(call: &Call<'_>, name: &str, lines: &mut Lines) -> Result<()> {
    let thread = call.thread;
    match name {
        "server" => sections::server(thread, lines),
        "clients" => sections::clients(thread, lines),
        "memory" => sections::memory(thread, lines),
        "persistence" => sections::persistence(thread, lines),
        "stats" => sections::stats(thread, lines),
        "replication" => sections::replication(thread, lines),
        "cpu" => sections::cpu(lines),
        "commandstats" => commands::calls(thread, lines),
        "errorstats" => commands::errors(thread, lines),
        "latencystats" => commands::percentiles(thread, lines),
        "cluster" => lines.line("cluster_enabled", 0),
        "keyspace" => {
            let counted = count_keys::of_all(thread).await?;
            for (index, count) in counted.counts.iter().enumerate().filter(|(_, count)| count.keys > 0) {
                let (keys, expires, ttl) = (count.keys, count.expiring, count.left_ms_mean());
                lines.line(&format!("db{index}"), format!("keys={keys},expires={expires},avg_ttl={ttl}"));
            }
            match counted.age {
                Age::New => {}
                Age::Old(age) => lines.line("keys_counted_seconds_ago", age.as_secs()),
                Age::Unknown => lines.line("keys_counted_seconds_ago", -1),
            }
        }
        "firn" => engine::firn(thread, lines),
        // There are no modules to tell of.
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_readable() {
        let cases =
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (1_500_000, "1.43M"), (25_276_502_016, "23.54G")];
        for (bytes, text) in cases {
            assert_eq!(human(bytes), text);
        }
        assert_eq!(human(u64::MAX), "16384.00P");
    }
}
