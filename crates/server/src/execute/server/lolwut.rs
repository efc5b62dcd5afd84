//! LOLWUT: a drawn snow crystal, and the version.

use crate::execute::call::Call;
use crate::failure::Result;

/// Half the width of a drawing, in rows: larger ones are drawn this large.
const RADIUS_MAX: i64 = 30;

/// What cells of the drawing look like, from outside air to solid ice.
const SHADES: [&str; 5] = [" ", "·", "+", "*", "#"];

/// `LOLWUT [VERSION version] [radius]`: another crystal every time.
pub(super) fn draw(call: &mut Call<'_>) -> Result<()> {
    let mut index = 1;
    if call.is_word(1, "version") && call.arguments.len() > 2 {
        call.integer(2)?;
        index = 3;
    }
    let radius = match call.arguments.get(index) {
        Some(_) => call.integer(index)?.clamp(1, RADIUS_MAX) as usize,
        None => 8,
    };
    let grown = grow(radius, |end| call.thread.random(end));
    let mut drawing = String::new();
    for row in 0..=2 * radius {
        for column in 0..=2 * radius {
            // The crystal has eight equal parts: one of them was grown.
            let (x, y) = (column.abs_diff(radius), row.abs_diff(radius));
            let shade = grown[x.max(y)][x.min(y)];
            drawing.push_str(SHADES[shade]);
            drawing.push(' ');
        }
        drawing.truncate(drawing.trim_end().len());
        drawing.push('\n');
    }
    let version = call.thread.shared.settings.build.version;
    drawing.push_str(&format!("\nFirn {version}, which answers as Redis ver. {}\n", super::REDIS_VERSION));
    call.reply(|reply| reply.verbatim(b"txt", drawing.as_bytes()));
    Ok(())
}

/// Shades of an eighth of a crystal: of the cell `across` beside the axis, `out` from the middle.
fn grow(radius: usize, mut random: impl FnMut(u64) -> u64) -> Vec<Vec<usize>> {
    let mut rows = vec![vec![4]];
    for out in 1..=radius {
        let reach = 1 + random(out as u64) as usize;
        let shade_at = |across: usize| match across {
            0 => 4,
            _ if across > out => 0,
            _ if across < reach => 1 + (reach - across).min(3),
            _ => usize::from(across == reach),
        };
        rows.push((0..=out).map(shade_at).collect());
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crystal_is_as_large_as_asked_and_never_the_same() {
        let mut rng = fastrand::Rng::with_seed(1);
        let first = grow(9, |end| rng.u64(0..end));
        assert_eq!(first.len(), 10);
        assert!(first.iter().enumerate().all(|(out, row)| row.len() == out + 1 && row[0] == 4));
        assert!(first.iter().flatten().all(|shade| *shade < SHADES.len()));
        assert_ne!(first, grow(9, |end| rng.u64(0..end)));
    }
}
