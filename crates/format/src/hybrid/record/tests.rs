use super::*;

/// Shapes at the limits of short and of long records.
fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for key_bytes in [0, 1, 8, 255, 256, 65_535] {
        for value_bytes in [0, 1, 8, 9, 4095, 4096, 1 << 20, u32::MAX as usize] {
            for slack_words in [0, 1, 31, 32, 65_535] {
                for flags in 0..32_u32 {
                    let is = |bit: u32| flags >> bit & 1 != 0;
                    shapes.push(
                        Shape {
                            key_bytes,
                            value_bytes,
                            slack_words,
                            has_expiry: is(0),
                            has_keyspace: is(1),
                            is_tombstone: is(2),
                            is_operand: is(3),
                            is_reference: is(4),
                            is_long: false,
                        }
                        .fitted(),
                    );
                }
            }
        }
    }
    shapes
}

#[test]
fn every_shape_reads_back() {
    for shape in shapes() {
        let (state, lengths) = shape.encode(77);
        assert_eq!(lengths.is_some(), shape.is_long, "{shape:?}");
        assert_eq!(Shape::decode(state, || lengths.unwrap()), shape);
        assert_eq!(state.sequence(), 77);
        assert!(!state.is_sealed());
    }
}

#[test]
fn a_record_of_eight_and_eight_bytes_has_four_words() {
    let shape = Shape { key_bytes: 8, value_bytes: 8, ..Shape::default() }.fitted();
    assert_eq!((shape.words(), shape.key_at(), shape.value_at()), (4, 2, 3));
}

#[test]
fn a_value_that_changes_in_place_leaves_the_next_record_where_it_was() {
    for shape in shapes().into_iter().filter(|shape| shape.value_bytes <= 1 << 20) {
        for value_bytes in [0, 1, 8, 40, 256, 4095, 4096, 70_000] {
            if !shape.holds(value_bytes) {
                continue;
            }
            let changed = shape.with_value(value_bytes);
            assert_eq!(changed.words(), shape.words(), "{shape:?} with {value_bytes}");
            let (state, lengths) = changed.encode(0);
            assert_eq!(Shape::decode(state, || lengths.unwrap()), changed, "{shape:?} with {value_bytes}");
        }
    }
    let shape = Shape { key_bytes: 8, value_bytes: 8, slack_words: 1, ..Shape::default() };
    assert!(shape.holds(16) && shape.holds(0) && !shape.holds(17));
    let full = Shape { value_bytes: 31 * 8, slack_words: 1, ..shape };
    assert!(full.holds(8) && !full.holds(0), "32 words of slack are no short record's");
}

#[test]
fn links_and_states_keep_what_they_are_given() {
    let link = Link::new(ADDRESS_MAX);
    assert!(link.is_record() && !link.is_invalid() && link.previous() == ADDRESS_MAX);
    assert!(link.invalid().is_invalid() && link.invalid().previous() == ADDRESS_MAX);
    assert!(!Link(0).is_record());
    let state = State(0).with_sequence(u32::MAX).sealed();
    assert!(state.is_locked() && state.is_sealed() && !state.unsealed().is_sealed());
    assert!(state.as_tombstone(true).is_tombstone() && !state.as_tombstone(false).is_tombstone());
}
