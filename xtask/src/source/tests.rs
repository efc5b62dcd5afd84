use super::{Function, ModuleLine, Source};

const SAMPLE: &str = r###"//! fn not_code() {}
mod plain;
#[cfg(test)]
mod tests;
#[path = "elsewhere.rs"]
mod named;
mod outer { mod inner; }

/* { /* nested */ { */
fn first<'a>(text: &'a str) -> char {
    let _ = "fn text() { }";
    let _ = r#"a " quote {"#;
    '{'
}

trait T {
    fn declared(&self);
    fn array(&self) -> [u8; 4] {
        *b"a\"{ "
    }
}

#[cfg(test)]
mod inline {
    #[test]
    fn hidden() {}
}
"###;

#[test]
fn functions_are_found_and_measured() {
    let function = |name: &str, line, line_count| Function { name: name.to_owned(), line, line_count };
    let found = Source::new(SAMPLE).production_functions();
    assert_eq!(found, [function("first", 10, 5), function("array", 18, 3)]);
}

#[test]
fn test_code_is_not_production() {
    let lines = SAMPLE.lines().count();
    // Two lines declare `mod tests;`, five are the inline module.
    assert_eq!(Source::new(SAMPLE).production_line_count(), lines - 7);
}

#[test]
fn comments_blank_lines_and_tests_are_not_code() {
    let text = "//! Head.\n\n/// Of `f`.\nfn f() { // ends\n    /* a\n    b */\n}\n\n#[test]\nfn t() {\n}\n";
    assert_eq!(Source::new(text).production_code_line_count(), 2);
}

#[test]
fn module_lines_know_their_attributes_and_surroundings() {
    let line = |name: &str, inside: &[&str], path: Option<&str>, is_test| ModuleLine {
        name: name.to_owned(),
        inside: inside.iter().map(|name| (*name).to_owned()).collect(),
        path: path.map(str::to_owned),
        is_test,
    };
    let expected = [
        line("plain", &[], None, false),
        line("tests", &[], None, true),
        line("named", &[], Some("elsewhere.rs"), false),
        line("inner", &["outer"], None, false),
    ];
    assert_eq!(Source::new(SAMPLE).module_lines(), expected);
}

#[test]
fn literals_and_comments_are_not_code() {
    let source = Source::new("let a = \"dbg!(1)\"; // dbg!(2)\nlet b = '\"'; dbg!(3);\n");
    assert_eq!(source.words("dbg").len(), 1);
    assert_eq!(source.line_of(source.words("dbg")[0]), 2);
}
