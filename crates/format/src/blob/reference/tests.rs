//! References in every form.

use super::*;

const SHORT: Reference = Reference {
    segment: SegmentNumber(700),
    ordinal: 127,
    offset: 8 << 20,
    value_bytes: 4097,
    checksum: 0x89ab_cdef,
};

#[test]
fn there_and_back_in_every_length() {
    let mut lengths = Vec::new();
    for shift in 0..32 {
        for number in [1u32 << shift, (1 << shift) - 1, u32::MAX >> shift] {
            for ordinal in [0, number, u32::MAX] {
                let offset = u64::from(number) << 3;
                let reference = Reference {
                    segment: SegmentNumber(number),
                    ordinal,
                    offset,
                    value_bytes: number,
                    ..SHORT
                };
                let bytes = reference.encode();
                assert_eq!(Reference::decode(&bytes), Ok(reference), "{reference}");
                lengths.push(bytes.len());
            }
        }
    }
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!((lengths.first(), lengths.last()), (Some(&8), Some(&24)));
    assert_eq!(SHORT.encode().len(), 2 + 1 + 3 + 2 + 4);
}

#[test]
fn a_short_form_as_long_as_the_fixed_one_is_not_written() {
    let most = Reference {
        segment: SegmentNumber(u32::MAX),
        ordinal: u32::MAX,
        offset: u64::from(u32::MAX) << 3,
        value_bytes: u32::MAX,
        checksum: u32::MAX,
    };
    let bytes = most.encode();
    assert_eq!((&bytes[..20], &bytes[20..]), (&[0xff; 20][..], &[0; 4][..]));
    assert_eq!(Reference::decode(&bytes), Ok(most));
    let less = Reference { segment: SegmentNumber((1 << 28) - 1), ..most };
    assert_eq!((less.encode().len(), Reference::decode(&less.encode())), (23, Ok(less)));
}

#[test]
fn what_is_neither_form_is_refused() {
    let short = SHORT.encode();
    for cut in 0..short.len() {
        assert!(Reference::decode(&short[..cut]).is_err(), "cut at {cut}");
    }
    for more in [1, 2, 3, 4, 5, 8] {
        assert!(Reference::decode(&[&short[..], &[0; 8][..more]].concat()).is_err(), "{more} bytes more");
    }
    assert!(Reference::decode(&SHORT.encode_fixed([1; 4])).is_err(), "the short form has room");
    let fixed = SHORT.encode_fixed([u32::MAX; 4]);
    assert!(Reference::decode(&fixed).is_ok());
    let unused = [&fixed[..20], &[0, 0, 0, 1]].concat();
    assert!(Reference::decode(&unused).is_err(), "what is unused is zero");
    assert_eq!(Reference::decode(&fixed[..23]).map_err(|error| error.offset), Err(23));
    assert!(Reference::decode(&[&fixed[..], &[0]].concat()).is_err(), "25 bytes");
    let checksum = [0xee; 4];
    let long = [&[0x87, 0x00, 1, 1, 1], &checksum[..]].concat();
    assert!(Reference::decode(&long).is_err(), "7 in two bytes");
    let large = [&[0xff, 0xff, 0xff, 0xff, 0x1f, 1, 1, 1], &checksum[..]].concat();
    assert!(Reference::decode(&large).is_err(), "33 bits");
    // In 25 bytes, as if the short form went on.
    let too_long = [&[0xff, 0xff, 0xff, 0xff, 0x0f].repeat(4)[..], &[0x80], &checksum].concat();
    assert_eq!(too_long.len(), 25);
    assert!(Reference::decode(&too_long).is_err());
}
