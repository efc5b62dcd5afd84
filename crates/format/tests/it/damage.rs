//! Decoders against bytes that no encoder wrote.
//!
//! The checks are those of the fuzz targets (`fuzz/checks.rs`): no panic, and what a decoder
//! accepts is what encoding gives. So a decoded value is never larger than its bytes justify. Here
//! they run on bytes from a seed: noise, and golden files with a few bytes changed. The checksums
//! of those are made right again, so that the damage gets past the first check.

use std::fs;

use crate::golden;
use crate::samples::samples;

#[path = "../../fuzz/checks.rs"]
mod checks;

const SEED: u64 = 0x0f17_0001;
const ROUNDS: u64 = 3_000;

/// Numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn noise(&mut self, bytes: usize) -> Vec<u8> {
        // Small numbers are likelier than others to look like lengths, tags and counts.
        (0..bytes)
            .map(|_| if self.below(3) == 0 { self.below(20) as u8 } else { self.next() as u8 })
            .collect()
    }

    /// One to four changes: a byte, a cut, a piece doubled, a few bytes more.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => {
                    let extra = self.below(24);
                    let noise = self.noise(extra);
                    bytes.splice(at..at, noise);
                }
                2 => {
                    let end = (at + self.below(64)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ if bytes.is_empty() => {}
                3 => bytes[at] = 0xff,
                4 => bytes[at] = self.below(20) as u8,
                _ => bytes[at] ^= 1 << self.below(8),
            }
        }
    }
}

/// Runs the check `target` on bytes from one seed a round; a panic is preceded by the round's seed.
fn rounds(target: &str, start: impl Fn(&mut Random) -> Vec<u8>) {
    for round in 0..ROUNDS {
        let seed = SEED + round;
        let bytes = start(&mut Random(seed));
        let run = std::panic::catch_unwind(|| checks::run(target, &bytes));
        assert!(run.is_ok(), "{target}, seed {seed:#x}: a panic with {bytes:02x?}");
    }
}

#[test]
fn noise_harms_no_decoder() {
    for (target, _) in checks::ALL {
        rounds(target, |random| {
            let bytes = random.below(200);
            random.noise(bytes)
        });
    }
}

#[test]
fn damaged_golden_files_harm_no_decoder() {
    for sample in samples() {
        let good = fs::read(golden::path(&format!("{}.bin", sample.name))).unwrap();
        for (target, _) in checks::ALL {
            checks::run(target, &good);
            rounds(target, |random| {
                let mut bytes = good.clone();
                random.mutate(&mut bytes);
                bytes
            });
        }
    }
}

/// The checks would be worth nothing if no damaged bytes ever passed the first door.
#[test]
fn damage_reaches_the_inner_decoders() {
    let sample = samples().into_iter().find(|sample| sample.name == "manifest-edit-v1-every-change").unwrap();
    let accepted = (0..ROUNDS)
        .filter(|round| {
            let mut bytes = sample.bytes.clone();
            Random(SEED + round).mutate(&mut bytes);
            checks::seal_edit(&mut bytes);
            firn_format::manifest::ManifestEdit::decode(&bytes).is_ok()
        })
        .count();
    assert!(accepted > ROUNDS as usize / 50, "{accepted} of {ROUNDS} edits were still good ones");
    assert!(accepted < ROUNDS as usize, "none was refused");
}
