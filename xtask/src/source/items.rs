//! Types and what is implemented for them.

use super::Source;

/// A struct, enum or union.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Of a struct with named fields; of others 0.
    pub(crate) field_count: usize,
}

/// An `impl` block, of a trait or without one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Impl {
    /// The last name in the path of the type, without its generics.
    pub(crate) name: String,
    /// Whether a method takes `&self` or `&mut self`.
    pub(crate) has_method: bool,
}

impl Source<'_> {
    /// Types outside tests.
    pub(crate) fn production_types(&self) -> Vec<Type> {
        let tests = self.test_ranges();
        let mut types = Vec::new();
        for keyword in ["struct", "enum", "union"] {
            for at in self.words(keyword) {
                let name = self.word_after(at + keyword.len());
                let is_test = tests.iter().any(|range| range.contains(&at));
                if name.is_empty() || is_test {
                    continue;
                }
                let line = self.line_of(at);
                let field_count = if keyword == "struct" { self.field_count(at) } else { 0 };
                types.push(Type { name, line, field_count });
            }
        }
        types
    }

    /// Named fields of the struct at `at`: each has one single colon outside brackets.
    fn field_count(&self, at: usize) -> usize {
        let Some(open) = self.body_start(at) else { return 0 };
        let body = self.masked.get(open + 1..self.closing(open).saturating_sub(1)).unwrap_or_default();
        let (mut depth, mut count) = (0usize, 0);
        for (index, byte) in body.iter().enumerate() {
            let is_colon = |at: Option<usize>| at.and_then(|at| body.get(at)) == Some(&b':');
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                b':' if depth == 0 && !is_colon(index.checked_sub(1)) && !is_colon(Some(index + 1)) => {
                    count += 1;
                }
                _ => {}
            }
        }
        count
    }

    /// `impl` blocks outside tests; those for a macro's parameter are left out.
    pub(crate) fn production_impls(&self) -> Vec<Impl> {
        let tests = self.test_ranges();
        let is_production = |at: &usize| !tests.iter().any(|range| range.contains(at));
        let blocks = self.words("impl").into_iter().filter(is_production).filter(|&at| self.is_item(at));
        blocks.filter_map(|at| self.implementation(at)).collect()
    }

    /// Whether an item begins at `at`, and not a type such as `impl Trait`.
    fn is_item(&self, at: usize) -> bool {
        let before = self.code(0..at);
        let before = before.trim_end();
        let before = before.strip_suffix("unsafe").unwrap_or(before).trim_end();
        before.is_empty() || before.ends_with(['{', '}', ';', ']'])
    }

    fn implementation(&self, at: usize) -> Option<Impl> {
        let open = self.body_start(at)?;
        let header = self.code(at + "impl".len()..open);
        let header = without_generics(header.trim_start());
        let header = header.split_once(" where ").map_or(header, |(before, _)| before);
        let header = header.split_once("\nwhere").map_or(header, |(before, _)| before);
        let of = type_implemented(header);
        let name = of.trim_start_matches(['&', '(']).trim_start();
        let name =
            if name.starts_with('\'') { name.split_once(' ').map_or("", |(_, rest)| rest) } else { name };
        let name = name.trim_start_matches("mut ").trim_start_matches("dyn ");
        let path = name.split(['<', ' ', '\n', ')', '[']).next().unwrap_or_default();
        let name = path.rsplit("::").next().unwrap_or_default();
        let is_name = name.chars().next().is_some_and(|c| c == '_' || c.is_alphabetic());
        let has_method = self.words("fn").into_iter().any(|at| {
            let is_inside = (open..self.closing(open)).contains(&at);
            is_inside && self.takes_reference(at)
        });
        is_name.then(|| Impl { name: name.to_owned(), has_method })
    }

    /// Whether the function at `at` takes `&self` or `&mut self`, under a lifetime or as `self:
    /// &Self`.
    fn takes_reference(&self, at: usize) -> bool {
        let end = self.item_end(at);
        let code = self.code(at + "fn".len()..end);
        let rest = code.trim_start().trim_start_matches(|c: char| c == '_' || c.is_alphanumeric());
        let rest = without_generics(rest);
        let Some(first) = rest.strip_prefix('(') else { return false };
        let first = first.split([',', ')']).next().unwrap_or_default().trim();
        match first.strip_prefix('&') {
            Some(receiver) => receiver.split_whitespace().next_back() == Some("self"),
            None => first.split_once(':').is_some_and(|(name, of)| {
                name.trim().trim_start_matches("mut ") == "self" && of.trim_start().starts_with('&')
            }),
        }
    }
}

/// What follows the generics that `text` begins with; all of it if it begins otherwise.
fn without_generics(text: &str) -> &str {
    if !text.starts_with('<') {
        return text;
    }
    let end = angles(text).find(|(_, depth)| *depth == 0).map_or(text.len(), |(at, _)| at + 1);
    text.get(end..).unwrap_or_default().trim_start()
}

/// The type in `Trait for Type`, or all of it. A `for<'a>` is part of a type.
fn type_implemented(header: &str) -> &str {
    let depth_at =
        |at: usize| angles(header).take_while(|(found, _)| *found < at).last().map_or(0, |it| it.1);
    let found = header.match_indices(" for ").find(|(at, _)| depth_at(*at) == 0);
    found.map_or(header, |(at, word)| header.get(at + word.len()..).unwrap_or_default()).trim()
}

/// Positions of `<` and `>`, but for those of arrows, with the depth after each.
fn angles(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut depth = 0usize;
    let mut before = ' ';
    text.char_indices().filter_map(move |(at, c)| {
        let is_arrow = c == '>' && matches!(before, '-' | '=');
        before = c;
        match c {
            '<' => depth += 1,
            '>' if !is_arrow => depth = depth.saturating_sub(1),
            _ => return None,
        }
        Some((at, depth))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted() {
        let text = "struct A;\nstruct B(u8, std::string::String);\n\
                    struct C<T: Copy> where T: Fn(u8) -> u8 {\n    /// a: b\n    a: HashMap<K, [u8; 4]>,\n    \
                    #[cfg(x = \"a: b\")]\n    pub(crate) b: Box<dyn Fn(u8) -> a::B>,\n    c: fn(d: u8),\n}\n\
                    enum D { X { a: u8 } }\n#[cfg(test)]\nstruct E { a: u8 }\n";
        let types = Source::new(text).production_types();
        let found: Vec<_> = types.iter().map(|it| (it.name.as_str(), it.line, it.field_count)).collect();
        assert_eq!(found, [("A", 1, 0), ("B", 2, 0), ("C", 3, 3), ("D", 10, 0)]);
    }

    #[test]
    fn blocks_name_their_type_and_know_their_methods() {
        let cases = [
            ("impl A { fn f(&self) {} }", "A", true),
            (
                "impl<T: Into<A>> Iterator for crate::b::B<T>\nwhere T: C { fn f<'a>(&'a mut self) {} }",
                "B",
                true,
            ),
            ("unsafe impl<F: Fn(u8) -> u8> Send for A<F> where F: D {}", "A", false),
            ("impl A { fn f(self) { g(&self) } }", "A", false),
            ("impl A { fn f(self: &Arc<Self>, b: u8) {} }", "A", true),
            ("impl<'a> IntoIterator for &'a A { fn f(a: &A) {} }", "A", false),
            ("impl Trait<for<'a> fn(&'a u8)> for dyn A { fn f(mut self: Box<Self>) {} }", "A", false),
            ("fn f() -> impl Iterator { impl B { fn f(& self) {} } }", "B", true),
        ];
        for (text, name, has_method) in cases {
            let expected = [Impl { name: name.to_owned(), has_method }];
            assert_eq!(Source::new(text).production_impls(), expected, "{text}");
        }
        let others = "impl $trait for $of {}\n#[cfg(test)]\nimpl A {}\n// impl A {}\nfn f(a: impl A) {}";
        assert_eq!(Source::new(others).production_impls(), []);
    }
}
