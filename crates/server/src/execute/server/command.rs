//! COMMAND: what is known about commands, from the table.
//!
//! COMMAND, INFO, LIST and COUNT know what can be called on the engine that is served: any other
//! name is answered like an unknown one. DOCS knows the whole table, and the summary of a command
//! that cannot be called says why. Every client shows summaries, while none expects Firn's words
//! among `doc_flags`.

use firn_protocol::command::{
    self, Begin, Category, Command, CommandId, Extent, KeySpec, Offered, find, find_subcommand, id_of,
    keys_of, visit_keys,
};
use firn_protocol::glob;
use firn_protocol::resp::Reply;

use super::help;
use crate::execute::call::Call;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;

const HELP: &[(&str, &str)] = &[
    ("(no subcommand)", "Describe all commands."),
    ("COUNT", "Count the commands."),
    ("LIST [FILTERBY MODULE <name> | ACLCAT <category> | PATTERN <pattern>]", "Names of commands."),
    ("INFO [<command-name> ...]", "Describe these commands, or all."),
    ("DOCS [<command-name> ...]", "Say what these commands are for, or all."),
    ("GETKEYS <full-command>", "Keys of a request."),
    ("GETKEYSANDFLAGS <full-command>", "Keys of a request, and what is done with each."),
];

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const COMMAND: CommandId = id_of("command");
    const COUNT: CommandId = id_of("command|count");
    const DOCS: CommandId = id_of("command|docs");
    const GETKEYS: CommandId = id_of("command|getkeys");
    const GETKEYSANDFLAGS: CommandId = id_of("command|getkeysandflags");
    const HELP_ID: CommandId = id_of("command|help");
    const INFO: CommandId = id_of("command|info");
    const LIST: CommandId = id_of("command|list");
    match call.command.id() {
        COMMAND => info(call, 1).await,
        INFO => info(call, 2).await,
        COUNT => {
            let count = offered(command::commands(), is_ordered(call)).count();
            call.reply(|reply| reply.integer(count as i64));
            Ok(())
        }
        LIST => list(call),
        DOCS => docs(call).await,
        GETKEYS => get_keys(call).await,
        GETKEYSANDFLAGS => get_keys_and_flags(call).await,
        HELP_ID => help(call, HELP),
        _ => Err(call.not_offered()),
    }
}

/// Commands that can be called: what needs order only where the engine keeps it.
fn offered(commands: &'static [Command], is_ordered: bool) -> impl Iterator<Item = &'static Command> + Clone {
    commands.iter().filter(move |command| is_offered(command, is_ordered))
}

fn is_ordered(call: &Call<'_>) -> bool {
    call.thread.engine.is_ordered()
}

fn is_offered(command: &Command, is_ordered: bool) -> bool {
    command.is_offered() && (is_ordered || !command.needs_order())
}

/// The command called `get`, or `config|get`.
pub(super) fn named(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|byte| *byte == b'|') {
        Some(bar) => find_subcommand(find(name.get(..bar)?)?, name.get(bar + 1..)?),
        None => find(name),
    }
}

/// `COMMAND`, `COMMAND INFO [name ...]`. Others have their turns between names.
async fn info(call: &mut Call<'_>, first: usize) -> Result<()> {
    let names = call.arguments.from(first);
    if names.is_empty() {
        let offered = offered(command::commands(), is_ordered(call));
        call.reply(|reply| describe_all(reply, offered));
        return Ok(());
    }
    call.reply(|reply| reply.array(names.len()));
    let is_ordered = is_ordered(call);
    let find = |name| named(name).filter(|command| is_offered(command, is_ordered));
    reply_each(call, names.iter(), |reply, name| match find(name) {
        Some(command) => describe(reply, command),
        None => reply.null(),
    })
    .await;
    Ok(())
}

/// Writes a part of the reply for each of `things`, of which there may be very many. Others have
/// their turns meanwhile.
async fn reply_each<T>(
    call: &mut Call<'_>,
    things: impl IntoIterator<Item = T>,
    write: impl Fn(&mut Reply<'_>, T),
) {
    let mut turns = Turns::new(call.thread);
    for thing in things {
        let before = call.out.len();
        call.reply(|reply| write(reply, thing));
        // Words are written one by one: that costs more than copying them.
        turns.step(4 * (call.out.len() - before)).await;
    }
}

fn describe_all(reply: &mut Reply<'_>, commands: impl Iterator<Item = &'static Command> + Clone) {
    reply.array(commands.clone().count());
    commands.for_each(|command| describe(reply, command));
}

fn describe(reply: &mut Reply<'_>, command: &'static Command) {
    reply.array(10);
    reply.bulk(command.to_string().as_bytes());
    reply.integer(i64::from(command.arity));
    names(reply, command.flag_names());
    reply.integer(i64::from(command.first_key));
    reply.integer(i64::from(command.last_key));
    reply.integer(i64::from(command.key_step));
    names(reply, command.category_names());
    // Tips for proxies: the table has none.
    reply.set(0);
    reply.set(command.key_specs.len());
    command.key_specs.iter().for_each(|spec| describe_keys(reply, spec));
    // Those of what needs order need it too.
    describe_all(reply, offered(command.subcommands(), true));
}

fn names(reply: &mut Reply<'_>, names: impl Iterator<Item = &'static str>) {
    let names: Vec<&str> = names.collect();
    reply.set(names.len());
    names.iter().for_each(|name| reply.simple(name));
}

fn describe_keys(reply: &mut Reply<'_>, spec: &KeySpec) {
    reply.map(3);
    reply.bulk(b"flags");
    names(reply, spec.flags.iter().map(|flag| flag.name()));
    reply.bulk(b"begin_search");
    match spec.begin {
        Begin::Index(index) => describe_search(reply, "index", &[("index", i64::from(index))]),
        Begin::Keyword(word, from) => {
            head(reply, "keyword", 2);
            reply.bulk(b"keyword");
            reply.bulk(word.to_uppercase().as_bytes());
            reply.bulk(b"startfrom");
            reply.integer(i64::from(from));
        }
        Begin::Unknown => describe_search(reply, "unknown", &[]),
    }
    reply.bulk(b"find_keys");
    match spec.extent {
        Extent::Range { last, step, limit } => {
            let (last, step, limit) = (i64::from(last), i64::from(step), i64::from(limit));
            describe_search(reply, "range", &[("lastkey", last), ("keystep", step), ("limit", limit)]);
        }
        Extent::Counted { count, first, step } => {
            let (count, first, step) = (i64::from(count), i64::from(first), i64::from(step));
            describe_search(reply, "keynum", &[("keynumidx", count), ("firstkey", first), ("keystep", step)]);
        }
        Extent::Unknown => describe_search(reply, "unknown", &[]),
    }
}

fn head(reply: &mut Reply<'_>, kind: &str, numbers: usize) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(numbers);
}

fn describe_search(reply: &mut Reply<'_>, kind: &str, numbers: &[(&str, i64)]) {
    head(reply, kind, numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(*number);
    }
}

/// `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`: subcommands too.
fn list(call: &mut Call<'_>) -> Result<()> {
    let filter = match call.arguments.len() {
        2 => None,
        5 if call.is_word(2, "filterby") => Some(call.argument(4)),
        _ => return Err(Failure::SYNTAX),
    };
    let all = offered(command::all(), is_ordered(call));
    let found: Vec<String> = match filter {
        None => all.map(ToString::to_string).collect(),
        Some(_) if call.is_word(3, "module") => Vec::new(),
        Some(name) if call.is_word(3, "aclcat") => {
            let category = Category::from_name(name);
            let is_in = |command: &&Command| category.is_some_and(|it| command.categories.has(it));
            all.filter(is_in).map(ToString::to_string).collect()
        }
        Some(pattern) if call.is_word(3, "pattern") => {
            let pattern = pattern.to_ascii_lowercase();
            all.map(ToString::to_string).filter(|name| glob::matches(&pattern, name.as_bytes())).collect()
        }
        Some(_) => return Err(Failure::SYNTAX),
    };
    call.reply(|reply| {
        reply.array(found.len());
        found.iter().for_each(|name| reply.bulk(name.as_bytes()));
    });
    Ok(())
}

/// `COMMAND DOCS [name ...]`. Others have their turns between names.
async fn docs(call: &mut Call<'_>) -> Result<()> {
    let names = call.arguments.from(2);
    let found: Vec<&'static Command> = match names.is_empty() {
        true => command::commands().iter().collect(),
        false => names.iter().filter_map(named).collect(),
    };
    call.reply(|reply| reply.map(found.len()));
    let is_ordered = is_ordered(call);
    reply_each(call, found, |reply, command| document(reply, command, is_ordered)).await;
    Ok(())
}

fn document(reply: &mut Reply<'_>, command: &'static Command, is_ordered: bool) {
    reply.bulk(command.to_string().as_bytes());
    let subcommands: Vec<&'static Command> = command.subcommands().iter().collect();
    let deprecation = if command.deprecated.is_some() { 3 } else { 0 };
    reply.map(4 + deprecation + usize::from(!subcommands.is_empty()));
    let mut pair = |name: &str, text: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    };
    match command.offered {
        Offered::Yes if !is_offered(command, is_ordered) => {
            let why = "it needs keys in order, which the engine hashlog does not keep (--engine tree does)";
            pair("summary", &format!("{} Not offered: {why}.", command.summary));
        }
        Offered::Yes => pair("summary", command.summary),
        Offered::NotYet(absence) => {
            pair("summary", &format!("{} Not offered: {}.", command.summary, absence.reason));
        }
    }
    pair("since", command.since);
    pair("group", command.group.name());
    pair("complexity", command.complexity);
    if let Some((since, instead)) = command.deprecated {
        reply.bulk(b"doc_flags");
        names(reply, ["deprecated"].into_iter());
        reply.bulk(b"deprecated_since");
        reply.bulk(since.as_bytes());
        reply.bulk(b"replaced_by");
        reply.bulk(instead.as_bytes());
    }
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        subcommands.into_iter().for_each(|subcommand| document(reply, subcommand, is_ordered));
    }
}

/// The request within the request, and its command.
fn inner<'a>(call: &Call<'a>) -> Result<(&'static Command, Vec<&'a [u8]>)> {
    let words: Vec<&[u8]> = call.arguments.from(2).iter().collect();
    let found = words.first().and_then(|name| find(name));
    let found = match found {
        Some(container) if !container.subcommands().is_empty() && words.len() > 1 => {
            words.get(1).and_then(|name| find_subcommand(container, name))
        }
        found => found,
    };
    Ok((found.ok_or(Failure::new("ERR Invalid command specified"))?, words))
}

/// `COMMAND GETKEYS command [argument ...]`. Others have their turns between keys.
async fn get_keys(call: &mut Call<'_>) -> Result<()> {
    let (command, words) = inner(call)?;
    let keys = keys_of(command, &words).map_err(|error| Failure::of(format!("ERR {error}")))?;
    call.reply(|reply| reply.array(keys.len()));
    reply_each(call, keys, |reply, index| reply.bulk(words.get(index).copied().unwrap_or_default())).await;
    Ok(())
}

/// `COMMAND GETKEYSANDFLAGS command [argument ...]`. Others have their turns between keys.
async fn get_keys_and_flags(call: &mut Call<'_>) -> Result<()> {
    let (command, words) = inner(call)?;
    // Says what is wrong, and where a wrong count of keys is none at all.
    let known = keys_of(command, &words).map_err(|error| Failure::of(format!("ERR {error}")))?;
    let mut keys = Vec::new();
    if !known.is_empty() {
        let visited = visit_keys(command, &words, |key| keys.push(key));
        visited.map_err(|error| Failure::of(format!("ERR {error}")))?;
    }
    call.reply(|reply| reply.array(keys.len()));
    reply_each(call, keys, |reply, key| {
        reply.array(2);
        reply.bulk(words.get(key.index).copied().unwrap_or_default());
        names(reply, key.flags.iter().map(|flag| flag.name()));
    })
    .await;
    Ok(())
}
