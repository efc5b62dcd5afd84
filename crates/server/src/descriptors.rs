//! How the descriptors of the process are shared out: the shares add up to its limit.
//!
//! ```text
//!   limit (ulimit -n) = server's own + files that the engine has open for reading + clients
//! ```
//! A control plane has no files: its connections get what is left of its own.

/// Standard streams, the database's lock and directory, log segments and files that are being
/// written.
const BESIDE: usize = 24;

/// Of each server thread: its epoll or ring, timer, alarm and listener.
const BY_THREAD: usize = 4;

/// The least that the engine works with.
const FILES_MIN: usize = 16;

/// How the descriptors of a process that serves are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorShares {
    /// What the process may have open.
    pub limit: usize,
    /// Files that the engine may have open for reading at once.
    pub files: usize,
    /// Connections of clients; at least 1.
    pub clients: usize,
}

impl DescriptorShares {
    /// Shares out `limit` for `threads` server threads, `http` connections by HTTP and up to
    /// `wanted` clients. The engine gets `files`. If that is 0 it gets half of what the server does
    /// not need itself. If `wanted` clients need more than the other half, it gets less, down to a
    /// third. Clients get the rest.
    pub fn of(limit: u64, threads: usize, http: usize, files: usize, wanted: usize) -> Self {
        let own = BESIDE + threads * BY_THREAD + http;
        let rest = rest_of(limit, own);
        let files = match files {
            0 => rest.saturating_sub(wanted).clamp(rest / 3, rest / 2).max(FILES_MIN),
            files => files,
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { limit, files, clients: rest.saturating_sub(files).max(1) }
    }
}

/// Connections that a control plane may have within `limit`, beside `http` connections by HTTP; at
/// least 1.
pub fn connections_within(limit: u64, http: usize) -> usize {
    rest_of(limit, BESIDE + http).max(1)
}

/// What `limit` leaves beside `own`.
fn rest_of(limit: u64, own: usize) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_fit_the_limit() {
        for (limit, threads, http, files) in
            [(64, 2, 0, 0), (200, 2, 64, 0), (1024, 16, 64, 500), (1 << 20, 64, 64, 0)]
        {
            let shares = DescriptorShares::of(limit, threads, http, files, 10_000);
            let own = BESIDE + threads * BY_THREAD + http;
            assert!(own + shares.files + shares.clients <= shares.limit, "{shares:?}");
            assert!(shares.files >= FILES_MIN && shares.clients > 1, "{shares:?}");
        }
        let least = DescriptorShares::of(10, 8, 64, 0, 10_000);
        assert_eq!((least.files, least.clients), (FILES_MIN, 1));
        assert_eq!(DescriptorShares::of(u64::MAX, 1, 0, 100, 1).files, 100);
    }

    #[test]
    fn clients_have_what_they_want_before_files_have_half() {
        // The hard limit of many systems, and of containers on them.
        for (limit, clients, files) in [(20_000, 10_000, 9848), (16_384, 10_000, 6232), (4096, 2630, 1314)] {
            let shares = DescriptorShares::of(limit, 16, 64, 0, 10_000);
            assert_eq!((shares.clients, shares.files), (clients, files), "{limit}");
        }
        let many = DescriptorShares::of(1 << 20, 16, 64, 0, 10_000);
        assert!(many.clients.abs_diff(many.files) <= 1, "{many:?}");
    }

    #[test]
    fn a_control_plane_keeps_some_for_itself() {
        assert_eq!(connections_within(64, 0), 40);
        assert_eq!(connections_within(64, 64), 1);
        assert_eq!(connections_within(20_000, 64), 19_912);
    }
}
