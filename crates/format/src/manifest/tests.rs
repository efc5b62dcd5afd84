use super::*;
use crate::bytes::put_bytes;
use crate::error::Error;
use crate::key::POSITION_END;
use crate::{FormatVersion, checksum, varint};

/// An edit whose changes are `changes`, sealed.
fn sealed(changes: &[u8]) -> Vec<u8> {
    let mut out = ManifestEdit { number: 1, base: false, epoch: 1, changes: vec![] }.encode();
    out.extend_from_slice(changes);
    seal(&mut out);
    out
}

fn seal(edit: &mut [u8]) {
    let (header, changes) = edit.split_at_mut(EDIT_HEADER_BYTES);
    header[32..40].copy_from_slice(&(changes.len() as u64).to_le_bytes());
    let checksum = checksum::xxh3_of_two(&header[..40], changes);
    header[40..].copy_from_slice(&checksum.to_le_bytes());
}

/// One change from its tag and body.
fn change(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    put_bytes(body, &mut out);
    out
}

fn decode(changes: &[u8]) -> crate::Result<Vec<Change>> {
    Ok(ManifestEdit::decode(&sealed(changes))?.changes)
}

/// The error of decoding one change whose body is `body`.
fn refusal(tag: u8, body: &[u8]) -> Error {
    decode(&change(tag, body)).unwrap_err()
}

fn number(number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint::encode(number, &mut out);
    out
}

/// The body of a change that creates a keyspace with these settings.
fn keyspace(settings: &[(&str, &str)]) -> Vec<u8> {
    let mut out = number(1);
    put_bytes(b"name", &mut out);
    varint::encode(settings.len() as u64, &mut out);
    for (name, value) in settings {
        put_bytes(name.as_bytes(), &mut out);
        put_bytes(value.as_bytes(), &mut out);
    }
    out
}

#[test]
fn the_bodies_made_here_are_what_decoding_takes() {
    let settings = KeyspaceText {
        compression: Some("lz4".into()),
        merge_operator: Some("sum".into()),
        ..Default::default()
    };
    let expected = Change::Keyspace { id: 1, name: "name".into(), settings };
    let found = decode(&change(2, &keyspace(&[("compression", "lz4"), ("merge_operator", "sum")])));
    assert_eq!(found, Ok(vec![expected]));
}

#[test]
fn tags_of_newer_releases_are_refused_by_name() {
    for (tag, name) in
        [(80, "UserTimestamps"), (81, "EncryptionKey"), (82, "FlushedThroughRange"), (83, "SequenceShift")]
    {
        let good = change(3, &[1]);
        let error = decode(&[good.clone(), change(tag, b"whatever")].concat()).unwrap_err();
        assert!(error.found.contains(name) && error.found.contains("newer"), "{error}");
        assert_eq!(error.offset, EDIT_HEADER_BYTES + good.len());
    }
    for tag in [0, 20, 63, 72, 255] {
        assert!(refusal(tag, b"").found.contains("unknown"), "{tag}");
    }
}

#[test]
fn settings_are_known_in_order_and_once() {
    let compression = ("compression", "none");
    let (operator, filter) = (("merge_operator", "a"), ("compaction_filter", "b"));
    for right in [&[compression, operator, filter][..], &[operator], &[]] {
        assert!(decode(&change(2, &keyspace(right))).is_ok(), "{right:?}");
    }
    for wrong in [
        &[compression, filter, operator][..],
        &[compression, compression],
        &[compression, ("bytes_per_second_max", "7")],
    ] {
        assert!(decode(&change(2, &keyspace(wrong))).is_err(), "{wrong:?}");
    }
    let body = keyspace(&[compression, ("bytes_per_second_max", "7")]);
    assert!(refusal(2, &body).found.contains("newer"));
}

#[test]
fn a_share_is_no_more_than_the_whole() {
    // 1000 and 1001 as varints behind the name of a file.
    assert!(decode(&change(13, &[1, b'f', 0xe8, 0x07])).is_ok());
    let error = refusal(13, &[1, b'f', 0xe9, 0x07]);
    assert!(error.expected.contains("1000") && error.found.contains("1001"), "{error}");
}

#[test]
fn more_or_fewer_fields_are_refused() {
    let error = refusal(3, &[1, 1]);
    assert_eq!(error.offset, EDIT_HEADER_BYTES + 3);
    assert!(error.found.contains("newer"), "{error}");
    assert!(decode(&change(3, &[])).is_err());
    assert!(decode(&change(1, &[0; 15])).is_err());
    assert!(decode(&[3, 2, 1]).is_err(), "a body past the end of the file");
    assert!(decode(&[3]).is_err(), "no length");
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let keyspace = |position| [number(1), number(position)].concat();
    assert!(decode(&change(7, &keyspace(POSITION_END.0))).is_ok());
    assert_eq!(refusal(7, &keyspace(POSITION_END.0 + 1)).offset, EDIT_HEADER_BYTES + 3);
    assert!(refusal(3, &number(1 << 32)).expected.contains("2^32"));

    let mut table = Vec::new();
    for field in [number(1), number(0), number(0)] {
        table.extend(field);
    }
    put_bytes(b"t-000000.table", &mut table);
    table.extend([number(1), vec![0; 8], number(0), number(0)].concat());
    let with_sequence = |sequence| [table.clone(), number(sequence), vec![0; 5], vec![0; 16]].concat();
    assert!(decode(&change(4, &with_sequence((1 << 56) - 1))).is_ok());
    assert!(refusal(4, &with_sequence(1 << 56)).expected.contains("2^56"));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in ["../x", "a/b", ".hidden", "", "a b", "ä"] {
        let mut body = Vec::new();
        put_bytes(name.as_bytes(), &mut body);
        assert!(decode(&change(5, &body)).is_err(), "{name:?}");
    }
}

#[test]
fn text_that_is_not_utf8_is_refused_where_it_ends_to_be() {
    let mut body = number(1);
    put_bytes(b"abc\xff", &mut body);
    // Tag, length, id, length of the name, then three good bytes.
    assert_eq!(refusal(2, &body).offset, EDIT_HEADER_BYTES + 2 + 1 + 1 + 3);
}

#[test]
fn headers_that_cannot_be_are_refused_at_their_field() {
    let mut flags = sealed(&[]);
    flags[12] = 2;
    seal(&mut flags);
    assert_eq!(ManifestEdit::decode(&flags).unwrap_err().offset, 12);

    let mut length = sealed(&[]);
    length[32] = 1;
    let checksum = checksum::xxh3_of_two(&length[..40], &[]);
    length[40..48].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(ManifestEdit::decode(&length).unwrap_err().offset, 32);

    let mut version = sealed(&[]);
    version[8] = FormatVersion::CURRENT as u8 + 1;
    let error = ManifestEdit::decode(&version).unwrap_err();
    assert!(error.offset == 8 && error.found.contains("newer"), "{error}");

    let mut magic = sealed(&[]);
    magic[0] = b'f';
    assert_eq!(ManifestEdit::decode(&magic).unwrap_err().offset, 0);
}
