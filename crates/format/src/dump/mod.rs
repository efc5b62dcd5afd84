//! Files as text for people: what lies where and what it means.
//!
//! Each line has an offset in the file, a count of bytes, a field and its meaning. A dump goes on
//! as far as the bytes make sense, past a checksum that does not match too. It ends with the first
//! error and its offset. Each kind of file has a module with a function `dump(bytes, lines)`;
//! [`describe`] chooses among them. Records of a served database are described one by one, by
//! [`datatype::dump_record`].

pub mod home;
pub mod log_object;
pub mod combiner;
pub mod log;
pub mod manifest;
pub mod table;
pub mod blob;
pub mod hybrid;
pub mod datatype;

use std::fmt::{self, Write};

use crate::blob::segment::BLOB_SEGMENT_MAGIC;
use crate::combiner::COMBINER_MAGIC;
use crate::error::Error;
use crate::file_name::{self, FileName};
use crate::home::HOME_MAGIC;
use crate::log::SEGMENT_MAGIC;
use crate::log_object::LOG_OBJECT_MAGIC;
use crate::manifest::EDIT_MAGIC;

/// What a dump ends with: the first error in the bytes, if there is one; or that `out` refused the
/// text.
pub type Dumped = std::result::Result<Option<Error>, fmt::Error>;

/// Writes what the file called `file_name` holds, line by line, to `out`.
///
/// The kind is told by the name, without the folders before it, and where that says nothing by the
/// first bytes. An error in the bytes is the last line and is returned too, its offset counted from
/// the file's start. The end of a log after a crash is such an error, although recovery takes it
/// for what it is.
///
/// # Errors
/// Only if `out` refuses the text.
pub fn describe(file_name: &str, bytes: &[u8], out: &mut dyn Write) -> Dumped {
    let name = file_name.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut lines = Lines::new(out);
    let error = match file_name::parse(name) {
        Some(FileName::LogSegment(_)) => log::dump(bytes, &mut lines)?,
        Some(FileName::ManifestEdit(_)) => manifest::dump(bytes, &mut lines)?,
        Some(FileName::Home) => home::dump(bytes, &mut lines)?,
        Some(FileName::Combiner) => combiner::dump(bytes, &mut lines)?,
        Some(FileName::LogObject { .. }) => log_object::dump(bytes, &mut lines)?,
        Some(FileName::Lock) => {
            lines.line(
                0,
                bytes.len(),
                "lock",
                format_args!("held by the process that has the database open"),
            )?;
            None
        }
        Some(FileName::Table { .. }) => table::dump(bytes, &mut lines)?,
        Some(FileName::Tables { .. }) => table::dump_all(bytes, &mut lines)?,
        Some(FileName::BlobSegment(_) | FileName::CollectedBlobs { .. }) => blob::dump(bytes, &mut lines)?,
        Some(FileName::HybridSegment(_) | FileName::ColdSegment(_)) => {
            hybrid::dump_segment(bytes, None, &mut lines)?
        }
        Some(FileName::Extent(extent)) => hybrid::dump_segment(bytes, Some(extent.from), &mut lines)?,
        Some(FileName::ColdRun(_)) => hybrid::dump_run(bytes, &mut lines)?,
        Some(FileName::Redo { .. }) => hybrid::dump_redo(bytes, &mut lines)?,
        Some(FileName::Value(_)) => {
            lines.line(0, bytes.len(), "value", format_args!("{}", Shown(bytes)))?;
            None
        }
        None if table::is_table(bytes) => table::dump(bytes, &mut lines)?,
        None => match bytes.first_chunk::<8>() {
            Some(&SEGMENT_MAGIC) => log::dump(bytes, &mut lines)?,
            Some(&EDIT_MAGIC) => manifest::dump(bytes, &mut lines)?,
            Some(&HOME_MAGIC) => home::dump(bytes, &mut lines)?,
            Some(&COMBINER_MAGIC) => combiner::dump(bytes, &mut lines)?,
            Some(&LOG_OBJECT_MAGIC) => log_object::dump(bytes, &mut lines)?,
            Some(&BLOB_SEGMENT_MAGIC) => blob::dump(bytes, &mut lines)?,
            Some(&hybrid::SEGMENT_MAGIC) => hybrid::dump_segment(bytes, None, &mut lines)?,
            Some(&hybrid::REDO_MAGIC) => hybrid::dump_redo(bytes, &mut lines)?,
            Some(&hybrid::RUN_MAGIC) => hybrid::dump_run(bytes, &mut lines)?,
            _ => {
                let expected = "a log segment, a manifest edit, a table or a blob segment";
                Some(Error::new(0, expected, format!("{name:?}")))
            }
        },
    };
    if let Some(error) = &error {
        lines.error(error)?;
    }
    Ok(error)
}

/// Where the lines of a dump go.
pub struct Lines<'o> {
    out: &'o mut dyn Write,
}

impl fmt::Debug for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl<'o> Lines<'o> {
    /// Lines go to `out`.
    pub fn new(out: &'o mut dyn Write) -> Self {
        Self { out }
    }

    /// One line: `size` bytes at `offset` are `field` and mean `meaning`.
    ///
    /// # Errors
    /// If `out` refuses the text.
    pub fn line(
        &mut self,
        offset: usize,
        size: usize,
        field: &str,
        meaning: fmt::Arguments<'_>,
    ) -> fmt::Result {
        writeln!(self.out, "{offset:>10} {size:>9}  {field:<18} {meaning}")
    }

    /// The last line of a dump whose bytes are not what was written.
    ///
    /// # Errors
    /// If `out` refuses the text.
    pub fn error(&mut self, error: &Error) -> fmt::Result {
        writeln!(self.out, "{:>10} {:>9}  {:<18} {error}", error.offset, "", "ERROR")
    }
}

/// Most bytes of a key or value that are shown.
pub const SHOWN_BYTES_MAX: usize = 48;

/// A key or value in quotes, what is not printable escaped, cut after [`SHOWN_BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..SHOWN_BYTES_MAX).unwrap_or(self.0);
        write!(f, "\"{}\"", shown.escape_ascii())?;
        if shown.len() < self.0.len() {
            write!(f, " and {} more bytes", self.0.len() - shown.len())?;
        }
        Ok(())
    }
}
