//! Files of a faulty backend.

use std::sync::Arc;

use crate::{FileBytes, ReadFile, Result, WriteFile};

use super::{Effect, Operation, Ways, full, injected};

#[derive(Debug)]
pub(super) struct FaultyWriteFile {
    pub(super) inner: Arc<dyn WriteFile>,
    pub(super) ways: Arc<Ways>,
    pub(super) name: String,
    /// Its number in the ledger, which a rename does not change.
    pub(super) number: u64,
}

/// How bytes are written.
#[derive(Clone, Copy)]
enum Way {
    Plain,
    Zeroing,
    Combined,
}

impl FaultyWriteFile {
    /// Writes as much of `bytes` as there is space for; zeros behind them only where there is space
    /// for all.
    fn write_within_limit(&self, offset: u64, bytes: &[u8], way: Way) -> Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        let reached = self.ways.ledger().grow(self.number, end);
        let room = usize::try_from(reached.saturating_sub(offset)).unwrap_or(usize::MAX);
        let part = &bytes[..bytes.len().min(room)];
        if !part.is_empty() || bytes.is_empty() {
            match way {
                Way::Zeroing if part.len() == bytes.len() => self.inner.write_zeroing(offset, part)?,
                Way::Combined => self.inner.write_combined(offset, part)?,
                Way::Plain | Way::Zeroing => self.inner.write_at(offset, part)?,
            }
            self.ways.add_bytes(Operation::Write, &self.name, part.len());
        }
        if part.len() == bytes.len() { Ok(()) } else { Err(full(&self.name)) }
    }

    fn write(&self, offset: u64, bytes: &[u8], way: Way) -> Result<()> {
        let (on, name) = (Operation::Write, &self.name);
        match self.ways.meet(on, name) {
            None | Some(Effect::Delay(_)) => self.write_within_limit(offset, bytes, way),
            Some(Effect::Turn) => {
                let mut turned = bytes.to_vec();
                if let Some(last) = turned.last_mut() {
                    *last ^= 1;
                }
                self.write_within_limit(offset, &turned, way)
            }
            Some(Effect::Fail(kind)) => Err(injected(kind, on, name)),
            Some(Effect::FailAfter(kind)) => {
                self.write_within_limit(offset, bytes, way)?;
                Err(injected(kind, on, name))
            }
            Some(Effect::ShortWrite { bytes: count, kind }) => {
                self.write_within_limit(offset, &bytes[..count.min(bytes.len())], Way::Plain)?;
                Err(injected(kind, on, name))
            }
        }
    }
}

impl WriteFile for FaultyWriteFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes, Way::Plain)
    }

    fn write_zeroing(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes, Way::Zeroing)
    }

    fn write_combined(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes, Way::Combined)
    }

    /// Cannot fail on command: what is handed over was written before, as far as the script goes.
    fn hand_over(&self) -> Result<()> {
        self.inner.hand_over()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let bytes = out.len();
        self.ways.run(Operation::Read, &self.name, || self.inner.read_at(offset, out))?;
        self.ways.add_bytes(Operation::Read, &self.name, bytes);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let (on, name) = (Operation::Sync, &self.name);
        let effect = self.ways.meet(on, name);
        if let Some(Effect::Fail(kind) | Effect::ShortWrite { kind, .. }) = effect {
            self.ways.ledger().lose_sync(self.number);
            return Err(injected(kind, on, name));
        }
        if !self.ways.ledger().is_sync_lost(self.number) {
            self.inner.sync()?;
        }
        match effect {
            Some(Effect::FailAfter(kind)) => Err(injected(kind, on, name)),
            _ => Ok(()),
        }
    }

    fn write_back(&self, offset: u64, bytes: u64) -> Result<()> {
        self.ways.run(Operation::WriteBack, &self.name, || self.inner.write_back(offset, bytes))
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        self.ways.run(Operation::Allocate, &self.name, || {
            if self.ways.ledger().grow(self.number, bytes) < bytes {
                return Err(full(&self.name));
            }
            self.inner.allocate(bytes)
        })
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.ways.run(Operation::SetLen, &self.name, || {
            // Extending takes no space: what it adds is a hole.
            self.inner.set_len(bytes)?;
            self.ways.ledger().cut(self.number, bytes);
            Ok(())
        })
    }
}

#[derive(Debug)]
pub(super) struct FaultyReadFile {
    pub(super) inner: Arc<dyn ReadFile>,
    pub(super) ways: Arc<Ways>,
    pub(super) name: String,
}

impl ReadFile for FaultyReadFile {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let bytes = out.len();
        self.ways.run(Operation::Read, &self.name, || self.inner.read_at(offset, out))?;
        self.ways.add_bytes(Operation::Read, &self.name, bytes);
        Ok(())
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        self.inner.will_need(offset, bytes);
    }

    fn will_look_up(&self, offset: u64, bytes: u64) {
        self.inner.will_look_up(offset, bytes);
    }

    fn bytes(&self) -> Result<Option<FileBytes>> {
        self.ways.run(Operation::Bytes, &self.name, || self.inner.bytes())
    }
}
