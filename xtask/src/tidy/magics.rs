//! Every magic number of a file kind stands in FORMAT.md exactly once.

use super::Finding;
use crate::repository::Repository;
use crate::source::Source;

const INDEX: &str = "FORMAT.md";

pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let index = repository.text(INDEX).unwrap_or_default();
    let mut findings = Vec::new();
    for (path, source) in repository.sources().filter(|(path, _)| path.starts_with("crates/format/src/")) {
        for (at, magic) in magics(&source) {
            let count = index.matches(&magic).count();
            if count != 1 {
                let message = format!("magic `{magic}` stands {count} times in {INDEX}: list it there once");
                findings.push(Finding::new(path, source.line_of(at), message));
            }
        }
    }
    findings
}

/// Literals in the initialisers of constants whose name contains `MAGIC`, outside tests.
fn magics(source: &Source<'_>) -> Vec<(usize, String)> {
    let tests = source.test_ranges();
    let mut found = Vec::new();
    for at in source.words("const") {
        let is_production = !tests.iter().any(|range| range.contains(&at));
        if is_production && source.word_after(at + 5).contains("MAGIC") {
            let text = source.text().get(at..source.item_end(at)).unwrap_or_default();
            let value = text.split_once('=').map_or("", |(_, value)| value);
            found.extend(literal(value).map(|literal| (at, literal)));
        }
    }
    found
}

/// The inside of the first byte string, or the first hexadecimal number as written.
fn literal(value: &str) -> Option<String> {
    if let Some((_, rest)) = value.split_once("b\"") {
        return rest.split('"').next().map(str::to_owned);
    }
    let at = value.find("0x")?;
    let is_digit = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    Some(value.get(at..)?.chars().take_while(is_digit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magics_missing_from_the_index_or_listed_twice_are_found() {
        let code = "pub const TABLE_MAGIC: [u8; 8] = *b\"FIRNTABL\";\nconst LOG_MAGIC: u64 = 0x1234_abcd;\n\
                    const MAGIC: &[u8] = b\"TWICE\";\nconst OTHER: &[u8] = b\"no\";\n";
        let files = [("crates/format/src/a.rs", code), ("FORMAT.md", "FIRNTABL TWICE TWICE")];
        let found: Vec<String> =
            check(&Repository::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "crates/format/src/a.rs:2: magic `0x1234_abcd` stands 0 times in FORMAT.md: list it there once",
                "crates/format/src/a.rs:3: magic `TWICE` stands 2 times in FORMAT.md: list it there once",
            ]
        );
    }
}
