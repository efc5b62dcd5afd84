//! Every kind of failure has its one answer.

use firn_engine::{Error, ErrorKind, Location};
use firn_storage::ErrorKind as Storage;
use rustix::io::Errno;

use super::{Answer, answer_to};
use crate::error::{from_job, from_storage};

fn of_storage(kind: Storage) -> Answer {
    answer_to(&from_storage(firn_storage::Error::new(kind, "1.table", "cannot")))
}

#[test]
fn each_kind_of_storage_has_its_answer() {
    let cases = [
        (Storage::Full, Answer::Retried),
        (Storage::Refused, Answer::Retried),
        (Storage::Undecided, Answer::Retried),
        (Storage::Locked, Answer::Retried),
        (Storage::Corrupt, Answer::SetAside),
        (Storage::NotFound, Answer::SetAside),
        (Storage::Exists, Answer::SetAside),
        (Storage::Invalid, Answer::SetAside),
        (Storage::Io, Answer::SetAside),
        (Storage::Unsynced, Answer::Poisoned),
    ];
    for (kind, answer) in cases {
        assert_eq!(of_storage(kind), answer, "{kind:?}");
    }
}

#[test]
fn each_error_of_the_system_has_its_answer() {
    let cases = [
        (Errno::MFILE, Answer::Retried),
        (Errno::NFILE, Answer::Retried),
        (Errno::NOSPC, Answer::Retried),
        (Errno::DQUOT, Answer::Retried),
        (Errno::NOMEM, Answer::Retried),
        (Errno::INTR, Answer::Retried),
        (Errno::AGAIN, Answer::Retried),
        (Errno::TIMEDOUT, Answer::Retried),
        (Errno::IO, Answer::SetAside),
        (Errno::ROFS, Answer::SetAside),
    ];
    for (errno, answer) in cases {
        let said = from_storage(firn_storage::Error::io("1.table", "write", errno.into()));
        assert_eq!(answer_to(&said), answer, "{errno:?}");
        let synced = match errno {
            Errno::NOSPC | Errno::DQUOT => Answer::Retried,
            _ => Answer::Poisoned,
        };
        let said = from_storage(firn_storage::Error::sync("1.table", "sync", errno.into()));
        assert_eq!(answer_to(&said), synced, "a sync: {errno:?}");
    }
}

#[test]
fn each_kind_of_the_contract_has_its_answer() {
    let cases = [
        (ErrorKind::Retry, Answer::Retried),
        (ErrorKind::NotDurable, Answer::Retried),
        (ErrorKind::Conflict, Answer::Retried),
        (ErrorKind::Invalid, Answer::SetAside),
        (ErrorKind::Corrupt, Answer::SetAside),
        (ErrorKind::Bug, Answer::SetAside),
        (ErrorKind::Closed, Answer::Poisoned),
    ];
    for (kind, answer) in cases {
        let error = Error::new(kind, "cannot").at(Location { file: "1.table".to_owned(), offset: None });
        assert_eq!(answer_to(&error), answer, "{kind:?}");
        // What a refusal goes back to does not change what it is.
        let cause = from_storage(firn_storage::Error::new(Storage::Io, "1.table", "cannot"));
        assert_eq!(answer_to(&error.because(cause)), answer, "{kind:?}");
    }
}

#[test]
fn each_kind_of_job_has_its_answer() {
    use firn_jobs::ErrorKind as Job;
    let cases = [
        (Job::Rejected, Answer::SetAside),
        (Job::Cancelled, Answer::Retried),
        (Job::Invalid, Answer::SetAside),
        (Job::NotConserved, Answer::SetAside),
        (Job::Unavailable, Answer::Retried),
        (Job::Corrupt, Answer::SetAside),
        (Job::Panicked, Answer::Retried),
        (Job::Storage, Answer::SetAside),
    ];
    for (kind, answer) in cases {
        assert_eq!(answer_to(&from_job(firn_jobs::Error::new(kind, "cannot"))), answer, "{kind:?}");
    }
    let full = firn_jobs::Error::from(firn_storage::Error::new(Storage::Full, "1.table", "cannot"));
    assert_eq!(answer_to(&from_job(full)), Answer::Retried);
}
