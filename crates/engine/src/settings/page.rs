//! Settings as a page for people.

use super::{Audience, EngineSettings, Field, Settings};

impl<E: EngineSettings> Settings<E> {
    /// The settings as tables in Markdown, those of another engine `O` beside these, those for
    /// experts apart.
    pub fn to_page<O: EngineSettings>() -> String {
        let mut page = String::new();
        for (audience, title) in [(Audience::Everyone, "Settings"), (Audience::Expert, "For experts")] {
            page.push_str(&format!("## {title}\n"));
            page.push_str(&table("Of every engine, above all tables", Self::FIELDS, audience));
            page.push_str(&table_of::<E>(audience));
            page.push_str(&table_of::<O>(audience));
            page.push('\n');
        }
        page.truncate(page.trim_end().len() + 1);
        page
    }

    /// Names of the settings, those of another engine `O` among them, those for experts apart, for
    /// the help of a program.
    pub fn to_names<O: EngineSettings>() -> String {
        let names = |audience| {
            let every = Self::FIELDS.iter().filter(move |field| field.audience == audience);
            let mut names: Vec<String> = every.map(|field| field.name.to_owned()).collect();
            names.extend(names_of::<E>(audience));
            names.extend(names_of::<O>(audience));
            names.join(", ")
        };
        format!("Settings: {}.\n\nFor experts: {}.", names(Audience::Everyone), names(Audience::Expert))
    }
}

/// The settings of engine `E` alone, with its table's name.
fn names_of<E: EngineSettings>(audience: Audience) -> impl Iterator<Item = String> {
    let own = E::FIELDS.iter().filter(move |field| field.audience == audience);
    own.map(|field| format!("{}.{}", E::TABLE, field.name))
}

/// The settings of engine `E` alone.
fn table_of<E: EngineSettings>(audience: Audience) -> String {
    table(&format!("Of one engine, in the table `[{}]`", E::TABLE), E::FIELDS, audience)
}

/// Those of `fields` that are for `audience`, below a heading.
fn table<S>(heading: &str, fields: &[Field<S>], audience: Audience) -> String {
    let head = "| setting | default | must be | meaning |\n|---|---|---|---|\n";
    let rows: String = fields.iter().filter(|field| field.audience == audience).map(row).collect();
    format!("\n### {heading}\n\n{head}{rows}")
}

/// One line of a table.
fn row<S>(field: &Field<S>) -> String {
    let meaning: Vec<&str> = field.doc.lines().map(str::trim).collect();
    format!("| `{}` | {} | {} | {} |\n", field.name, field.default, field.range, meaning.join(" "))
}
