//! What a wrong command line is told beside what is wrong: the option that a word belongs to.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};

/// `error` about `words`, the command line without the program's name. Where it is about a word
/// that no option has, and an option of the command takes such words, a tip names that option.
pub(crate) fn with_tip(mut error: Error, mut program: Command, words: &[OsString]) -> Error {
    // Only then commands have the options that are those of all within one.
    program.build();
    let stray = match error.kind() {
        ErrorKind::UnknownArgument => error.get(ContextKind::InvalidArg),
        ErrorKind::InvalidSubcommand => error.get(ContextKind::InvalidSubcommand),
        _ => None,
    };
    let Some(ContextValue::String(stray)) = stray else { return error };
    if let Some(tip) = tip(called(&program, words), stray) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    }
    error
}

/// The command within `program` that `words` call.
fn called<'p>(program: &'p Command, words: &[OsString]) -> &'p Command {
    words.iter().fold(program, |command, word| command.find_subcommand(word).unwrap_or(command))
}

fn tip(command: &Command, stray: &str) -> Option<String> {
    if stray.starts_with('-') {
        return None;
    }
    if command.get_positionals().next().is_some() {
        // Which of its words is the one too many is not known.
        let option = command.get_opts().find(|option| option.get_long() == Some("dir"))?;
        return Some(format!("the database's directory is named with `{option}`"));
    }
    let option = option_for(command, stray)?;
    let long = option.get_long()?;
    let value = if stray.contains(char::is_whitespace) { format!("'{stray}'") } else { stray.to_owned() };
    Some(format!("name it with an option, as in `--{long} {value}`"))
}

/// The option of `command` that takes words such as `stray`: the first one that must be there, or
/// else the first one.
fn option_for<'c>(command: &'c Command, stray: &str) -> Option<&'c Arg> {
    let of = |value: &str| {
        let takes = |option: &&Arg| {
            let names = option.get_value_names().unwrap_or_default();
            // Many options name a file; the one of settings is the command's.
            names.iter().any(|name| name.trim_end_matches(",...") == value)
                && (value != "FILE" || option.get_long() == Some("config"))
        };
        let is_first = |option: &&Arg| option.is_required_set();
        command.get_opts().filter(takes).find(is_first).or_else(|| command.get_opts().find(takes))
    };
    let (is_url, is_port) = (stray.contains("://"), stray.parse::<u16>().is_ok());
    let has_port = stray.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match () {
        () if is_url => of("URL").or_else(|| of("LOCATION")),
        () if is_port => of("PORT"),
        () if has_port => of("HOST:PORT"),
        () if stray.ends_with(".toml") => of("FILE").or_else(|| of("DIR")),
        () => of("DIR").or_else(|| of("FILE")),
    }
}
