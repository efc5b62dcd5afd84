//! Which jobs there were: the control plane's list, looked at again and again, since it keeps only
//! the last thousand that ended.

use std::collections::BTreeMap;
use std::time::Duration;

use firn_job_service::proto::JobRow;
use firn_job_service::proto::job_row::State;
use firn_job_service::{AdminClient, ClientTls, SharedToken};
use firn_storage::{Clock, SystemClock, ThreadSpawn};

use crate::ending::{Ending, Failure, Result};

/// How often the list is looked at. Some hundred jobs may end in between.
const EVERY: Duration = Duration::from_millis(200);

/// A control plane, and every job that it has told of.
pub(super) struct Watch {
    client: AdminClient,
    clock: SystemClock,
    looked: Duration,
    /// By client and number, as each was seen last.
    rows: BTreeMap<(Vec<u8>, u64), JobRow>,
}

impl Watch {
    pub(super) fn at(control_plane: &str) -> Result<Self> {
        let client =
            AdminClient::at(control_plane, &SharedToken::none(), &ClientTls::default(), &ThreadSpawn::new())
                .map_err(|error| Failure::new(Ending::Failed, error.to_string()))?;
        Ok(Self { client, clock: SystemClock::new(), looked: Duration::ZERO, rows: BTreeMap::new() })
    }

    /// Looks if it was a while ago.
    pub(super) fn look_now_and_then(&mut self) -> Result<()> {
        match self.clock.now().saturating_sub(self.looked) >= EVERY {
            true => self.look(),
            false => Ok(()),
        }
    }

    /// Looks.
    pub(super) fn look(&mut self) -> Result<()> {
        let list = self.client.list().map_err(|error| Failure::new(Ending::Failed, error.to_string()))?;
        self.looked = self.clock.now();
        for row in list.jobs {
            let key = row.key.clone().unwrap_or_default();
            self.rows.insert((key.client.to_vec(), key.number), row);
        }
        Ok(())
    }

    /// Jobs that had not ended when they were looked at.
    pub(super) fn unfinished(&self) -> usize {
        self.rows.values().filter(|row| matches!(row.state(), State::Waiting | State::Running)).count()
    }

    /// All of them, in the order in which they were handed in.
    pub(super) fn rows(&self) -> Vec<JobRow> {
        self.rows.values().cloned().collect()
    }
}
