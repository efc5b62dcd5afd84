//! How much an acknowledgement promises.

/// What an acknowledged write survives; each word includes the ones before it.
///
/// A read may show a write that is not acknowledged yet, on its way to the device or to shared
/// storage. What it showed may be lost then, as the write may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Nothing until the next checkpoint: of each session what it wrote up to a moment survives,
    /// and nothing later ([`crate::Engine::checkpointed`] says up to where). An engine that has no
    /// checkpoints takes it for `Process`, which promises more.
    Checkpoint,
    /// The death of the process, `kill -9` included: the bytes are the kernel's.
    #[default]
    Process,
    /// Loss of power: the bytes are synced to the device; concurrent writers share one sync.
    Disk,
    /// Loss of the machine: other machines find the bytes on shared storage; concurrent writers
    /// share one object. Only where the database lies on such storage.
    Shared,
}

impl Durability {
    /// The word used in settings files and on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Checkpoint => "checkpoint",
            Durability::Process => "process",
            Durability::Disk => "disk",
            Durability::Shared => "shared",
        }
    }

    /// Inverse of [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Durability::Checkpoint, Durability::Process, Durability::Disk, Durability::Shared];
        all.into_iter().find(|durability| durability.name() == name)
    }
}
