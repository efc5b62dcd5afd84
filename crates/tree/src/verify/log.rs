//! The log: one chain of frames from the oldest unflushed record to the durable end.

use std::collections::BTreeMap;

use firn_format::blob::Reference;
use firn_format::file_name::FileName;
use firn_format::log::{
    EndReason, Frame, FrameKind, Record, SEGMENT_HEADER_BYTES, SegmentHeader, find_frame, scan_frames,
};
use firn_format::{Kind, Position};
use firn_storage::FileBytes;

use super::Verifier;
use super::manifest::Known;
use crate::version::state::State;

/// A segment of the log.
struct Link {
    name: String,
    header: SegmentHeader,
    /// Position after its last good frame.
    end: Position,
    /// What stands there.
    reason: String,
    /// Whether that is neither nothing nor a zero word.
    is_torn: bool,
    /// Where the first whole frame is behind its end.
    behind: Option<usize>,
    durable_through: Position,
    /// Records that are in no table.
    live_records: u64,
    /// To separated values, of those records.
    references: Vec<LoggedReference>,
}

/// A reference that a record in the log holds.
pub(super) struct LoggedReference {
    /// The log segment's name, and where in it the record lies.
    pub(super) file: String,
    pub(super) offset: u64,
    pub(super) reference: Reference,
    pub(super) key_bytes: usize,
    /// Whether the log is known to be on the device through there.
    pub(super) is_durable: bool,
}

/// What the log holds beside what is in tables.
#[derive(Default)]
pub(super) struct Logged {
    pub(super) references: Vec<LoggedReference>,
    /// Where the log ends.
    pub(super) end: Position,
}

/// A segment without a header of its own that can be read.
struct Headless {
    name: String,
    base: Position,
    offset: u64,
    message: String,
    /// Whether a whole frame of the newest generation follows all the same.
    has_frame: bool,
}

impl Verifier<'_> {
    /// Checks every segment, then that they form one chain.
    pub(super) fn check_log(&mut self, known: &Known) -> Logged {
        let (mut links, mut headless) = (Vec::new(), Vec::new());
        let clips = self.clips();
        for (name, base) in self.segments() {
            let bytes = self.files.get(&name).copied().unwrap_or(0);
            if let Some(content) = self.read(&name) {
                let has_frame = || {
                    let generation = known.state.generation;
                    scan_frames(&content, base, SEGMENT_HEADER_BYTES, generation).next().is_some()
                };
                match SegmentHeader::decode(&content) {
                    // The file was another segment's when the crash came.
                    Ok(header) if header.base != base && header.database == known.state.database => {
                        let message = format!("expected base {base} as the name says, found {}", header.base);
                        let has_frame = has_frame();
                        headless.push(Headless { name, base, offset: 32, message, has_frame });
                    }
                    Ok(header) => {
                        let clip = clips.get(&base).copied().unwrap_or(Position(u64::MAX));
                        links.extend(self.check_segment(&name, (header, clip), &content, known));
                    }
                    Err(error) if self.is_newer(&name, &error) => {}
                    Err(error) => headless.push(Headless {
                        name,
                        base,
                        offset: error.offset as u64,
                        message: error.to_string(),
                        has_frame: has_frame(),
                    }),
                }
            }
            self.advance(bytes);
        }
        self.check_chain(known, links, &headless)
    }

    /// Where segments end whose last frames a recovery threw away although they are good, by their
    /// bases. The first segment of a later generation says that the log went on there.
    fn clips(&self) -> BTreeMap<Position, Position> {
        let mut headers = Vec::new();
        for (name, base) in self.segments() {
            let mut bytes = [0; SEGMENT_HEADER_BYTES];
            let read = self.storage.open_read(&name).and_then(|file| file.read_at(0, &mut bytes));
            let header = read.ok().and_then(|()| SegmentHeader::decode(&bytes).ok());
            headers.extend(header.filter(|header| header.base == base));
        }
        let later = |header: &SegmentHeader| {
            let later =
                headers.iter().filter(|it| it.generation > header.generation && it.base > header.base);
            later.map(|it| it.previous_end).min().filter(|end| *end > header.base)
        };
        headers.iter().filter_map(|header| Some((header.base, later(header)?))).collect()
    }

    /// Segments of a database whose manifest is lost: what each says of itself.
    pub(super) fn check_segments_alone(&mut self) {
        for (name, _) in self.segments() {
            let bytes = self.files.get(&name).copied().unwrap_or(0);
            if let Some(content) = self.read(&name)
                && let Err(error) = SegmentHeader::decode(&content)
                && !self.is_newer(&name, &error)
            {
                self.damage(&name, Some(error.offset as u64), error.to_string());
            }
            self.advance(bytes);
        }
    }

    fn segments(&self) -> Vec<(String, Position)> {
        self.named(|name| match name {
            FileName::LogSegment(base) => Some(base),
            _ => None,
        })
    }

    /// The segment as a link of the chain, or `None` if it is none.
    fn check_segment(
        &mut self,
        name: &str,
        (header, clip): (SegmentHeader, Position),
        content: &FileBytes,
        known: &Known,
    ) -> Option<Link> {
        let state = &known.state;
        if header.database != state.database {
            let message =
                format!("expected database {:032x}, found {:032x}", state.database, header.database);
            self.damage(name, Some(16), message);
            return None;
        }
        if header.generation > state.generation {
            let (expected, found) = (state.generation, header.generation);
            self.damage(
                name,
                Some(48),
                format!("expected a generation of at most {expected}, found {found}"),
            );
            return None;
        }
        if header.base.0 + header.capacity <= state.log_start().0 {
            self.leftover(
                name,
                None,
                format!("everything below position {} is in tables", state.log_start()),
            );
            return None;
        }
        if header.base > state.cut && header.generation < state.generation {
            self.leftover(
                name,
                None,
                format!("the recovery that cut the log at {} threw it away", state.cut),
            );
            return None;
        }
        if content.len() as u64 > header.capacity {
            let message = format!("expected at most {} bytes, found {}", header.capacity, content.len());
            self.damage(name, Some(header.capacity), message);
        }
        let clip = if header.generation < state.generation { clip.min(state.cut) } else { clip };
        Some(self.check_frames(name, (header, clip), content, known))
    }

    fn check_frames(
        &mut self,
        name: &str,
        (header, clip): (SegmentHeader, Position),
        content: &[u8],
        known: &Known,
    ) -> Link {
        let mut scan = scan_frames(content, header.base, SEGMENT_HEADER_BYTES, header.generation);
        let (mut durable_through, mut live_records) = (Position::default(), 0);
        let mut references = Vec::new();
        for (offset, frame) in scan.by_ref() {
            let position = Position(header.base.0 + offset as u64);
            if position >= clip {
                continue;
            }
            if frame.durable_through > position {
                let found = frame.durable_through;
                let message = format!("expected a log durable at most through {position}, found {found}");
                self.damage(name, Some(offset as u64 + 8), message);
            } else {
                durable_through = durable_through.max(frame.durable_through);
            }
            live_records +=
                self.check_records(name, (offset, position), &frame, &known.state, &mut references);
        }
        let end = scan.into_end();
        let found = Position(header.base.0 + end.offset as u64);
        let is_torn = found <= clip && matches!(end.reason, EndReason::Torn(_));
        let behind = find_frame(content, header.base, end.offset + 8, header.generation)
            .filter(|at| header.base.0 + (*at as u64) < clip.0);
        let reason = match end.reason {
            _ if found > clip => "an earlier recovery cut it there".to_owned(),
            reason => reason.to_string(),
        };
        let (name, end) = (name.to_owned(), found.min(clip));
        Link { name, header, end, reason, is_torn, behind, durable_through, live_records, references }
    }

    /// Checks the records of one frame and counts records that are in no table.
    fn check_records(
        &mut self,
        name: &str,
        (offset, position): (usize, Position),
        frame: &Frame<'_>,
        state: &State,
        references: &mut Vec<LoggedReference>,
    ) -> u64 {
        if frame.kind == FrameKind::LargeBatch {
            self.damage(name, Some(offset as u64 + 20), "expected a batch, found the name of one");
        }
        let mut live = 0;
        for (inside, record) in frame.records() {
            let at = (offset + inside) as u64;
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    self.damage(name, Some(offset as u64 + error.offset as u64), error.to_string());
                    break;
                }
            };
            match state.keyspaces.get(&record.keyspace) {
                Some(keyspace) if position.0 + (inside as u64) < keyspace.flushed_through.0 => {}
                Some(_) => {
                    live += 1;
                    references.extend(self.logged_reference(name, at, &record));
                }
                None if u64::from(record.keyspace) < state.next_number => {}
                None => {
                    let message =
                        format!("expected a keyspace that was created, found id {}", record.keyspace);
                    self.damage(name, Some(at + 8), message);
                }
            }
        }
        live
    }

    fn logged_reference(&mut self, name: &str, at: u64, record: &Record<'_>) -> Option<LoggedReference> {
        if record.kind != Kind::PutReference {
            return None;
        }
        match Reference::decode(record.value) {
            Ok(reference) => Some(LoggedReference {
                file: name.to_owned(),
                offset: at,
                reference,
                key_bytes: record.key.len(),
                is_durable: false,
            }),
            Err(error) => {
                self.damage(name, Some(at), error.to_string());
                None
            }
        }
    }

    /// Whether the links follow one another up to what is known to be durable; what they hold.
    fn check_chain(&mut self, known: &Known, links: Vec<Link>, headless: &[Headless]) -> Logged {
        let start = known.state.log_start();
        let durable = links.iter().map(|link| link.durable_through).max().unwrap_or_default();
        let durable = durable.max(known.state.durable_through);
        // What a killed process leaves is a prefix; a loss of power keeps any page of what was not
        // synced, or none.
        let is_same_run = self.storage.boot_id().is_some_and(|id| id == known.state.boot);
        let (mut end, mut logged) = (start, Logged::default());
        let mut last: Option<Link> = None;
        let mut is_cut = false;
        for mut link in links {
            let begins = last.is_none() && link.header.previous_end <= start && start <= link.header.base;
            let continues = begins || link.header.previous_end == end;
            if !is_cut && !continues {
                is_cut = end >= durable;
                self.note_gap(end, durable, last.as_ref(), headless, Some(&link));
            }
            if is_cut {
                let has_frames = link.end.0 > link.header.base.0 + SEGMENT_HEADER_BYTES as u64;
                self.note_cut_off(&link, end, is_same_run && (has_frames || link.behind.is_some()));
                continue;
            }
            self.report.totals.log_segments += 1;
            self.report.totals.log_records += link.live_records;
            for mut reference in link.references.drain(..) {
                reference.is_durable = link.header.base.0 + reference.offset < durable.0;
                logged.references.push(reference);
            }
            (end, last) = (link.end, Some(link));
        }
        if end < durable {
            self.note_gap(end, durable, last.as_ref(), headless, None);
        } else if let Some(last) = last.as_ref().filter(|last| last.is_torn || last.behind.is_some()) {
            self.note_end(last, end, is_same_run);
        }
        self.note_headless(start, durable, is_same_run.then_some(end), headless);
        if let Some(clean_end) = known.clean_end.filter(|clean_end| end > *clean_end) {
            let name = last.as_ref().map_or("", |last| last.name.as_str());
            let message =
                format!("expected the log to end at position {clean_end}, where it was closed, found {end}");
            self.damage(name, None, message);
        }
        logged.end = end;
        logged
    }

    /// A segment that does not follow on from the log's `end`.
    fn note_cut_off(&mut self, link: &Link, end: Position, is_damage: bool) {
        match is_damage {
            true => {
                let message = format!(
                    "expected the log to go on at position {end}, found whole records from position {} on: what lies between is damaged or missing, and no crash leaves that while the machine runs on",
                    link.header.base
                );
                self.damage(&link.name, None, message);
            }
            false => {
                let message = format!("the log ends at position {end}: the next opening discards it");
                self.leftover(&link.name, None, message);
            }
        }
    }

    /// The log ends within `last`, and something follows.
    fn note_end(&mut self, last: &Link, end: Position, is_same_run: bool) {
        let at = Some(end.0 - last.header.base.0);
        let reason = &last.reason;
        match last.behind {
            Some(behind) if is_same_run => {
                let message = format!(
                    "the log ends here ({reason}), but whole records lie behind, from offset {behind} on: damage, since the machine has run on since they were written"
                );
                self.damage(&last.name, at, message);
            }
            Some(behind) => {
                let message = format!(
                    "the log ends here ({reason}); whole records lie behind, from offset {behind} on, as a loss of power leaves them: the next opening discards them"
                );
                self.leftover(&last.name, at, message);
            }
            None => {
                let message = format!("the log ends here; what follows is the tail of a crash: {reason}");
                self.leftover(&last.name, at, message);
            }
        }
    }

    /// The log stops at `end` although it goes on at `next`, or although it was durable beyond.
    fn note_gap(
        &mut self,
        end: Position,
        durable: Position,
        last: Option<&Link>,
        headless: &[Headless],
        next: Option<&Link>,
    ) {
        let until = next.map_or(durable, |next| next.header.base);
        if end >= durable || headless.iter().any(|headless| headless.base >= end && headless.base < until) {
            // The tail that a crash left, or a fault already named with the segment whose header
            // cannot be read.
            return;
        }
        let goes_on = next.map_or_else(String::new, |next| {
            format!(" and {} continues at {}", next.name, next.header.previous_end)
        });
        match last {
            Some(last) => {
                let message = format!(
                    "expected frames up to position {durable}, which was durable{goes_on}; found the log's end at {end}: {}",
                    last.reason
                );
                self.damage(&last.name, Some(end.0 - last.header.base.0), message);
            }
            None => {
                let name = firn_format::file_name::log_segment(end);
                let message = format!(
                    "expected the log segment for position {end}, durable through {durable}{goes_on}; found none"
                );
                self.damage(&name, None, message);
            }
        }
    }

    /// `cut`: where the log ends, if only damage keeps what lies behind from following on.
    fn note_headless(
        &mut self,
        start: Position,
        durable: Position,
        cut: Option<Position>,
        headless: &[Headless],
    ) {
        for headless in headless {
            let is_cut_off = headless.has_frame && cut.is_some_and(|cut| headless.base >= cut);
            // A segment whose first bytes a crash kept from the device has no durable frame.
            if headless.base >= start && (headless.base < durable || is_cut_off) {
                self.damage(&headless.name, Some(headless.offset), headless.message.clone());
            } else {
                self.leftover(&headless.name, Some(headless.offset), headless.message.clone());
            }
        }
    }
}
