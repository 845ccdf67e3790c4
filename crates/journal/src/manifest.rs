//! The manifest: the list of everything that a journal consists of.
//!
//! ```text
//! DARTER-JOURNAL 2
//! id 0000019a8b7c6d5e
//! incarnation 3
//! stream 76912acb88007d9e10055961e2bd72860bf6f250 1318576
//! databases 16
//! former 0000019a8b7c0000
//! base 4711 1048576 base-0000019a8b7c6d5e-2.rdb
//! segment 12 2 4700 99 5f3c9a0b1d2e4f60 between
//! segment 13 3 4790 1318576 0123456789abcdef within
//! spare 14
//! spare 15
//! length 12 67108864
//! length 13 67108864
//! length 14 67108864
//! length 15 67108864
//! crc64 5f3c9a0b1d2e4f60
//! ```
//!
//! * `term`: the incarnation, that is, the run of the server that writes now, or wrote last.
//! * `stream`: the id by which replicas know the stream from that position on. A primary changes it in each incarnation.
//!   Otherwise a server that lost its tail would write other bytes under the same id, at positions that a replica has
//!   already. While a server runs, the id changes with its role and its primary's id, and the line follows a moment
//!   later. So frames also contain a [`tag`] of the id: after that position, the id counts only if the last frame
//!   agrees. Journals of servers that did not know the id have no such line. Older lines have no position, and their
//!   frames no tag.
//! * `former`: another journal in the folder that is no longer needed; its files may be removed. Any number of lines.
//! * `base`: the last slice that it contains, the position of the stream after it, and its file. Without a file, there
//!   were no data then.
//! * `segment`: number, incarnation, and the place before its first frame: slice, position, checksum of the head before, and
//!   whether it is between two slices or within one. **Everything before that place was durable** when the line was
//!   written, so a log that does not reach it is damaged. A segment of another incarnation than the one before says where that
//!   incarnation ended.
//! * `spare`: segments that are ready. The log continues in them, one after the other.
//! * `length`: the bytes of a segment or spare when this was written. No segment ever becomes shorter, so a shorter one
//!   was cut. Manifests of format 1 have no such lines, and are still read.
//! * The checksum covers everything before its line.
//!
//! The manifest is replaced as a whole. Not here: the replacement (`folder.rs`), and its time (`journal.rs`).

use std::collections::BTreeMap;
use std::fmt::Write;

use effectlog::{Lsn, StreamPosition};

use crate::checksum::crc64;
use crate::segment::{FramePlace, SegmentStart};

/// The longest manifest that is read.
pub const MANIFEST_BYTES_MAX: usize = 64 << 20;

/// Limit of databases: the numbers that frames have room for.
const DATABASES_MAX: u32 = u16::MAX as u32;
const MAGIC: &str = "DARTER-JOURNAL ";
const VERSION: u32 = 2;
/// The format without lengths, which can still be read.
const VERSION_WITHOUT_LENGTHS: u32 = 1;
const CHECKSUM_LINE_BYTES: usize = "crc64 \n".len() + 16;

/// The id of a stream: forty hexadecimal digits.
pub type StreamId = [u8; 40];

/// The id of a stream, and the position from which it has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The id.
    pub id: StreamId,
    /// The position from which the stream has this id. `None`: a version that did not store the position wrote this,
    /// and all of the stream has this id.
    pub from: Option<StreamPosition>,
}

/// The tag of a stream's id in frames: its first eight digits.
pub(crate) fn tag(id: &StreamId) -> u32 {
    str::from_utf8(&id[..8]).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// The random id of the journal.
    pub id: u64,
    /// The incarnation, from 1 on.
    pub incarnation: u32,
    /// The id of the stream that is written.
    pub stream: Option<Stream>,
    /// The number of databases that the server had.
    pub databases: u32,
    /// Journals whose files may be removed.
    pub former: Vec<u64>,
    /// The base of the slices.
    pub base: Base,
    /// The segments and the state before each, by number. The first one begins no later than right after the base.
    pub segments: Vec<SegmentStart>,
    /// Segments that may follow, by number.
    pub spares: Vec<u64>,
    /// The lengths of segments and spares, by number, when it was written. Empty: unknown.
    pub lengths: BTreeMap<u64, u64>,
}

/// The data at the beginning of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Base {
    /// The last slice that it contains.
    pub slice: Lsn,
    /// The position in the stream at which the next slice begins.
    pub position: StreamPosition,
    /// Its file in the journal's folder, which may have further files named `<file>.…`. `None`: there were no data.
    pub file: Option<String>,
}

/// The reason why a text is not a manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAManifest {
    /// It ends too soon.
    Truncated,
    /// It was written by a version of Darter with this other format.
    Version(u32),
    /// Its checksum is wrong.
    Checksum,
    /// It does not begin like one.
    Magic,
    /// This is wrong, although the checksum is correct.
    Line(&'static str),
}

impl Manifest {
    /// Its text.
    pub fn encode(&self) -> String {
        let version = if self.lengths.is_empty() { VERSION_WITHOUT_LENGTHS } else { VERSION };
        let mut text = format!("{MAGIC}{version}\nid {:016x}\nterm {}\n", self.id, self.incarnation);
        // Writing to a string cannot fail.
        if let Some(stream) = &self.stream {
            let from = stream.from.map(|from| format!(" {from}")).unwrap_or_default();
            let _ = writeln!(text, "stream {}{from}", stream.id.escape_ascii());
        }
        let _ = writeln!(text, "databases {}", self.databases);
        for id in &self.former {
            let _ = writeln!(text, "former {id:016x}");
        }
        let Base { slice, position, file } = &self.base;
        let file = file.as_deref().map(|file| format!(" {file}")).unwrap_or_default();
        let _ = writeln!(text, "base {slice} {position}{file}");
        for SegmentStart { number, incarnation, place } in &self.segments {
            let FramePlace { slice, position, checksum, is_within_slice } = place;
            let within = if *is_within_slice { "within" } else { "between" };
            let _ =
                writeln!(text, "segment {number} {incarnation} {slice} {position} {checksum:016x} {within}");
        }
        for number in &self.spares {
            let _ = writeln!(text, "spare {number}");
        }
        for (number, bytes) in &self.lengths {
            let _ = writeln!(text, "length {number} {bytes}");
        }
        let checksum = crc64(text.as_bytes());
        let _ = writeln!(text, "crc64 {checksum:016x}");
        text
    }

    /// Decodes a manifest. The error is a position and a reason.
    pub fn decode(text: &[u8]) -> Result<Manifest, (usize, NotAManifest)> {
        let heads = [VERSION, VERSION_WITHOUT_LENGTHS].map(|version| format!("{MAGIC}{version}\n"));
        let Some(head) = heads.iter().find(|head| text.starts_with(head.as_bytes())) else {
            return Err((0, beginning(text)));
        };
        let at = text.len().saturating_sub(CHECKSUM_LINE_BYTES).max(head.len());
        let (checked, last) = text.split_at(at);
        if !last.starts_with(b"crc64 ") || !last.ends_with(b"\n") {
            return Err((text.len(), NotAManifest::Truncated));
        }
        if last != format!("crc64 {:016x}\n", crc64(checked)).as_bytes() {
            return Err((at, NotAManifest::Checksum));
        }
        let mut lines = Lines::default();
        let mut offset = head.len();
        for line in checked[head.len()..].split_inclusive(|byte| *byte == b'\n') {
            let line_text = str::from_utf8(line).unwrap_or_default().trim_end_matches('\n');
            lines.read(line_text).ok_or((offset, NotAManifest::Line("a line is not one of a manifest")))?;
            offset += line.len();
        }
        let manifest = lines.manifest().ok_or((offset, NotAManifest::Line("a line is missing")))?;
        manifest.check().map_err(|what| (0, NotAManifest::Line(what)))?;
        if manifest.encode().as_bytes() != text {
            return Err((0, NotAManifest::Line("it is not in canonical form")));
        }
        Ok(manifest)
    }

    /// A contradiction in it, if there is one.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let Some((first, last)) = self.segments.first().zip(self.segments.last()) else {
            return Err("it has no segment");
        };
        if !(1..=DATABASES_MAX).contains(&self.databases) {
            return Err("its number of databases is impossible");
        }
        if self.incarnation == 0 || last.incarnation != self.incarnation {
            return Err("its last segment is not of its incarnation");
        }
        let in_order = |pair: &[SegmentStart]| {
            let (a, b) = (&pair[0], &pair[1]);
            let in_stream = a.place.slice <= b.place.slice && a.place.position <= b.place.position;
            a.number < b.number && a.incarnation <= b.incarnation && in_stream
        };
        if !self.segments.windows(2).all(in_order) {
            return Err("its segments are not in order");
        }
        if self.segments.iter().any(|segment| segment.place.slice == Lsn::NONE) {
            return Err("there is no slice 0");
        }
        let mut before = last.number;
        for number in &self.spares {
            if *number <= before {
                return Err("its spare segments are not in order");
            }
            before = *number;
        }
        if !first.place.is_before_slice(self.base.slice.next()) {
            return Err("its segments begin behind its base");
        }
        if first.place.slice == self.base.slice.next() && first.place.position != self.base.position {
            return Err("its first segment and its base are not at one position");
        }
        if self.lengths.keys().any(|number| self.numbers().all(|listed| listed != *number)) {
            return Err("it has the length of a segment that it does not list");
        }
        if self.former.contains(&self.id) {
            return Err("it is its own former journal");
        }
        Ok(())
    }

    /// The id of the stream at `position`, given the tag of the last frame, if it is certain.
    pub fn stream_at(&self, position: StreamPosition, stream_tag: u32) -> Option<StreamId> {
        let Stream { id, from } = self.stream?;
        let is_its = from.is_none_or(|from| position <= from || stream_tag == tag(&id));
        is_its.then_some(id)
    }

    /// The index of the first segment that recovery needs.
    pub fn segment_behind_base(&self) -> usize {
        let behind =
            self.segments.partition_point(|start| start.place.is_before_slice(self.base.slice.next()));
        behind.saturating_sub(1)
    }

    /// The numbers of all segments and spares, in order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.segments.iter().map(|start| start.number).chain(self.spares.iter().copied())
    }

    /// The largest number of a segment.
    pub(crate) fn last_number(&self) -> u64 {
        let segment = self.segments.last().map_or(0, |segment| segment.number);
        self.spares.last().copied().unwrap_or(0).max(segment)
    }
}

/// The reason why a text does not begin like a manifest.
fn beginning(text: &[u8]) -> NotAManifest {
    let Some(rest) = text.strip_prefix(MAGIC.as_bytes()) else {
        let is_short = MAGIC.as_bytes().starts_with(text);
        return if is_short { NotAManifest::Truncated } else { NotAManifest::Magic };
    };
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { return NotAManifest::Truncated };
    let version = str::from_utf8(&rest[..end]).ok().and_then(|version| version.parse().ok());
    match version {
        Some(version) if ![VERSION, VERSION_WITHOUT_LENGTHS].contains(&version) => {
            NotAManifest::Version(version)
        }
        _ => NotAManifest::Magic,
    }
}

impl NotAManifest {
    /// Describes it in words.
    pub fn what(self) -> String {
        match self {
            NotAManifest::Truncated => "the manifest of the journal ends too soon".to_owned(),
            NotAManifest::Version(version) => {
                let age = if version > VERSION { "a newer" } else { "an older" };
                format!(
                    "{age} version of Darter wrote this journal: its format is {version}, and this one knows {VERSION}"
                )
            }
            NotAManifest::Checksum => "the checksum of the journal's manifest is wrong".to_owned(),
            NotAManifest::Magic => "this is not the manifest of a journal".to_owned(),
            NotAManifest::Line(what) => format!("the manifest of the journal is damaged: {what}"),
        }
    }
}

/// The lines that were read.
#[derive(Default)]
struct Lines {
    id: Option<u64>,
    incarnation: Option<u32>,
    stream: Option<Stream>,
    databases: Option<u32>,
    former: Vec<u64>,
    base: Option<Base>,
    segments: Vec<SegmentStart>,
    spares: Vec<u64>,
    lengths: BTreeMap<u64, u64>,
}

impl Lines {
    /// Reads a line. `None`: it does not belong in a manifest. Order and spelling are checked by comparing the text
    /// with its own encoding.
    fn read(&mut self, line: &str) -> Option<()> {
        let (name, rest) = line.split_once(' ')?;
        match name {
            "id" => self.id = Some(u64::from_str_radix(rest, 16).ok()?),
            "term" => self.incarnation = Some(rest.parse().ok().filter(|number| *number < u32::MAX)?),
            "stream" => self.stream = Some(stream(rest)?),
            "databases" => self.databases = Some(rest.parse().ok()?),
            "former" => self.former.push(u64::from_str_radix(rest, 16).ok()?),
            "base" => self.base = Some(base(rest)?),
            "segment" => self.segments.push(segment(rest)?),
            "spare" => self.spares.push(counter(rest)?),
            "length" => {
                let (number, bytes) = rest.split_once(' ')?;
                self.lengths.insert(counter(number)?, counter(bytes)?);
            }
            _ => return None,
        }
        Some(())
    }

    fn manifest(self) -> Option<Manifest> {
        Some(Manifest {
            id: self.id?,
            incarnation: self.incarnation?,
            stream: self.stream,
            databases: self.databases?,
            former: self.former,
            base: self.base?,
            segments: self.segments,
            spares: self.spares,
            lengths: self.lengths,
        })
    }
}

fn stream(rest: &str) -> Option<Stream> {
    let (id, from) = match rest.split_once(' ') {
        Some((id, from)) => (id, Some(StreamPosition::new(counter(from)?))),
        None => (rest, None),
    };
    let is_id = id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    Some(Stream { id: id.as_bytes().try_into().ok().filter(|_| is_id)?, from })
}

fn base(rest: &str) -> Option<Base> {
    let mut words = rest.splitn(3, ' ');
    let (slice, position) = (Lsn::new(counter(words.next()?)?), StreamPosition::new(counter(words.next()?)?));
    let file = words.next().map(str::to_owned);
    if file.as_deref().is_some_and(|file| !is_file_name(file)) {
        return None;
    }
    Some(Base { slice, position, file })
}

/// Whether this is the name of a file in the journal's folder, without a path.
pub(crate) fn is_file_name(file: &str) -> bool {
    let is_plain = |character: char| !character.is_control() && character != '/';
    !file.is_empty() && !file.starts_with('.') && file.chars().all(is_plain)
}

/// A number that only grows, within its limit.
fn counter(word: &str) -> Option<u64> {
    word.parse().ok().filter(|number| *number <= u64::MAX / 2)
}

fn segment(rest: &str) -> Option<SegmentStart> {
    let words: Vec<&str> = rest.split(' ').collect();
    let [number, incarnation, slice, position, checksum, within] = words[..] else { return None };
    let place = FramePlace {
        slice: Lsn::new(counter(slice)?),
        position: StreamPosition::new(counter(position)?),
        checksum: u64::from_str_radix(checksum, 16).ok()?,
        is_within_slice: match within {
            "within" => true,
            "between" => false,
            _ => return None,
        },
    };
    Some(SegmentStart { number: counter(number)?, incarnation: incarnation.parse().ok()?, place })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(
        number: u64,
        incarnation: u32,
        slice: u64,
        position: u64,
        is_within_slice: bool,
    ) -> SegmentStart {
        SegmentStart {
            number,
            incarnation,
            place: FramePlace {
                slice: Lsn::new(slice),
                position: StreamPosition::new(position),
                checksum: number * 77,
                is_within_slice,
            },
        }
    }

    const ID: StreamId = *b"76912acb88007d9e10055961e2bd72860bf6f250";

    fn manifest() -> Manifest {
        Manifest {
            id: 0x19a_8b7c_6d5e,
            incarnation: 3,
            stream: Some(Stream { id: ID, from: Some(StreamPosition::new(900)) }),
            databases: 16,
            former: vec![7, 9],
            base: Base {
                slice: Lsn::new(4_711),
                position: StreamPosition::new(1_000),
                file: Some("base-0000019a8b7c6d5e-2.rdb".to_owned()),
            },
            segments: vec![
                start(12, 2, 4_700, 99, false),
                start(13, 2, 4_711, 990, true),
                start(17, 3, 4_790, 5_000, false),
            ],
            spares: vec![18, 20],
            lengths: [12, 13, 17, 18, 20].map(|number| (number, number << 20)).into(),
        }
    }

    #[test]
    fn a_manifest_is_read_back() {
        let empty = Base { slice: Lsn::NONE, position: StreamPosition::START, file: None };
        let first = Manifest {
            incarnation: 1,
            stream: None,
            former: vec![],
            base: empty,
            segments: vec![start(1, 1, 1, 0, false)],
            spares: vec![],
            lengths: [(1, 4096)].into(),
            ..manifest()
        };
        let older = Manifest { stream: Some(Stream { id: ID, from: None }), ..manifest() };
        let oldest = Manifest { lengths: BTreeMap::new(), ..manifest() };
        assert!(oldest.encode().starts_with("DARTER-JOURNAL 1\n"));
        for manifest in [manifest(), first, older, oldest] {
            assert_eq!(Manifest::decode(manifest.encode().as_bytes()), Ok(manifest));
        }
        assert_eq!(manifest().segment_behind_base(), 1);
        let behind = Base { slice: Lsn::new(4_710), ..manifest().base };
        assert_eq!(Manifest { base: behind, ..manifest() }.segment_behind_base(), 0);
    }

    #[test]
    fn the_id_of_the_stream_counts_where_the_last_frame_agrees() {
        let stream = |from| Manifest { stream: Some(Stream { id: ID, from }), ..manifest() };
        let (own, other) = (0x76912acb, 0x76912acc);
        assert_eq!(tag(&ID), own);
        for (manifest, position, frame, expected) in [
            (stream(Some(StreamPosition::new(900))), 899, other, true),
            (stream(Some(StreamPosition::new(900))), 900, other, true),
            (stream(Some(StreamPosition::new(900))), 901, other, false),
            (stream(Some(StreamPosition::new(900))), 901, 0, false),
            (stream(Some(StreamPosition::new(900))), 901, own, true),
            (stream(None), 901, 0, true),
            (Manifest { stream: None, ..manifest() }, 0, 0, false),
        ] {
            assert_eq!(
                manifest.stream_at(StreamPosition::new(position), frame),
                expected.then_some(ID),
                "{position} {frame:x}"
            );
        }
    }

    #[test]
    fn a_changed_manifest_is_none() {
        let text = manifest().encode();
        for bit in 0..text.len() * 8 {
            let mut changed = text.clone().into_bytes();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&changed).is_err(), "bit {bit}");
        }
        for len in 0..text.len() {
            assert!(Manifest::decode(&text.as_bytes()[..len]).is_err(), "{len} bytes");
        }
        assert!(Manifest::decode(format!("{text}{text}").as_bytes()).is_err());
        assert!(Manifest::decode(format!("{text}\n").as_bytes()).is_err());
    }

    /// The reason for refusing a text with a correct checksum.
    fn why(text: &str) -> NotAManifest {
        let (body, _) = text.split_once("crc64").unwrap();
        Manifest::decode(format!("{body}crc64 {:016x}\n", crc64(body.as_bytes())).as_bytes()).unwrap_err().1
    }

    #[test]
    fn a_manifest_that_nobody_writes_is_refused() {
        let text = manifest().encode();
        for (from, to, what) in [
            ("id 0000019a8b7c6d5e\n", "", "a line is missing"),
            ("spare 18\n", "spare 18\nspare 18\n", "its spare segments are not in order"),
            ("spare 18", "spare 16", "its spare segments are not in order"),
            ("spare 18", "spare +18", "it is not in canonical form"),
            ("databases 16\n", "databases 16\ndatabases 16\n", "it is not in canonical form"),
            ("base-0000019a8b7c6d5e-2.rdb", "../dump.rdb", "a line is not one of a manifest"),
            ("base-0000019a8b7c6d5e-2.rdb", ".", "a line is not one of a manifest"),
            ("databases 16", "databases 0", "its number of databases is impossible"),
            ("databases 16", "databases 65536", "its number of databases is impossible"),
            ("base 4711", "base 4698", "its segments begin behind its base"),
            ("base 4711", "base 4699", "its first segment and its base are not at one position"),
            ("segment 13 2", "segment 11 2", "its segments are not in order"),
            ("segment 13 2 4711", "segment 13 2 4699", "its segments are not in order"),
            ("segment 13 2 4711 990", "segment 13 2 4711 9", "its segments are not in order"),
            ("segment 12 2 4700", "segment 12 2 0", "there is no slice 0"),
            ("term 3", "term 4", "its last segment is not of its incarnation"),
            ("stream 76912", "stream 7691", "a line is not one of a manifest"),
            ("stream 76912", "stream 7691G", "a line is not one of a manifest"),
            ("f250 900", "f250 x", "a line is not one of a manifest"),
            ("f250 900", "f250 0900", "it is not in canonical form"),
            ("within", "without", "a line is not one of a manifest"),
            ("former 0000000000000007", "former 0000019a8b7c6d5e", "it is its own former journal"),
            ("spare 18", "later 18", "a line is not one of a manifest"),
            ("length 18", "length 19", "it has the length of a segment that it does not list"),
            ("length 18 ", "length 18 -", "a line is not one of a manifest"),
            ("JOURNAL 2", "JOURNAL 1", "it is not in canonical form"),
        ] {
            assert!(text.contains(from), "{from}");
            assert_eq!(why(&text.replace(from, to)), NotAManifest::Line(what), "{from} as {to}");
        }
        assert_eq!(why(&text.replace("JOURNAL 2", "JOURNAL 3")), NotAManifest::Version(3));
        assert_eq!(why(&text.replace("JOURNAL 2", "JOURNAL 0")), NotAManifest::Version(0));
        assert_eq!(why(&text.replace("DARTER-", "DORTER-")), NotAManifest::Magic);
        assert!(NotAManifest::Version(3).what().starts_with("a newer version"));
        assert!(NotAManifest::Version(0).what().starts_with("an older version"));
    }
}
