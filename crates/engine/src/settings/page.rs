//! Settings as a page for people.

use super::{Audience, EngineSettings, Field, Settings};

impl<E: EngineSettings> Settings<E> {
    /// The settings as tables in Markdown, those for experts apart.
    pub fn to_page() -> String {
        let mut page = String::new();
        for (audience, title) in [(Audience::Everyone, "Settings"), (Audience::Expert, "For experts")] {
            page.push_str(&format!("## {title}\n"));
            let engine = format!("Of one engine, in the table `[{}]`", E::TABLE);
            for (heading, fields) in
                [("Of every engine, above all tables", Self::FIELDS), (engine.as_str(), E::FIELDS)]
            {
                page.push_str(&format!(
                    "\n### {heading}\n\n| setting | default | must be | meaning |\n|---|---|---|---|\n"
                ));
                for field in fields.iter().filter(|field| field.audience == audience) {
                    page.push_str(&row(field));
                }
            }
            page.push('\n');
        }
        page.truncate(page.trim_end().len() + 1);
        page
    }

    /// Names of the settings, those for experts apart, for the help of a program.
    pub fn to_names() -> String {
        let names = |audience| {
            let own = E::FIELDS.iter().filter(move |field| field.audience == audience);
            let every = Self::FIELDS.iter().filter(move |field| field.audience == audience);
            let names: Vec<String> = every
                .map(|field| field.name.to_owned())
                .chain(own.map(|field| format!("{}.{}", E::TABLE, field.name)))
                .collect();
            names.join(", ")
        };
        format!("Settings: {}.\n\nFor experts: {}.", names(Audience::Everyone), names(Audience::Expert))
    }
}

/// One line of a table.
fn row<S>(field: &Field<S>) -> String {
    let meaning: Vec<&str> = field.doc.lines().map(str::trim).collect();
    format!("| `{}` | {} | {} | {} |\n", field.name, field.default, field.range, meaning.join(" "))
}
