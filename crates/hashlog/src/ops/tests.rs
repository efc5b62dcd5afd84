use firn_format::file_name::cold_segment;
use firn_storage::Storage;
use firn_storage::backend::Memory;

use super::*;
use crate::device::Device;
use crate::waits::Waits;

fn store() -> Store {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let device = Device::open(&storage, (1, 1), 10, (cold_segment, Vec::new())).expect("no files");
    let cold = Cold::new(device, (8, 8, 8), Vec::new().into());
    let epochs = Epochs::new(None);
    let index = Index::new(1024, Arc::clone(&epochs), Waits::timed_by(None)).expect("an index");
    let log = Log::new((8, 8), 1 << 12, 8).expect("a log");
    Store {
        index,
        log,
        cold,
        cache: None,
        division: Division::of(&crate::settings::Settings::default()),
        redo: None,
        epochs,
        replaced_values: Mutex::default(),
        has_unlogged: false.into(),
        stripes: Stripes::new(),
    }
}

/// Pitfall 8: a record that lost the race for its entry is in the log all the same. Whether its
/// entry was made or changed by the winner, no scan of the log may take it for the newest.
#[test]
fn a_record_that_lost_its_race_is_invalid() {
    let store = store();
    let mut access = Access::new(&Arc::new(store)).expect("a place");
    let (store, _inside) = access.enter();
    let key = Key::new(0, b"key");
    let parts = parts_of(key, b"value", 0);
    let mut found = None;
    for round in 0..3 {
        let winner = match store.put_in_front(key.hash, store.index.find(key.hash), &parts) {
            Attempt::Done(address) => address,
            other => panic!("round {round}: {other:?}"),
        };
        // The chain is as it was found before the winner came.
        let lost = store.put_in_front(key.hash, found, &parts);
        assert!(matches!(lost, Attempt::Again), "round {round}: {lost:?}");
        let loser = winner + parts.shape.words() as u64;
        assert!(store.log.record(loser).link().is_invalid(), "round {round}");
        assert!(!store.log.record(winner).link().is_invalid(), "round {round}");
        assert_eq!(store.index.find(key.hash).map(|(_, entry)| entry.target()), Some(winner));
        found = store.index.find(key.hash);
    }
}
