//! What tenants were given, hence what they are owed.

use std::collections::{BTreeMap, BTreeSet};

use super::view::TenantId;

/// Of what a tenant would get by weights alone, the part that it gets whatever is urgent elsewhere.
const FLOOR: f64 = 0.25;

/// Bytes for each unit of weight that a tenant may be behind before it counts.
const GRACE_BYTES: f64 = (256_u64 << 20) as f64;

/// Bytes for each unit of weight that a tenant may be ahead of its share before it counts. It is a
/// few jobs, so that a short burst does not count.
const AHEAD_BYTES: f64 = (4_u64 << 30) as f64;

/// Accounts of tenants, in bytes for each unit of weight.
///
/// While a tenant has work waiting, its share adds up: what is given to all, divided by the weights
/// of all tenants that wait. Of that it is promised a part. A tenant with nothing waiting saves
/// nothing, and owes nothing.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    accounts: BTreeMap<TenantId, Account>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Account {
    weight: f64,
    is_waiting: bool,
    promised: f64,
    given: f64,
}

impl Default for Account {
    fn default() -> Self {
        Self { weight: 1.0, is_waiting: false, promised: 0.0, given: 0.0 }
    }
}

impl Ledger {
    /// Gives `tenant` a weight, above 0; without one it is 1.
    pub fn set_weight(&mut self, tenant: TenantId, weight: f64) {
        self.accounts.entry(tenant).or_default().weight = weight.max(f64::MIN_POSITIVE);
    }

    /// Forgets tenants for which `is_there` does not hold.
    pub fn retain(&mut self, mut is_there: impl FnMut(TenantId) -> bool) {
        self.accounts.retain(|tenant, _| is_there(*tenant));
    }

    /// Says which tenants have work waiting now.
    pub fn set_waiting(&mut self, waiting: &BTreeSet<TenantId>) {
        for tenant in waiting {
            self.accounts.entry(*tenant).or_default();
        }
        for (tenant, account) in &mut self.accounts {
            let is_waiting = waiting.contains(tenant);
            if !is_waiting {
                (account.promised, account.given) = (0.0, 0.0);
            }
            account.is_waiting = is_waiting;
        }
    }

    /// Counts a lease of a job of `bytes` of `tenant`.
    pub fn lease(&mut self, tenant: TenantId, bytes: u64) {
        let waiting: f64 = self.accounts.values().filter(|one| one.is_waiting).map(|one| one.weight).sum();
        for account in self.accounts.values_mut().filter(|account| account.is_waiting) {
            account.promised += FLOOR * bytes as f64 / waiting;
        }
        if let Some(account) = self.accounts.get_mut(&tenant) {
            account.given += bytes as f64 / account.weight;
        }
    }

    /// Counts a leased job of `bytes` of `tenant` that was stopped: nothing was given.
    pub fn stop(&mut self, tenant: TenantId, bytes: u64) {
        if let Some(account) = self.accounts.get_mut(&tenant) {
            account.given = (account.given - bytes as f64 / account.weight).max(0.0);
        }
    }

    /// How far each tenant with work waiting is behind its promise, where that is more than is let
    /// pass. Less than 0: how far it is ahead of its share, where that is more than is let pass.
    pub fn owed(&self) -> BTreeMap<TenantId, f64> {
        let owed = |account: &Account| {
            let (behind, ahead) =
                (account.promised - account.given, account.given - account.promised / FLOOR);
            match (behind > GRACE_BYTES, ahead > AHEAD_BYTES) {
                (true, _) => Some(behind),
                (false, true) => Some(-ahead),
                (false, false) => None,
            }
        };
        self.accounts.iter().filter_map(|(tenant, account)| Some((*tenant, owed(account)?))).collect()
    }
}

#[cfg(test)]
impl Ledger {
    /// Accounts that there are.
    pub(super) fn len(&self) -> usize {
        self.accounts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TenantId = TenantId(1);
    const B: TenantId = TenantId(2);
    const C: TenantId = TenantId(3);

    fn behind(ledger: &Ledger) -> BTreeMap<TenantId, f64> {
        ledger.owed().into_iter().filter(|(_, owed)| *owed > 0.0).collect()
    }

    #[test]
    fn who_waits_is_owed_a_part_of_his_share_and_who_rests_saves_nothing() {
        let mut ledger = Ledger::default();
        ledger.set_weight(B, 3.0);
        ledger.set_waiting(&[A, B].into());
        for _ in 0..40 {
            ledger.lease(A, 256 << 20);
        }
        // Of 10 GiB in all, for 4 units of weight, a quarter of 2.5 GiB for each.
        let owed = behind(&ledger);
        assert_eq!(owed.keys().collect::<Vec<_>>(), [&B]);
        assert!((owed[&B] - 0.25 * 2.5 * f64::from(1 << 30)).abs() < 1.0, "{owed:?}");
        ledger.lease(B, 3 << 30);
        assert_eq!(behind(&ledger), BTreeMap::new());
        ledger.stop(B, 3 << 30);
        assert_eq!(behind(&ledger).keys().collect::<Vec<_>>(), [&B], "what was stopped was not given");
        ledger.lease(B, 3 << 30);
        // C comes late and has saved nothing; B rests and loses what it was promised.
        ledger.set_waiting(&[A, C].into());
        assert_eq!(behind(&ledger), BTreeMap::new());
        for _ in 0..16 {
            ledger.lease(A, 256 << 20);
        }
        assert_eq!(behind(&ledger).keys().collect::<Vec<_>>(), [&C]);
    }

    #[test]
    fn who_takes_more_than_his_share_while_others_wait_is_ahead_until_he_rests() {
        const GIB: u64 = 1 << 30;
        let mut ledger = Ledger::default();
        ledger.set_weight(A, 2.0);
        // Alone it takes its share.
        ledger.set_waiting(&[A].into());
        (0..100).for_each(|_| ledger.lease(A, GIB));
        assert_eq!(ledger.owed(), BTreeMap::new());
        ledger.set_waiting(&[A, B, C].into());
        for _ in 0..16 {
            ledger.lease(A, GIB);
            ledger.lease(B, GIB / 4);
            ledger.lease(C, GIB / 4);
        }
        // 24 GiB for 4 units of weight: 6 for each. A was given 8 for each of its two, the others a
        // quarter of 16.
        assert_eq!(ledger.owed(), BTreeMap::new(), "2 GiB may be let pass");
        (0..16).for_each(|_| ledger.lease(A, GIB));
        let ahead = 16.0 - (24.0 + 16.0) / 4.0;
        let owed = ledger.owed();
        assert_eq!(owed.keys().collect::<Vec<_>>(), [&A]);
        assert!((owed[&A] + ahead * GIB as f64).abs() < 1.0, "{owed:?}");
        ledger.set_waiting(&[B, C].into());
        ledger.set_waiting(&[A, B, C].into());
        assert_eq!(ledger.owed(), BTreeMap::new());
    }
}
