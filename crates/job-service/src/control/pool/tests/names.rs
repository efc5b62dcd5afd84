//! Names of tenants, zones and locations come and go.

use super::*;

/// Tenants, zones and kinds that are known, and accounts.
fn known(pool: &Pool) -> [usize; 4] {
    [pool.tenants.iter().count(), pool.zones.iter().count(), pool.kinds.iter().count(), pool.ledger.len()]
}

#[test]
fn what_nothing_names_any_more_is_forgotten_and_what_is_left_keeps_its_number() {
    let mut pool = pool();
    pool.hear(seconds(0), Profile { zone: "near".to_owned(), ..profile(A, 1) }, &[]);
    let named = |number: u64| Order {
        tenant: format!("t{number}"),
        zone: format!("z{number}"),
        location: format!("/location{number}"),
        ..order()
    };
    for number in 0..1000 {
        let now = seconds(number / 10);
        pool.hear(now, Profile { zone: "near".to_owned(), ..profile(A, 1) }, &[]);
        pool.submit(now, key(number), named(number)).unwrap();
        let all: Vec<u64> = (0..=number).collect();
        // Two are left: the first, which no worker has begun, and the last.
        let taken: Vec<u64> = (1..number).collect();
        pool.follow(now, CLIENT, &all, &taken);
        pool.tick(now);
        assert!(known(&pool).iter().all(|count| *count <= 120), "{:?}", known(&pool));
    }
    pool.follow(seconds(120), CLIENT, &[0, 999], &[]);
    pool.tick(seconds(120));
    assert_eq!(known(&pool), [2, 3, 2, 2], "the worker has a zone too");
    let names = |names: &Names<String>| names.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&pool.tenants), ["t0", "t999"]);
    assert_eq!(names(&pool.zones), ["near", "z0", "z999"]);
    let numbers: BTreeMap<TenantId, String> =
        pool.tenants.iter().map(|(name, number)| (TenantId(number), name.clone())).collect();
    for job in pool.jobs.all() {
        let wanted = job.wanted.as_ref().unwrap();
        assert_eq!(numbers[&wanted.tenant], wanted.order.tenant);
    }
    pool.jobs.check();
    // A name that comes again gets a number that is free.
    pool.submit(seconds(120), key(1000), named(5)).unwrap();
    let numbers: Vec<u32> = pool.tenants.iter().map(|(_, number)| number).collect();
    assert_eq!((numbers.len(), numbers.contains(&0)), (3, false), "{numbers:?}");
    assert_eq!(numbers.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
}
