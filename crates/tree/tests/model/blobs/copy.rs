//! Copies: `copy.rs`.

use super::database::{Database, Mistake, Record};
use super::homes::FileName;
use crate::model::sync::{locked, step};

impl Database {
    /// `copy`: fails unless all that its records refer to is there to be linked, or
    /// to be copied.
    pub(crate) fn assert_copies(&self) {
        self.freeze();
        let sealing = (!self.is_wrong(Mistake::SealUnlocked)).then(|| locked(&self.sealing));
        let mut manifest = locked(&self.manifest);
        let version = self.version.load();
        let sealed = self.seal(&self.open_numbers());
        self.commit_seals(&mut manifest, sealed);
        drop(sealing);
        let copied = manifest.clone();
        let kept = self.map();
        for (key, Record { name, value }) in version.newest_of_runs() {
            let Some(name) = name else { continue };
            let Some((holder, ordinal)) = kept.place(name) else {
                panic!("the value of key {key} is not copied")
            };
            assert!(copied.segments.contains_key(&holder.number), "the value of key {key} is not copied");
            let records = self.files.assert_has(holder.file, "it is copied");
            assert_eq!(
                Self::value_of(&records, ordinal, name),
                value,
                "another value is copied for key {key}"
            );
        }
        drop(version);
        let names = copied.segments.values().map(|known| known.file);
        // Files in a shared backend are copied, the others are linked.
        let (far, near): (Vec<FileName>, Vec<FileName>) =
            names.partition(|name| matches!(name, FileName::Output { .. }));
        let mut manifest = Some(manifest).filter(|_| !self.is_wrong(Mistake::CopyUnlocked));
        let kept = Some(kept).filter(|_| manifest.is_some());
        self.assert_each(&near, "it is copied");
        manifest.take();
        let kept = kept.filter(|_| !self.is_wrong(Mistake::CopyUnheld));
        self.assert_each(&far, "it is copied");
        drop(kept);
    }

    fn assert_each(&self, names: &[FileName], what: &str) {
        for name in names {
            // Each is a step of its own.
            step();
            self.files.assert_has(*name, what);
        }
    }
}
