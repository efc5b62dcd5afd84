//! Tenants of several weights at one slot.

use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A tenant goes last once it is so far beyond its share. It goes first once it is so far behind a
/// quarter of it. Both are for each unit of weight.
const AHEAD_BYTES: u64 = 4 * GIB;
const GRACE_BYTES: u64 = 256 * MIB;

/// Weights of the two that have jobs waiting all the time.
const HEAVY: f64 = 3.0;
const LIGHT: f64 = 1.0;

#[derive(Default)]
struct Tenant {
    weight: f64,
    /// Its writers stand still, and all of its jobs are L0 work; or all of them are deep work.
    is_urgent: bool,
    /// So many of its jobs are there beside the running one.
    keeps: u64,
    submitted: u64,
    leased: u64,
}

/// One slot that does a job a second, all of the same size.
struct Shares {
    pool: Pool,
    now: Duration,
    job_bytes: u64,
    tenants: Vec<Tenant>,
    runs: Lease,
}

impl Shares {
    /// Another tenant's job has the slot while the first jobs come.
    fn new(job_bytes: u64, tenants: Vec<Tenant>) -> Self {
        let (mut pool, now) = (pool(), seconds(0));
        pool.hear(now, profile(A, 1), &[]);
        pool.submit(now, key(0), order()).unwrap();
        let runs = only(pull(&mut pool, now, A));
        Self { pool, now, job_bytes, tenants, runs }
    }

    fn submit(&mut self, index: usize) {
        let (tenant, bytes) = (&mut self.tenants[index], self.job_bytes);
        let key = JobKey { client: index as u128, number: tenant.submitted };
        let (lane, stalls_in) =
            if tenant.is_urgent { (Lane::L0, Some(seconds(0))) } else { (Lane::Deep, None) };
        let (name, weight) = (format!("db{index}"), tenant.weight);
        let order = Order { tenant: name, weight, lane, bytes, stalls_in, ..order() };
        self.pool.submit(self.now, key, order).unwrap();
        tenant.submitted += 1;
    }

    /// The running job ends, and the next one begins; of which tenant that is.
    fn step(&mut self) -> usize {
        for index in 0..self.tenants.len() {
            while self.tenants[index].submitted < self.tenants[index].leased + self.tenants[index].keeps {
                self.submit(index);
            }
        }
        self.now += seconds(1);
        let timings = Timings { ran: seconds(1), ..Timings::default() };
        assert!(self.pool.finish(self.now, A, held(&self.runs), done(), timings));
        let JobKey { client, number } = self.runs.key;
        let submitted = self.tenants.get(client as usize).map_or(0, |tenant| tenant.submitted);
        let waiting: Vec<u64> = (number + 1..submitted).collect();
        self.pool.follow(self.now, client, &waiting, &[number]);
        self.runs = only(pull(&mut self.pool, self.now, A));
        let whose = self.runs.key.client as usize;
        self.tenants[whose].leased += 1;
        whose
    }

    /// Bytes that were leased to a tenant, as operators see them.
    fn leased_bytes(&self, index: usize) -> u64 {
        let name = format!("db{index}");
        self.pool.counts.tenants().find(|(tenant, _)| *tenant == name).map_or(0, |(_, bytes)| bytes)
    }
}

fn two(urgent: Option<usize>) -> Vec<Tenant> {
    let of =
        |(index, weight)| Tenant { weight, is_urgent: urgent == Some(index), keeps: 3, ..Tenant::default() };
    [HEAVY, LIGHT].into_iter().enumerate().map(of).collect()
}

#[test]
fn what_is_leased_follows_weights_whoever_is_urgent() {
    const JOB_BYTES: u64 = 256 * MIB;
    const ALL_BYTES: u64 = 1000 * GIB;
    let mut ratios = Vec::new();
    for urgent in [None, Some(0), Some(1)] {
        let mut shares = Shares::new(JOB_BYTES, two(urgent));
        for count in 1..=ALL_BYTES / JOB_BYTES {
            shares.step();
            // No other tenant waits, so that this is so at each moment, and not in the end alone.
            let share = (count * JOB_BYTES) as f64 / (HEAVY + LIGHT);
            for (index, tenant) in shares.tenants.iter().enumerate() {
                let (given, job) =
                    (shares.leased_bytes(index) as f64 / tenant.weight, JOB_BYTES as f64 / tenant.weight);
                // The last job that it got may have brought it there, and another job may run as it
                // is behind.
                let most = share + AHEAD_BYTES as f64 + job;
                let least = share / 4.0 - GRACE_BYTES as f64 - JOB_BYTES as f64 / 4.0;
                assert!(
                    (least..=most).contains(&given),
                    "{urgent:?}, job {count}, tenant {index}: {given} is not in {least}..={most}"
                );
            }
        }
        let [heavy, light] = [0, 1].map(|index| shares.leased_bytes(index));
        assert_eq!(heavy + light, ALL_BYTES);
        // What one is ahead is what the other one lacks.
        let ratio = |heavy: u64| heavy as f64 / (ALL_BYTES - heavy) as f64;
        let least = ratio(ALL_BYTES / 4 * 3 - AHEAD_BYTES - JOB_BYTES);
        let most = ratio(ALL_BYTES / 4 * 3 + 3 * AHEAD_BYTES + JOB_BYTES);
        let found = ratio(heavy);
        println!("{urgent:?}: {found:.3} of {least:.3}..={most:.3}");
        assert!((least..=most).contains(&found), "{urgent:?}: {found} is not in {least}..={most}");
        assert!(least > 2.9 && most < 3.3, "that says something: {least}..={most}");
        ratios.push(found);
    }
    assert!(ratios[2] < 3.0 && ratios[1] > 3.0, "who is urgent is ahead, as far as he may: {ratios:?}");
}

/// A third tenant has one deep job now and then, while the writers of both others stand still all
/// the time.
fn longest_wait(job_bytes: u64, jobs: usize) -> Duration {
    let mut tenants = two(None);
    tenants.iter_mut().for_each(|tenant| tenant.is_urgent = true);
    tenants.push(Tenant { weight: LIGHT, ..Tenant::default() });
    let mut shares = Shares::new(job_bytes, tenants);
    let mut longest = Duration::ZERO;
    for _ in 0..jobs {
        // Others have got more than their shares by then, and less.
        for _ in 0..50 {
            shares.step();
        }
        let submitted = shares.now;
        shares.submit(2);
        while shares.step() != 2 {
            assert!(shares.now - submitted < seconds(1000), "it waits for ever");
        }
        longest = longest.max(shares.now - submitted);
    }
    println!("{job_bytes} bytes a second: {longest:?}");
    longest
}

#[test]
fn who_has_a_job_now_and_then_waits_no_longer_than_the_guide_says() {
    // It is behind once a quarter of its share is more than 256 MiB: 5 GiB are leased then for five
    // units of weight. One job more, and the job that ran when it came.
    let until_owed = 4 * GRACE_BYTES * 5 / (256 * MIB);
    let owed = longest_wait(256 * MIB, 30);
    assert!(owed > seconds(until_owed / 2) && owed <= seconds(until_owed + 2), "{owed:?}");
    // Or 300 s are over first, and the job that runs then.
    let patient = longest_wait(8 * MIB, 3);
    assert!(patient > seconds(200) && patient <= seconds(302), "{patient:?}");
}
