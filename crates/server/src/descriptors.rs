//! Descriptors of the process, and what has how many of them: its limit is the sum.
//!
//! ```text
//!   limit (ulimit -n) = server's own + files that the engine has open for reading + clients
//! ```

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
    /// Shares out `limit` for `threads` server threads and `http` connections by HTTP. The engine
    /// gets `files`, or, where that is 0, half of what the server does not need itself. Clients get
    /// the rest.
    pub fn of(limit: u64, threads: usize, http: usize, files: usize) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let own = BESIDE + threads * BY_THREAD + http;
        let rest = limit.saturating_sub(own);
        let files = if files == 0 { (rest / 2).max(FILES_MIN) } else { files };
        Self { limit, files, clients: rest.saturating_sub(files).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_fit_the_limit() {
        for (limit, threads, http, files) in
            [(64, 2, 0, 0), (200, 2, 64, 0), (1024, 16, 64, 500), (1 << 20, 64, 64, 0)]
        {
            let shares = DescriptorShares::of(limit, threads, http, files);
            let own = BESIDE + threads * BY_THREAD + http;
            assert!(own + shares.files + shares.clients <= shares.limit, "{shares:?}");
            assert!(shares.files >= FILES_MIN && shares.clients > 1, "{shares:?}");
        }
        let least = DescriptorShares::of(10, 8, 64, 0);
        assert_eq!((least.files, least.clients), (FILES_MIN, 1));
        assert_eq!(DescriptorShares::of(u64::MAX, 1, 0, 100).files, 100);
    }
}
