//! The command line as a whole.

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Arguments::command().debug_assert();
}

/// Every command with those within it, and its name.
fn commands() -> Vec<(String, clap::Command)> {
    fn with_those_within(path: String, command: &clap::Command, found: &mut Vec<(String, clap::Command)>) {
        for within in command.get_subcommands().filter(|within| within.get_name() != "help") {
            with_those_within(format!("{path} {}", within.get_name()), within, found);
        }
        found.push((path, command.clone()));
    }
    let mut root = Arguments::command();
    root.build();
    let mut found = Vec::new();
    with_those_within("firn".to_owned(), &root, &mut found);
    found
}

#[test]
fn help_fits_a_page_and_shows_escapes_as_they_are_written() {
    for (name, mut command) in commands() {
        let text = command.render_long_help().to_string();
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        assert!(!text.contains(r"\\x"), "{name}: {text}");
    }
    let get = commands().into_iter().find(|(name, _)| name == "firn get").expect("a command");
    assert!(get.1.clone().render_long_help().to_string().contains(r"\xNN, \n, \r, \t, \0 and \\"));
}

/// One thing has one name, whatever the command.
#[test]
fn options_and_their_values_are_called_alike() {
    const VALUES: [&str; 23] = [
        "ADDRESS", "BYTES", "DIR", "FILE", "FROM", "HOST", "JOB", "KEY", "LOCATION", "MS", "N", "NAME",
        "PID", "PORT", "RATES", "SECONDS", "SEED", "SHELL", "TO", "URL", "VALUE", "yes", "no",
    ];
    const GONE: [&str; 5] = ["settings", "listen", "http", "config-file", "directory"];
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, command) in commands() {
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let long = argument.get_long().unwrap_or_default();
            assert!(!GONE.contains(&long), "{name} --{long}");
            assert!(argument.get_all_aliases().unwrap_or_default().is_empty(), "{name} --{long}");
            if !argument.get_action().takes_values() {
                continue;
            }
            for value in argument.get_value_names().unwrap_or_default() {
                let words = value.split([',', '.', ':', '=', '|']).filter(|word| !word.is_empty());
                if words.into_iter().any(|word| !VALUES.contains(&word)) {
                    wrong.push(format!("{name} --{long} <{value}>"));
                }
                count += 1;
            }
            let is_path = ["dir", "config", "file", "json", "html"].contains(&long);
            let shown = argument.get_value_names().unwrap_or_default().concat();
            assert!(!is_path || ["DIR", "FILE"].contains(&shown.as_str()), "{name} --{long} <{shown}>");
        }
    }
    assert!(wrong.is_empty(), "values by other names: {wrong:#?}");
    assert!(count > 100, "{count} values");
}

/// The answer to a call of the program with `words`, which is wrong.
fn complaint_of(words: &[&str]) -> String {
    let error = Arguments::try_parse_from(["firn"].iter().chain(words)).err().expect("a wrong command line");
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    tips::with_tip(error, Arguments::command(), &words).to_string()
}

/// Every command that has no words of its own and a directory or a settings file names the option
/// for it.
#[test]
fn a_word_that_no_option_has_gets_a_tip_with_the_option() {
    let mut count = 0;
    for (name, command) in commands() {
        let has = |long: &str| command.get_opts().any(|option| option.get_long() == Some(long));
        if command.get_positionals().next().is_some() || !(has("dir") || has("config")) {
            continue;
        }
        let (stray, tip) = match name.as_str() {
            "firn restore" => ("x", "as in `--from x`"),
            "firn backup" | "firn copy" => ("x", "as in `--to x`"),
            _ if has("dir") => ("x", "as in `--dir x`"),
            _ => ("x.toml", "as in `--config x.toml`"),
        };
        let words: Vec<&str> = name.split(' ').skip(1).chain([stray]).collect();
        let complaint = complaint_of(&words);
        assert!(
            complaint.contains("tip: name it with an option, ") && complaint.contains(tip),
            "{name}: {complaint}"
        );
        count += 1;
    }
    assert!(count >= 8, "{count} commands");
    for (words, tip) in [
        (&["config", "a.toml"][..], "`--config a.toml`"),
        (&["config", "somewhere"], "`--config somewhere`"),
        (&["serve", "6380"], "`--port 6380`"),
        (&["stats", "two words"], "`--dir 'two words'`"),
        (&["backup", "127.0.0.1:9379"], "`--server 127.0.0.1:9379`"),
        (&["jobs", "http://127.0.0.1:7380"], "`--control-plane http://127.0.0.1:7380`"),
        (&["worker", "http://127.0.0.1:7380"], "`--control-plane http://127.0.0.1:7380`"),
        (&["get", "somewhere", "k"], "the database's directory is named with `--dir <DIR>`"),
    ] {
        let complaint = complaint_of(words);
        assert!(complaint.contains(tip), "{words:?}: {complaint}");
    }
    for words in [&["stats", "--dri", "x"][..], &["nonsense"], &["completions", "bash", "x"]] {
        assert!(!complaint_of(words).contains("with an option"), "{words:?}");
    }
}
