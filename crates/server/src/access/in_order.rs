//! Passwords, patterns and rules of a user, in the order they were given, each once.

use std::collections::BTreeMap;

/// Things by key, in the order they came. Each operation takes as long as a search among them,
/// however many there are.
#[derive(Clone, Debug)]
pub(super) struct InOrder<K, T> {
    things: BTreeMap<u64, (K, T)>,
    places: BTreeMap<K, u64>,
    /// The place of the next.
    next: u64,
}

impl<K: Ord + Clone, T> InOrder<K, T> {
    /// Adds the thing at the end, unless there is one with its key; the one that is there then.
    pub(super) fn get_or_push(&mut self, key: K, thing: T) -> &mut T {
        let place = *self.places.entry(key.clone()).or_insert(self.next);
        self.next = self.next.max(place + 1);
        &mut self.things.entry(place).or_insert((key, thing)).1
    }

    /// Takes out the thing with this key; whether it was there.
    pub(super) fn remove(&mut self, key: &K) -> bool {
        let place = self.places.remove(key);
        place.is_some_and(|place| self.things.remove(&place).is_some())
    }

    /// Takes out those whose keys come from `start` on, in the order of keys, and are meant, up to
    /// the first that is not.
    pub(super) fn remove_from(&mut self, start: K, is_meant: impl Fn(&K) -> bool) {
        let meant: Vec<K> =
            self.places.range(start..).map(|(key, _)| key.clone()).take_while(|key| is_meant(key)).collect();
        for key in &meant {
            self.remove(key);
        }
    }

    /// Whether there is one with this key.
    pub(super) fn contains(&self, key: &K) -> bool {
        self.places.contains_key(key)
    }

    /// All of them, in the order they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &T)> {
        self.things.values().map(|(key, thing)| (key, thing))
    }

    /// Takes out all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl<K, T> Default for InOrder<K, T> {
    fn default() -> Self {
        Self { things: BTreeMap::new(), places: BTreeMap::new(), next: 0 }
    }
}

/// Places that are left do not count.
impl<K: PartialEq, T: PartialEq> PartialEq for InOrder<K, T> {
    fn eq(&self, other: &Self) -> bool {
        self.things.values().eq(other.things.values())
    }
}

impl<K: Eq, T: Eq> Eq for InOrder<K, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_stand_in_the_order_they_came_each_once() {
        let mut things = InOrder::default();
        for key in ["b", "a|2", "a", "b", "a|1", "ab"] {
            *things.get_or_push(key.to_owned(), 0) += 1;
        }
        let all = |things: &InOrder<String, i32>| -> Vec<String> {
            things.iter().map(|(key, count)| format!("{key}{count}")).collect()
        };
        assert_eq!(all(&things), ["b2", "a|21", "a1", "a|11", "ab1"]);
        things.remove_from("a|".to_owned(), |key| key.starts_with("a|"));
        assert!(things.remove(&"b".to_owned()) && !things.remove(&"b".to_owned()));
        assert_eq!(all(&things), ["a1", "ab1"]);
        things.get_or_push("b".to_owned(), 7);
        assert_eq!(all(&things), ["a1", "ab1", "b7"]);
        let mut same = InOrder::default();
        for (key, thing) in [("a", 1), ("ab", 1), ("b", 7)] {
            same.get_or_push(key.to_owned(), thing);
        }
        assert_eq!(things, same);
        assert!(things.contains(&"ab".to_owned()));
        things.clear();
        assert_eq!(things.iter().count(), 0);
    }
}
