//! The table as a page for people, `docs/reference/commands.md`.

use std::fmt::Write as _;

use super::{ABSENCES, Absence, Begin, Command, Extent, Group, Offered, all, commands, find};

/// The whole table in Markdown, one section for each [`Group`] in the order of the table.
pub fn render() -> String {
    let offered = all().iter().filter(|command| command.is_offered()).count();
    let mut page = format!(
        "# Commands\n\n\
         Made from the command table (`crates/protocol/src/command`); `UPDATE_EXPECT=1 cargo test -p firn-protocol`\n\
         renews it.\n\n\
         Of {} commands and {} subcommands, {offered} are offered; the others say why not, and are refused.\n\
         `arg` stands for one argument, `…` for more like the last ones or for options. Costs count what a command\n\
         touches: records, or bytes where it says so.\n",
        commands().len(),
        all().len() - commands().len(),
    );
    push_absences(&mut page);
    let mut group = None;
    for command in commands() {
        if group != Some(command.group) {
            group = Some(command.group);
            push_heading(&mut page, command.group);
        }
        push_row(&mut page, command);
        for subcommand in command.subcommands() {
            push_row(&mut page, subcommand);
        }
    }
    page
}

/// What people look for and do not find, the features without commands too.
fn push_absences(page: &mut String) {
    page.push_str("\n## Not offered\n\n");
    for absence in ABSENCES {
        let Absence { feature, reason, instead } = absence;
        let commands = commands_of(absence);
        let refused = if commands.is_empty() { String::new() } else { format!(" Refused: {commands}.") };
        // Writing to a string cannot fail.
        let _ = writeln!(page, "- **{feature}**: {reason}. {instead}{refused}");
    }
}

/// The commands that belong to a feature: of a container whose subcommands all do, the container
/// stands for them.
fn commands_of(absence: &'static Absence) -> String {
    let is_its = |command: &&Command| command.offered == Offered::NotYet(absence);
    let is_named = |command: &&Command| !container_of(command).is_some_and(|it| is_its(&it));
    let names = all().iter().filter(is_its).filter(is_named);
    let names: Vec<String> =
        names.map(|command| format!("`{}`", command.to_string().to_uppercase().replace('|', " "))).collect();
    names.join(", ")
}

fn container_of(command: &Command) -> Option<&'static Command> {
    find(command.container?.as_bytes())
}

fn push_heading(page: &mut String, group: Group) {
    page.push_str("\n## ");
    page.push_str(group.title());
    page.push_str("\n\n| usage | what it does | cost | since | offered |\n|---|---|---|---|---|\n");
}

fn push_row(page: &mut String, command: &Command) {
    let Command { summary, complexity, since, .. } = command;
    // Writing to a string cannot fail.
    let _ = write!(page, "| `{}` | {summary}", usage(command));
    if let Some((since, instead)) = command.deprecated {
        let _ = write!(page, " Deprecated since {since}: use {instead}.");
    }
    let _ = match command.offered {
        Offered::Yes => writeln!(page, " | {complexity} | {since} | yes |"),
        Offered::NotYet(Absence { reason, .. }) => {
            writeln!(page, " | {complexity} | {since} | no: {reason} |")
        }
    };
}

/// The names in upper case and the least arguments there must be, `…` where there may be more.
pub fn usage(command: &Command) -> String {
    let least = command.arity.unsigned_abs() as usize;
    let mut words = vec![command.name.to_uppercase()];
    if let Some(container) = command.container {
        words.insert(0, container.to_uppercase());
    }
    let (mut is_open, names) = (command.arity < 0, words.len());
    for index in names..least.max(names) {
        words.push(argument(command, index).to_owned());
        if is_open && may_repeat_before_others(command, index) {
            words.push("…".to_owned());
            is_open = false;
        }
    }
    if is_open {
        words.push("…".to_owned());
    }
    words.join(" ")
}

/// What stands at a position when there are as few arguments as there may be.
fn argument(command: &Command, index: usize) -> &'static str {
    for spec in command.key_specs {
        let Begin::Index(begin) = spec.begin else { continue };
        let begin = begin as usize;
        match spec.extent {
            Extent::Counted { count, .. } if index == begin + count as usize => return "numkeys",
            Extent::Counted { first, .. } if index == begin + first as usize => return "key",
            Extent::Range { last, .. } if last > 0 && (begin..=begin + last as usize).contains(&index) => {
                return "key";
            }
            Extent::Range { .. } if index == begin => return "key",
            _ => {}
        }
    }
    "arg"
}

/// Whether keys begin at the position and go on until some arguments before the end.
fn may_repeat_before_others(command: &Command, index: usize) -> bool {
    command.key_specs.iter().any(|spec| {
        spec.begin == Begin::Index(index as u32) && matches!(spec.extent, Extent::Range { last: ..=-2, .. })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "the one switch of this test")]
    fn is_updating() -> bool {
        std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1")
    }

    #[test]
    fn the_committed_page_is_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/commands.md");
        if is_updating() {
            std::fs::write(path, render()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap();
        assert_eq!(committed, render(), "docs/reference/commands.md differs; UPDATE_EXPECT=1 renews it");
    }

    #[test]
    fn rows_have_five_cells() {
        let page = render();
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with('|')).collect();
        assert!(rows.len() > all().len());
        for row in rows {
            assert_eq!(row.matches('|').count(), 6, "{row}");
        }
    }

    #[test]
    fn usage_shows_what_there_must_be() {
        let usage_of = |name: &str| usage(find(name.as_bytes()).unwrap());
        assert_eq!(usage_of("get"), "GET key");
        assert_eq!(usage_of("mget"), "MGET key …");
        assert_eq!(usage_of("mset"), "MSET key arg …");
        assert_eq!(usage_of("blpop"), "BLPOP key … arg");
        assert_eq!(usage_of("zunionstore"), "ZUNIONSTORE key numkeys key …");
        assert_eq!(usage_of("lcs"), "LCS key key …");
        assert_eq!(usage_of("ping"), "PING …");
        assert_eq!(usage(&find(b"object").unwrap().subcommands()[0]), "OBJECT ENCODING key");
    }
}
