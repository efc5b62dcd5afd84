//! Log objects: each is what was written, and no needed one is missing.

use firn_format::file_name::{self, FileName};
use firn_format::log_object::{LogObject, LogObjectId};

use super::Verifier;
use crate::version::state::State;

impl Verifier<'_> {
    pub(super) fn check_log_objects(&mut self, state: &State) {
        let named = self.named(|name| match name {
            FileName::LogObject { generation, number } => Some((generation, number)),
            _ => None,
        });
        let mut expected = state.log_objects.map(|named| (named.generation, named.first));
        for (file, (generation, number)) in named {
            let is_needed = state
                .log_objects
                .is_some_and(|named| named.generation == generation && number >= named.first);
            self.check_log_object(
                &file,
                LogObjectId { database: state.database, generation, number },
                is_needed,
            );
            if let Some((of, next)) = expected.filter(|_| is_needed) {
                for missing in next..number {
                    let why =
                        "the log object is missing: the manifest names the first, and a later one is there";
                    self.damage(&file_name::log_object(of, missing), None, why);
                }
                expected = Some((of, number + 1));
            }
        }
    }

    fn check_log_object(&mut self, file: &str, id: LogObjectId, is_needed: bool) {
        let Some(bytes) = self.read(file) else { return };
        match LogObject::decode(&bytes) {
            Err(error) if self.is_newer(file, &error) => {}
            Err(error) => {
                let message = format!("expected {}, found {}", error.expected, error.found);
                match is_needed {
                    true => self.damage(file, Some(error.offset as u64), message),
                    false => self.leftover(file, Some(error.offset as u64), message),
                }
            }
            Ok(object) if object.id != id => {
                self.damage(file, Some(16), format!("expected {id:?}, found {:?}", object.id));
            }
            Ok(_) => {}
        }
        self.advance(bytes.len() as u64);
    }
}
