//! What the kernel's page cache holds of a file: map it, ask about it, push it out.
//!
//! The only module of this crate with unsafe code; `lib.rs` states the safety model that the notes
//! refer to.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{Advice, Mmap, MmapMut, MmapOptions};

/// A whole file mapped for reading. It lives as long as the mapping is referred to, even after its
/// removal.
#[derive(Debug)]
pub(crate) struct Mapping {
    map: Mmap,
    /// Told before: each of very many tables in one file says it.
    expects_random: AtomicBool,
}

impl Mapping {
    /// Maps the first `bytes` bytes of `file`.
    ///
    /// The caller MUST hold to the safety model of this crate. The file is finished (not written or
    /// cut while a mapping of it is there), and its directory is locked by this process.
    pub(crate) fn of(file: &File, bytes: usize) -> io::Result<Self> {
        // SAFETY: invariant 1 of the safety model: a file that is mapped is not changed or cut
        // while its directory is locked, so the slice made of these pages never changes and never
        // loses its backing.
        let map = unsafe { MmapOptions::new().len(bytes).map(file) }?;
        Ok(Self { map, expects_random: AtomicBool::new(false) })
    }

    /// Tells the kernel that reads will jump about, so that it reads no pages ahead.
    pub(crate) fn expect_random(&self) -> io::Result<()> {
        // No ordering: advice, which may be given twice.
        match self.expects_random.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => self.map.advise(Advice::Random),
        }
    }

    /// Tells the kernel to begin reading `range`; does not wait.
    pub(crate) fn will_need(&self, range: Range<usize>) -> io::Result<()> {
        match self.pages_of(&range) {
            Some((start, bytes)) => self.map.advise_range(Advice::WillNeed, start, bytes),
            None => Ok(()),
        }
    }

    /// Whether every page of `range` is in memory now, by one system call and no page fault.
    ///
    /// A hint: a page may go the moment after. Ranges of up to 64 pages cost no allocation.
    pub(crate) fn is_resident(&self, range: Range<usize>) -> io::Result<bool> {
        let Some((start, bytes)) = self.pages_of(&range) else { return Ok(true) };
        let pages = bytes.div_ceil(page_bytes());
        let mut few = [0u8; 64];
        let mut many = Vec::new();
        let states = match few.get_mut(..pages) {
            Some(few) => few,
            None => {
                many.resize(pages, 0u8);
                many.as_mut_slice()
            }
        };
        let address = self.map.as_ptr().wrapping_add(start).cast_mut().cast::<libc::c_void>();
        // SAFETY: invariant 2 of the safety model: `pages_of` gave a page-aligned start and a
        // length inside the mapping, and `states` has a byte for each of its pages, which is all
        // that the call writes.
        let answer = unsafe { libc::mincore(address, bytes, states.as_mut_ptr()) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(states.iter().all(|state| state & 1 == 1))
    }

    /// The pages that hold `range`: where they start, and how many bytes of them are in the
    /// mapping.
    fn pages_of(&self, range: &Range<usize>) -> Option<(usize, usize)> {
        let end = range.end.min(self.map.len());
        let start = range.start - range.start % page_bytes();
        (range.start < end).then(|| (start, end - start))
    }
}

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

/// A part of a file mapped for writing: what is stored there is the file's at once, and survives
/// the process.
#[derive(Debug)]
pub(crate) struct MappedPart {
    map: MmapMut,
}

impl MappedPart {
    /// Maps `bytes` bytes of `file` from `offset` on, a multiple of the page size.
    ///
    /// The caller MUST hold to the safety model of this crate. The directory is locked for writing
    /// by this process, the bytes are there, and nothing else in it has them mapped or writes them.
    pub(crate) fn of(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
        // SAFETY: invariant 5 of the safety model: these bytes have one owner, which holds the
        // directory's lock, and the file is never cut. So the slice made of these pages is this
        // value's alone and never loses its backing.
        let map = unsafe { MmapOptions::new().offset(offset).len(bytes).map_mut(file) }?;
        Ok(Self { map })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Has the processor begin to load the first cache line of `value`; does not wait, and never
/// faults.
///
/// Does nothing on processors whose instruction for it the language does not offer yet.
#[inline]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: invariant 4 of the safety model: the instruction reads nothing that the program
        // sees, whatever the address, and this one is borrowed.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Asks the kernel to begin writing out `offset..offset + bytes` of `file`; does not wait for the
/// device.
///
/// File systems that cannot do it do nothing. Nor does a system that has no memory for it or does
/// not let the process ask.
pub(crate) fn begin_write_back(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    // SAFETY: invariant 3 of the safety model: the call takes no pointer, and the descriptor is
    // open because `file` is borrowed for its duration.
    let answer =
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    if answer == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(
            libc::ENOSYS
            | libc::EINVAL
            | libc::ESPIPE
            | libc::EOPNOTSUPP
            | libc::ENOMEM
            | libc::EPERM
            | libc::EACCES
            | libc::EINTR,
        ) => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_mapping_shows_the_file_and_knows_its_pages() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        let mapping = Mapping::of(&file, bytes.len()).unwrap();
        assert_eq!(mapping.as_ref(), bytes);
        mapping.expect_random().unwrap();
        mapping.will_need(5_000..90_000).unwrap();
        assert!(mapping.is_resident(0..bytes.len()).unwrap(), "just written pages are in memory");
        assert!(mapping.is_resident(99_999..100_000).unwrap());
        assert!(mapping.is_resident(100_000..200_000).unwrap(), "nothing of it is in the file");
        begin_write_back(&file, 0, 100_000).unwrap();
    }

    #[test]
    fn a_hole_is_not_resident() {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all(&[1; 4096]).unwrap();
        let mapping = Mapping::of(&file, 1 << 20).unwrap();
        assert!(mapping.is_resident(0..4096).unwrap());
        assert!(!mapping.is_resident(0..1 << 20).unwrap(), "pages never touched");
        assert!(!mapping.is_resident(8192..8193).unwrap());
    }
}
