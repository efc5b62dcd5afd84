//! MEMORY: what memory and room are used for.

use firn_engine::ScanRange;
use firn_format::datatype::value::FRAGMENT_BYTES;
use firn_format::datatype::{Purge, Tag};
use firn_protocol::command::{CommandId, id_of};
use firn_protocol::number::parse_integer;

use super::help;
use crate::execute::call::Call;
use crate::failure::{Failure, Result};
use crate::process;
use crate::statistics::Gauge;

const HELP: &[(&str, &str)] = &[
    ("DOCTOR", "Say in words whether memory is short."),
    ("MALLOC-STATS", "What the engine holds memory for."),
    ("PURGE", "Nothing to do: memory goes back by itself."),
    ("STATS", "What memory is used for."),
    (
        "USAGE <key> [SAMPLES <count>]",
        "Bytes of a key with its value; of a collection, from so many of its parts (5 unless told otherwise, 0 for all).",
    ),
];

/// Parts that are looked at unless told otherwise.
const SAMPLES: i64 = 5;

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const DOCTOR: CommandId = id_of("memory|doctor");
    const HELP_ID: CommandId = id_of("memory|help");
    const MALLOC_STATS: CommandId = id_of("memory|malloc-stats");
    const PURGE: CommandId = id_of("memory|purge");
    const STATS: CommandId = id_of("memory|stats");
    const USAGE: CommandId = id_of("memory|usage");
    match call.command.id() {
        DOCTOR => doctor(call),
        HELP_ID => help(call, HELP),
        MALLOC_STATS => malloc_stats(call),
        PURGE => {
            call.reply(|reply| reply.ok());
            Ok(())
        }
        STATS => stats(call),
        USAGE => usage(call).await,
        _ => Err(call.not_offered()),
    }
}

/// `MEMORY USAGE key [SAMPLES count]`: bytes of the records, before compression.
async fn usage(call: &mut Call<'_>) -> Result<()> {
    let mut samples = SAMPLES;
    let mut index = 3;
    while index < call.arguments.len() {
        if !(call.is_word(index, "samples") && index + 1 < call.arguments.len()) {
            return Err(Failure::SYNTAX);
        }
        samples = parse_integer(call.argument(index + 1)).ok_or(Failure::NOT_AN_INTEGER)?;
        if samples < 0 {
            return Err(Failure::SYNTAX);
        }
        index += 2;
    }
    let entry = call.entry(2).await?;
    let Some(value) = entry.value()? else {
        call.reply(|reply| reply.null());
        return Ok(());
    };
    let mut bytes = (entry.key.bytes().len() + entry.record_bytes()) as u64;
    if let Some((collection, description)) = entry.collection_id()?.zip(value.collection().copied()) {
        let count = description.count;
        let parts = match value.tag() {
            Tag::LongString => count.div_ceil(u64::from(FRAGMENT_BYTES)),
            Tag::SortedSet => 2 * count,
            _ => count,
        };
        if !call.thread.engine.is_ordered() {
            // Of a long string, whose parts are as long as they can be, but for the last one.
            call.reply(|reply| reply.integer((bytes + count) as i64));
            return Ok(());
        }
        let (mut start, mut end) = (Vec::new(), Vec::new());
        Purge::Collection { collection, tag: value.tag(), count }.range(&mut start, &mut end);
        let keyspace = call.transaction.keyspaces().fields;
        let mut cursor = call.transaction.scan(keyspace, ScanRange::between(&start, &end))?;
        let (mut seen, mut seen_bytes) = (0_u64, 0_u64);
        while samples == 0 || seen < samples as u64 {
            let Some((key, value)) = cursor.next().await? else { break };
            seen += 1;
            seen_bytes += (key.len() + value.len()) as u64;
        }
        bytes += (u128::from(seen_bytes) * u128::from(parts) / u128::from(seen.max(1))) as u64;
    }
    call.reply(|reply| reply.integer(bytes as i64));
    Ok(())
}

/// Bytes of data in memory, where the engine holds `engine_bytes` for it and the process has
/// `resident_bytes`. The engine also counts memory that it has and has not written to yet. That is
/// not resident, so it may count more than there is.
pub(super) fn dataset_bytes(engine_bytes: u64, resident_bytes: u64) -> u64 {
    engine_bytes.min(resident_bytes)
}

/// `MEMORY STATS`
fn stats(call: &mut Call<'_>) -> Result<()> {
    let memory = process::memory();
    let engine = call.thread.shared.store.db.stats();
    let tree = engine.tree.clone().unwrap_or_default();
    let resident = memory.resident_bytes;
    let peak = memory.resident_bytes_peak.max(resident);
    let dataset = dataset_bytes(engine.memory_bytes, resident);
    let statistics = &call.thread.shared.diagnostics.statistics;
    let (_, script_bytes) = call.thread.shared.scripts.size();
    let numbers = [
        ("peak.allocated", peak),
        ("total.allocated", resident),
        ("startup.allocated", 0),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", statistics.sum_of(Gauge::ClientBytes)),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", script_bytes as u64),
        ("functions.caches", 0),
        ("overhead.total", resident - dataset),
        ("dataset.bytes", dataset),
        ("engine.buffer-bytes", tree.buffer_bytes),
        ("engine.memory-bytes-max", engine.memory_bytes_max),
        ("allocator.resident", resident),
    ];
    let share = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let shares = [
        ("dataset.percentage", share(dataset, resident)),
        ("peak.percentage", share(resident, peak)),
        ("fragmentation", 1.0),
    ];
    call.reply(|reply| {
        reply.map(numbers.len() + shares.len());
        for (name, number) in numbers {
            reply.bulk(name.as_bytes());
            reply.integer(number as i64);
        }
        for (name, share) in shares {
            reply.bulk(name.as_bytes());
            reply.double(share);
        }
    });
    Ok(())
}

/// `MEMORY DOCTOR`
fn doctor(call: &mut Call<'_>) -> Result<()> {
    let memory = process::memory();
    let engine = call.thread.shared.store.db.stats();
    let mut text = format!(
        "The engine holds {} of the {} bytes that it may; the process has {} of the machine's {}.\n",
        engine.memory_bytes, engine.memory_bytes_max, memory.resident_bytes, memory.machine_bytes
    );
    let is_short = memory.machine_bytes > 0 && memory.resident_bytes > memory.machine_bytes / 10 * 9;
    text.push_str(match is_short {
        true => "That is most of the machine's memory: give the server less with --memory-bytes, or the machine more.\n",
        false => "Nothing is wrong with that.\n",
    });
    if engine.stop_us_total > 0 {
        let ms = engine.stop_us_total / 1000;
        text.push_str(&format!(
            "Writes have waited {ms} ms for room in the buffer: more memory would help.\n"
        ));
    }
    call.reply(|reply| reply.verbatim(b"txt", text.as_bytes()));
    Ok(())
}

/// `MEMORY MALLOC-STATS`
fn malloc_stats(call: &mut Call<'_>) -> Result<()> {
    let memory = process::memory();
    let engine = call.thread.shared.store.db.stats();
    let tree = engine.tree.clone().unwrap_or_default();
    let text = format!(
        "resident_bytes {}\nresident_bytes_peak {}\nengine_memory_bytes {}\nengine_buffer_bytes {}\n",
        memory.resident_bytes, memory.resident_bytes_peak, engine.memory_bytes, tree.buffer_bytes
    );
    call.reply(|reply| reply.verbatim(b"txt", text.as_bytes()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::dataset_bytes;

    #[test]
    fn data_is_at_most_what_the_process_has() {
        assert_eq!(dataset_bytes(3, 5), 3);
        assert_eq!(dataset_bytes(7, 5), 5);
    }
}
