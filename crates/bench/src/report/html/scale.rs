//! Axes: from values to places on paper.

/// A scale with ticks at round numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    logarithmic: bool,
    /// Where lines are drawn.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// From 0 to at least `max`, with about `count` ticks.
    pub(super) fn linear(max: f64, count: usize) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let raw = max / count.max(1) as f64;
        let power = 10f64.powf(raw.log10().floor());
        let step =
            [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= raw * 0.999);
        let step = step.unwrap_or(10.0 * power);
        let steps = (max / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=steps as usize).map(|tick| tick as f64 * step).collect();
        Self { from: 0.0, to: steps * step, logarithmic: false, ticks }
    }

    /// Whole decades from at most `min` to at least `max`, both positive.
    pub(super) fn decades(min: f64, max: f64) -> Self {
        let low = min.max(1e-3).log10().floor();
        let high = max.max(min).max(1e-3).log10().ceil().max(low + 1.0);
        let ticks = (low as i32..=high as i32).map(|power| 10f64.powi(power)).collect();
        Self { from: low, to: high, logarithmic: true, ticks }
    }

    /// Place of `value` on an axis from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.max(1e-3).log10() } else { value };
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// A time in microseconds with the unit that suits it: `10 µs`, `1 ms`, `2 s`.
pub(super) fn time_text(us: f64) -> String {
    let (number, unit) = if us < 1.0 {
        (us * 1e3, "ns")
    } else if us < 1e3 {
        (us, "µs")
    } else if us < 1e6 {
        (us / 1e3, "ms")
    } else {
        (us / 1e6, "s")
    };
    if number >= 100.0 || (number - number.round()).abs() < 1e-6 {
        format!("{number:.0} {unit}")
    } else {
        format!("{number:.1} {unit}")
    }
}

/// A tick's number without needless zeros.
pub(super) fn tick_text(value: f64) -> String {
    if value == 0.0 || (value >= 1.0 && (value - value.round()).abs() < 1e-6) {
        format!("{value:.0}")
    } else {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_have_round_ticks_and_hold_their_maximum() {
        assert_eq!(Scale::linear(93.0, 4).ticks, [0.0, 25.0, 50.0, 75.0, 100.0]);
        assert_eq!(Scale::linear(0.0, 4).ticks.last(), Some(&1.0));
        for max in [0.003, 1.0, 7.7, 123.0, 98_765.0] {
            let scale = Scale::linear(max, 4);
            assert!(*scale.ticks.last().unwrap() >= max, "{max}");
            assert!(scale.ticks.len() <= 7, "{max}: {:?}", scale.ticks);
        }
    }

    #[test]
    fn decades_place_their_ends_and_middles() {
        let scale = Scale::decades(2.0, 700.0);
        assert_eq!(scale.ticks, [1.0, 10.0, 100.0, 1_000.0]);
        assert!((scale.place(10.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(scale.place(0.0), 0.0);
    }

    #[test]
    fn texts_are_short() {
        assert_eq!(
            [0.5, 10.0, 2_500.0, 3e6].map(time_text),
            ["500 ns", "10 µs", "2.5 ms", "3 s"].map(str::to_owned)
        );
        assert_eq!([0.0, 0.25, 100.0].map(tick_text), ["0", "0.25", "100"].map(str::to_owned));
    }
}
