//! The shares of the operations of a workload.

use fastrand::Rng;
use firn_engine::{Error, Result};

use crate::workload::{Kind, Properties};

/// Draws kinds of operations in given proportions.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Kinds and their proportions, which add up to 1.
    shares: Vec<(Kind, f64)>,
}

impl Mix {
    /// The proportions among `properties`; YCSB's default is 95 % reads and 5 % updates.
    ///
    /// # Errors
    /// `Invalid` if a proportion is negative or all are zero.
    pub fn new(properties: &Properties) -> Result<Self> {
        let mut shares = Vec::new();
        for (name, kind, default) in [
            ("readproportion", Kind::Read, 0.95),
            ("updateproportion", Kind::Update, 0.05),
            ("insertproportion", Kind::Insert, 0.0),
            ("scanproportion", Kind::Scan, 0.0),
            ("readmodifywriteproportion", Kind::ReadModifyWrite, 0.0),
        ] {
            let share: f64 = properties.get_or(name, default)?;
            if !(share >= 0.0 && share.is_finite()) {
                return Err(Error::invalid(format!("property {name}={share}: a proportion is not negative")));
            }
            if share > 0.0 {
                shares.push((kind, share));
            }
        }
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        if sum <= 0.0 {
            return Err(Error::invalid("all proportions of the workload are zero"));
        }
        shares.iter_mut().for_each(|(_, share)| *share /= sum);
        Ok(Self { shares })
    }

    /// The proportion of `kind`, 0 to 1.
    pub fn share(&self, kind: Kind) -> f64 {
        self.shares.iter().find(|(known, _)| *known == kind).map_or(0.0, |(_, share)| *share)
    }

    /// Whether any operation writes.
    pub fn writes(&self) -> bool {
        self.shares.iter().any(|(kind, _)| !matches!(kind, Kind::Read | Kind::Scan))
    }

    /// The next operation.
    #[inline]
    pub fn draw(&self, random: &mut Rng) -> Kind {
        let mut left = random.f64();
        for (kind, share) in &self.shares {
            if left < *share {
                return *kind;
            }
            left -= share;
        }
        // Rounding can leave a remainder above the last share.
        self.shares.last().map_or(Kind::Read, |(kind, _)| *kind)
    }
}
