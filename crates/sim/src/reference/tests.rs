use std::path::PathBuf;
use std::time::Duration;

use firn_engine::conformance::{self, Harness, OpenWith};
use firn_storage::ManualClock;
use firn_storage::backend::Memory;

use super::*;

struct InMemory {
    memory: Memory,
    clock: Arc<ManualClock>,
    fault: Option<Fault>,
    pending_every: u64,
    is_ordered: bool,
}

impl InMemory {
    fn make(fault: Option<Fault>, pending_every: u64) -> Box<dyn Harness> {
        let clock = Arc::new(ManualClock::new(1_000_000));
        Box::new(Self { memory: Memory::new(), clock, fault, pending_every, is_ordered: true })
    }

    fn unordered(fault: Option<Fault>) -> Box<dyn Harness> {
        let (memory, clock) = (Memory::new(), Arc::new(ManualClock::new(1_000_000)));
        Box::new(Self { memory, clock, fault, pending_every: 3, is_ordered: false })
    }

    fn reference(&self, memory: &Memory, with: OpenWith) -> Result<Arc<dyn Engine>> {
        let options = ReferenceOptions {
            storage: Arc::new(memory.clone()),
            semantics: conformance::semantics(),
            clock: self.clock.clone(),
            durability: with.durability,
            pending_every: self.pending_every,
            is_ordered: self.is_ordered,
            fault: self.fault,
        };
        Ok(Arc::new(Reference::open(options)?))
    }
}

impl Harness for InMemory {
    fn open(&mut self, with: OpenWith) -> Result<Arc<dyn Engine>> {
        self.reference(&self.memory, with)
    }

    fn copy_path(&self, name: &str) -> PathBuf {
        PathBuf::from(name)
    }

    fn open_copy(&mut self, path: &Path) -> Result<Arc<dyn Engine>> {
        let memory = self.memory.directory(path).ok_or_else(|| Error::invalid("no copy there"))?;
        self.reference(&memory, OpenWith::default())
    }

    fn now_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn advance_ms(&mut self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }
}

#[test]
fn the_reference_keeps_the_contract() {
    conformance::check(&|| InMemory::make(None, 0));
}

#[test]
fn the_reference_keeps_the_contract_with_pending_answers() {
    for every in [1, 3] {
        conformance::check(&|| InMemory::make(None, every));
    }
}

#[test]
fn an_engine_without_order_keeps_the_contract() {
    conformance::check(&|| InMemory::unordered(None));
    // What is checked there can fail.
    let failures = conformance::failures(&|| InMemory::unordered(Some(Fault::MergeReplaces)), |_| true);
    assert!(!failures.is_empty(), "a merge that replaces passes");
}

/// Each of these checks fails by itself where what it is about does not hold.
#[test]
fn checks_of_named_changes_notice_what_they_are_about() {
    for (name, fault) in [
        ("rmw::an expired value counts as none", Fault::ExpiredInUpdate),
        ("rmw::sums of many threads are exact", Fault::UnlockedUpdate),
    ] {
        let failures = conformance::failures(&|| InMemory::make(Some(fault), 3), |check| check == name);
        assert!(!failures.is_empty(), "{name} does not notice {fault:?}");
    }
}

/// Faults that only a crash shows; `crash` and `metamorphic` have their own canaries for them.
const SEEN_ONLY_AFTER_CRASHES: [Fault; 2] = [Fault::SkipSync, Fault::LateJournal(1)];

#[test]
fn the_suite_notices_every_fault() {
    let missed: Vec<Fault> = Fault::ALL
        .into_iter()
        .filter(|fault| !SEEN_ONLY_AFTER_CRASHES.contains(fault))
        .filter(|fault| {
            let failures = conformance::failures(&|| InMemory::make(Some(*fault), 3), |_| true);
            println!("{fault:?}: {} checks failed", failures.len());
            failures.is_empty()
        })
        .collect();
    assert!(missed.is_empty(), "the suite does not notice {missed:?}");
}
