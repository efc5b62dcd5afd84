use super::delayed::Delayed;
use super::*;
use crate::{ErrorKind, KEYSPACE_DEFAULT as KS};

const O: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

#[test]
fn every_call_waits_for_its_completion() {
    let (session, held) = Delayed::pair();
    let background = held.release_in_background();
    drop(held);
    let mut db = Blocking::new(session);
    db.put(KS, b"a", b"1", O).unwrap();
    db.write(Batch::new().put(KS, b"b", b"22").put(KS, b"c", b"3"), O).unwrap();
    assert_eq!(db.get(ReadAt::Latest, KS, b"b").unwrap().as_deref(), Some(&b"22"[..]));
    assert_eq!(db.get(ReadAt::Latest, KS, b"x").unwrap(), None);
    let mut out = b"left over".to_vec();
    assert!(db.get_range_into(ReadAt::Latest, KS, b"b", 1..2, &mut out).unwrap());
    assert_eq!(out, b"2");
    assert!(!db.get_into(ReadAt::Latest, KS, b"x", &mut out).unwrap());
    assert!(out.is_empty());
    let values = db.multi_get(ReadAt::Latest, KS, &[b"c", b"x", b"a"]).unwrap();
    assert_eq!(values.iter().collect::<Vec<_>>(), [Some(&b"3"[..]), None, Some(&b"1"[..])]);
    assert!(db.is_stored(KS, b"a").unwrap());
    db.delete(KS, b"a", O).unwrap();
    assert!(!db.is_stored(KS, b"a").unwrap());
    assert_eq!(db.merge(KS, b"a", b"x", O).unwrap_err().kind(), ErrorKind::Invalid);
    let length = db.update(KS, b"b", O, |value| {
        let length = value.map_or(0, <[u8]>::len);
        (Change::Put(vec![b'x'; length + 1]), length)
    });
    assert_eq!(length.unwrap(), 2, "the answer is that of the last call");
    assert_eq!(db.get(ReadAt::Latest, KS, b"b").unwrap().as_deref(), Some(&b"xxx"[..]));
    drop(db);
    background.join().unwrap();
}

#[test]
fn a_scan_crosses_batches() {
    let (session, held) = Delayed::pair();
    let background = held.release_in_background();
    drop(held);
    let mut db = Blocking::new(session);
    for number in 0..100_u8 {
        db.put(KS, &[number], &[number, number], O).unwrap();
    }
    let records: Vec<_> =
        db.scan(ReadAt::Latest, KS, ScanRange::all()).unwrap().map(Result::unwrap).collect();
    assert_eq!(records.len(), 100);
    assert!(records.iter().enumerate().all(|(n, (key, value))| key[..] == [n as u8] && value.len() == 2));
    let mut lent = db.scan(ReadAt::Latest, KS, ScanRange::all()).unwrap();
    assert_eq!(lent.next_record().unwrap(), Some((&[0_u8][..], &[0_u8, 0][..])));
    drop(lent);
    drop(db);
    background.join().unwrap();
}

#[test]
fn completions_of_other_tickets_are_set_apart() {
    let (session, held) = Delayed::pair();
    let mut db = Blocking::new(session);
    let first = pending(db.session().put(KS, b"a", b"1", O).unwrap());
    let second = pending(db.session().put(KS, b"b", b"2", O).unwrap());
    let third = pending(db.session().put(KS, b"c", b"3", O).unwrap());
    held.release(0);
    held.release(0);
    held.release(0);
    assert!(matches!(db.wait_for(second).unwrap(), Completion::Written(_)));
    assert!(matches!(db.wait_for(first).unwrap(), Completion::Written(_)));
    let mut rest = Vec::new();
    assert_eq!(db.poll(&mut |ticket, _| rest.push(ticket)), 1);
    assert_eq!(rest, [third]);
}

fn pending<T: std::fmt::Debug>(outcome: Outcome<T>) -> Ticket {
    match outcome {
        Outcome::Pending(ticket) => ticket,
        Outcome::Done(result) => panic!("done at once: {result:?}"),
    }
}
