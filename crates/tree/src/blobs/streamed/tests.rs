use firn_format::compression::Compression;
use firn_storage::backend::{Memory, Reusing};
use firn_storage::file::obsolete::ObsoleteFiles;
use firn_storage::{ManualClock, Storage};

use super::*;
use crate::blobs::BlobStoreStart;
use crate::files::Files;
use crate::settings::Settings;

fn values(storage: &Memory) -> BlobStore {
    let storage = Arc::new(storage.clone()) as Arc<dyn Storage>;
    let outputs = Arc::new(Reusing::new(Arc::clone(&storage)));
    let job_outputs = Arc::new(outputs.beside());
    let obsolete = Arc::new(ObsoleteFiles::new(false));
    BlobStore::start(BlobStoreStart {
        files: Arc::new(Files::new(storage, outputs, job_outputs, obsolete)),
        settings: Arc::new(Settings::default().with_engine(|tree| tree.blob_segment_bytes = 1 << 20)),
        clock: Arc::new(ManualClock::new(0)),
        database: 1,
        generation: 1,
        map: Arc::default(),
        next: SegmentNumber(3),
    })
}

fn files(storage: &Memory) -> usize {
    storage.list().unwrap().len()
}

/// The database closes between the look at whether it is open and what follows.
#[test]
fn nothing_begins_or_joins_once_the_database_is_closed() {
    let storage = Memory::new();
    let values = values(&storage);
    let stream = || values.stream((7, b"key"), 2 << 20, Compression::Lz4);
    let mut streamed = [stream().unwrap(), stream().unwrap()];
    for streamed in &mut streamed {
        streamed.add(&[1; Streamed::CHUNK_BYTES]).unwrap();
        streamed.add(&[2; Streamed::CHUNK_BYTES]).unwrap();
    }
    let [first, second] = streamed.map(|streamed| streamed.finish().unwrap());
    assert_eq!((first.reference.segment, second.reference.segment), (SegmentNumber(3), SegmentNumber(4)));
    assert!(values.open_numbers().is_empty() && values.map().homes().next().is_none());
    let places = first.join().unwrap();
    assert_eq!(values.open_numbers().into_iter().collect::<Vec<_>>(), [SegmentNumber(3)]);
    // Writers are charged for what they bring, and GCs give back what is written of it.
    assert!(values.brought.for_each_written() > 100.0, "{:?}", values.brought);
    assert!(values.map().known(SegmentNumber(3)).is_some() && values.to_be_sealed().is_empty());
    assert_eq!(files(&storage), 2);
    values.give_up_unfinished();
    // What has joined is an open segment as others are.
    assert_eq!(files(&storage), 1);
    assert_eq!(second.join().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(stream().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(files(&storage), 1);
    drop(places);
    assert_eq!(values.to_be_sealed().len(), 1);
}
