//! Prometheus' text format: families of numbers with a line of help each.

use std::fmt::{Display, Write as _};

use crate::settings::Build;

/// What kind of number a family has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises, but for a new start.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts in buckets.
    Histogram,
}

/// Text that grows family by family.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a family, whose samples follow.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// One number, told from others of its family by labels: names and values.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.write(format_args!("{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' }));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        self.write(format_args!(" {value}\n"));
    }

    /// A family of one number.
    pub fn single(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Which program it is, as every process says it.
    pub fn build(&mut self, build: &Build) {
        self.family("firn_build_info", Kind::Gauge, "The release and its commit, as labels; always 1.");
        let labels: [(&str, &dyn Display); 2] = [("version", &build.version), ("commit", &build.commit)];
        self.sample("firn_build_info", &labels, 1);
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Exposition::default();
        text.family("a_total", Kind::Counter, "Things.");
        text.sample("a_total", &[("x", &"b\\\"\n"), ("y", &1)], 0.5);
        text.single("c", Kind::Gauge, "One.", 7);
        let expected = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"b\\\\\\\"\\n\",y=\"1\"} 0.5\n\
                        # HELP c One.\n# TYPE c gauge\nc 7\n";
        assert_eq!(text.into_text(), expected);
    }
}
