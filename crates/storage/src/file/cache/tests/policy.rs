//! What is kept, compared with a plain model of the policy and with the simplest one.

use std::collections::{HashMap, VecDeque};

use super::*;

/// S3-FIFO by its paper, an entry at a time and all of one size. (Yang et al., SOSP '23.)
struct Reference {
    capacity: usize,
    /// How often each entry was read, up to 3, since it came to its queue.
    frequency: HashMap<u64, u32>,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    ghosts: VecDeque<u64>,
}

impl Reference {
    fn new(capacity: usize) -> Self {
        let (frequency, small, main, ghosts) = Default::default();
        Self { capacity, frequency, small, main, ghosts }
    }

    /// Whether `key` was there; it is afterwards.
    fn read(&mut self, key: u64) -> bool {
        if let Some(frequency) = self.frequency.get_mut(&key) {
            *frequency = (*frequency + 1).min(3);
            return true;
        }
        while self.small.len() + self.main.len() >= self.capacity {
            self.evict();
        }
        match self.ghosts.iter().position(|ghost| *ghost == key) {
            Some(at) => {
                self.ghosts.remove(at);
                self.main.push_back(key);
            }
            None => self.small.push_back(key),
        }
        self.frequency.insert(key, 0);
        false
    }

    fn evict(&mut self) {
        if self.small.len() > self.capacity / 10 || self.main.is_empty() {
            let Some(key) = self.small.pop_front() else { return };
            if self.frequency[&key] > 0 {
                self.frequency.insert(key, 0);
                self.main.push_back(key);
                return;
            }
            self.frequency.remove(&key);
            self.ghosts.push_back(key);
            if self.ghosts.len() > self.main.len() {
                self.ghosts.pop_front();
            }
            return;
        }
        let Some(key) = self.main.pop_front() else { return };
        match self.frequency[&key] {
            0 => drop(self.frequency.remove(&key)),
            frequency => {
                self.frequency.insert(key, frequency - 1);
                self.main.push_back(key);
            }
        }
    }
}

/// The least recently read goes first.
struct Recency {
    capacity: usize,
    last_read: HashMap<u64, u64>,
    reads: VecDeque<(u64, u64)>,
}

impl Recency {
    fn read(&mut self, key: u64, now: u64) -> bool {
        let hit = self.last_read.insert(key, now).is_some();
        self.reads.push_back((key, now));
        while self.last_read.len() > self.capacity {
            let Some((key, at)) = self.reads.pop_front() else { break };
            if self.last_read[&key] == at {
                self.last_read.remove(&key);
            }
        }
        hit
    }
}

/// Keys with Zipf's frequencies, the exponent being 0.99 as in YCSB, and one in five equally often.
struct Stream {
    sums: Vec<f64>,
    random: fastrand::Rng,
}

impl Stream {
    fn new(keys: u64, seed: u64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=keys).map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        });
        Self { sums: sums.collect(), random: fastrand::Rng::with_seed(seed) }
    }

    fn next(&mut self) -> u64 {
        if self.random.u32(0..5) == 0 {
            return self.random.u64(0..self.sums.len() as u64);
        }
        let at = self.random.f64() * self.sums[self.sums.len() - 1];
        self.sums.partition_point(|sum| *sum < at) as u64
    }
}

#[test]
fn hits_are_those_of_the_policy() {
    let (keys, reads, seed) = (40_000, 300_000, seed(1));
    for capacity_bytes in [2 << 20, 4 << 20, 16 << 20] {
        let cache = BlockCache::new(capacity_bytes);
        let (file, record) = (cache.new_file(), CachedRecord::found(Trailer(1 << 8), 0, &[7; 1000]));
        let read = |key: u64| {
            let name = key.to_le_bytes();
            let hit = cache.record(file, key as u32, &name, Sequence::MAX).is_some();
            if !hit {
                cache.insert_record(file, key as u32, &name, &record);
            }
            hit
        };
        let entries = (capacity_bytes / 1056) as usize;
        let mut reference = Reference::new(entries);
        let mut recency = Recency { capacity: entries, last_read: HashMap::new(), reads: VecDeque::new() };
        let mut stream = Stream::new(keys, seed);
        let mut missed = [0; 3];
        for now in 0..reads {
            let key = stream.next();
            let hits = [read(key), reference.read(key), recency.read(key, now)];
            // The first third fills them.
            let counts = now >= reads / 3;
            missed.iter_mut().zip(hits).for_each(|(missed, hit)| *missed += u64::from(counts && !hit));
        }
        let [ours, reference, recency] = missed.map(|missed| missed as f64 / (reads * 2 / 3) as f64);
        println!(
            "{} MiB: {ours:.3}, entry by entry {reference:.3}, recency {recency:.3}",
            capacity_bytes >> 20
        );
        assert!(ours < reference + 0.012, "{ours} is worse than {reference}");
        assert!(ours < recency, "{ours} is not better than {recency}");
        assert!(capacity_bytes > 4 << 20 || ours < recency - 0.04, "{ours} is hardly better than {recency}");
    }
}
