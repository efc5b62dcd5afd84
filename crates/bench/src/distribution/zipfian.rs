//! Few items often, most items seldom.

use fastrand::Rng;

use super::fnv_hash_64;

/// The skew YCSB uses.
pub const ZIPFIAN_THETA: f64 = 0.99;

/// Items of the Zipfian sampler behind [`ScrambledZipfian`], whatever the number of records.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// `zeta(SCRAMBLED_ITEMS, 0.99)`, which would take minutes to add up.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Draws ranks: 0 is the most popular item. Gray's algorithm.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    zeta_of_two: f64,
    eta: f64,
}

impl Zipfian {
    /// Ranks `0..items` with skew `theta`. Costs one `powf` per item.
    pub fn new(items: u64, theta: f64) -> Self {
        Self::with_zeta(items, theta, zeta(0, items, theta, 0.0))
    }

    fn with_zeta(items: u64, theta: f64, zeta_of_items: f64) -> Self {
        let mut zipfian = Self {
            items,
            theta,
            alpha: 1.0 / (1.0 - theta),
            zeta: zeta_of_items,
            zeta_of_two: zeta(0, 2, theta, 0.0),
            eta: 0.0,
        };
        zipfian.eta = zipfian.eta_now();
        zipfian
    }

    fn eta_now(&self) -> f64 {
        (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta)) / (1.0 - self.zeta_of_two / self.zeta)
    }

    /// Makes room for `items` items; never shrinks. Costs one `powf` per item added.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta = zeta(self.items, items, self.theta, self.zeta);
            self.items = items;
            self.eta = self.eta_now();
        }
    }

    /// A rank below the number of items.
    #[inline]
    pub fn draw(&self, random: &mut Rng) -> u64 {
        let u = random.f64();
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        (self.items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
    }
}

/// Sum of `1 / i^theta` for `i` in `from + 1..=to`, added to `start`.
fn zeta(from: u64, to: u64, theta: f64, start: f64) -> f64 {
    (from..to).fold(start, |sum, i| sum + 1.0 / ((i + 1) as f64).powf(theta))
}

/// Zipfian popularity with the popular items scattered over the range by hashing.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    first: u64,
    items: u64,
    ranks: Zipfian,
}

impl ScrambledZipfian {
    /// Numbers `first..=last`, skew 0.99.
    pub fn new(first: u64, last: u64) -> Self {
        Self {
            first,
            items: last.saturating_sub(first) + 1,
            // YCSB counts the items of its inner sampler from 0 to 10^10 inclusive and gives it
            // this zeta.
            ranks: Zipfian::with_zeta(SCRAMBLED_ITEMS + 1, ZIPFIAN_THETA, SCRAMBLED_ZETA),
        }
    }

    /// A number of the range.
    #[inline]
    pub fn draw(&self, random: &mut Rng) -> u64 {
        self.first + fnv_hash_64(self.ranks.draw(random)) % self.items
    }
}
