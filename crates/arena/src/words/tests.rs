use super::Words;
use crate::sync::Ordering;

#[test]
fn words_are_zero_keep_what_they_are_given_and_are_zero_again_once_given_back() {
    let words = Words::zeroed(4096).expect("memory");
    assert_eq!(words.count(), 4096);
    assert!(words.words(0..4096).iter().all(|word| word.load(Ordering::Relaxed) == 0));
    for index in [0, 511, 512, 4095] {
        words.word(index).store(index as u64 + 1, Ordering::Relaxed);
    }
    assert_eq!(words.word(512).fetch_add(1, Ordering::Relaxed), 513);
    // Words 512 to 1023 are one page of 4 KiB; of the others no page lies within the range.
    words.discard(511..1025);
    let left = [0, 511, 512, 4095].map(|index| words.word(index).load(Ordering::Relaxed));
    assert_eq!(left, [1, 512, 0, 4096]);
}

#[test]
#[should_panic(expected = "outside")]
fn a_word_behind_the_last_is_refused() {
    let words = Words::zeroed(8).expect("memory");
    words.word(8).store(1, Ordering::Relaxed);
}

#[test]
fn no_words_and_too_many_are_refused() {
    assert!(Words::zeroed(0).is_err());
    assert!(Words::zeroed(usize::MAX / 8 + 1).is_err());
}
