//! Columns of text, as wide as what is in them and no wider than a terminal.

/// A column.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) is_number: bool,
    /// Characters that are left of it at least where all is too wide; `None` = it is never cut.
    pub(super) least: Option<usize>,
}

impl Column {
    pub(super) const fn text(title: &'static str) -> Self {
        Self { title, is_number: false, least: None }
    }

    pub(super) const fn number(title: &'static str) -> Self {
        Self { title, is_number: true, least: None }
    }

    /// Text that may be cut down to `least` characters.
    pub(super) const fn cut(title: &'static str, least: usize) -> Self {
        Self { title, is_number: false, least: Some(least) }
    }
}

/// Lines of titles and `rows`, each row with as many cells as there are `columns`, at most `width`
/// characters wide if cutting helps. Columns that have nothing in any row are left out.
pub(super) fn lines(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let count = |text: &str| text.chars().count();
    let used: Vec<(usize, &Column)> = columns
        .iter()
        .enumerate()
        .filter(|(at, _)| rows.iter().any(|row| row.get(*at).is_some_and(|cell| !cell.is_empty())))
        .collect();
    let widest = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| count(cell)).max();
    let mut widths: Vec<usize> =
        used.iter().map(|(at, column)| widest(*at).unwrap_or_default().max(count(column.title))).collect();
    if let Some(width) = width {
        shrink(&mut widths, &used, width);
    }
    let line = |cells: Vec<&str>| {
        let mut line = String::new();
        for ((cell, (_, column)), width) in cells.into_iter().zip(&used).zip(&widths) {
            if !line.is_empty() {
                line.push(' ');
            }
            let cell = cut(cell, *width);
            let pad = " ".repeat(width.saturating_sub(count(&cell)));
            match column.is_number {
                true => line.extend([pad, cell]),
                false => line.extend([cell, pad]),
            }
        }
        line.trim_end().to_owned()
    };
    let titles = line(used.iter().map(|(_, column)| column.title).collect());
    let rows = rows.iter().map(|row| {
        line(used.iter().map(|(at, _)| row.get(*at).map(String::as_str).unwrap_or_default()).collect())
    });
    std::iter::once(titles).chain(rows).collect()
}

/// Takes from the widest column that may be cut, until all fits or nothing is left to take.
fn shrink(widths: &mut [usize], columns: &[(usize, &Column)], width: usize) {
    loop {
        let all = widths.iter().sum::<usize>() + widths.len().saturating_sub(1);
        let may = |at: usize| columns[at].1.least.is_some_and(|least| widths[at] > least);
        let widest = (0..widths.len()).filter(|at| may(*at)).max_by_key(|at| widths[*at]);
        match widest {
            Some(at) if all > width => widths[at] -= 1,
            _ => return,
        }
    }
}

/// `text` in `width` characters; the last one says that there were more.
fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// `text` in lines of at most `width` characters that begin with `indent`, broken between words; a
/// word that is longer is broken amid.
pub(super) fn wrapped(text: &str, indent: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else { return vec![format!("{indent}{text}")] };
    let room = width.saturating_sub(indent.len()).max(8);
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        let used = line.chars().count();
        if used > 0 && used + 1 + word.len() > room {
            lines.push(std::mem::take(&mut line));
        }
        while word.len() > room {
            lines.push(word.drain(..room).collect());
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines.into_iter().map(|line| format!("{indent}{line}")).collect()
}
