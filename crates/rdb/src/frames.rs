//! Checksummed frames, which contain the items of a snapshot in Darter's own format.
//!
//! ```text
//! part:   "DARTERPT"  id of the snapshot(8, LE)  number of the part(4, LE)  ( frame )*
//! frame:  length(4, LE; 1 to 1 MiB)  crc64 of length and content(8, LE)  content
//! ```
//!
//! The contents of a part's frames, one after the other, are whole items. The manifest ([`crate::Manifest`])
//! contains the length of each part, so a missing end is noticed.

use std::io::{self, ErrorKind, Read, Write};

use crate::crc64::crc64;
use crate::error::{Error, Why};

/// The most bytes of content in a frame.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"DARTERPT";
const PART_HEAD_BYTES: usize = 20;
const FRAME_HEAD_BYTES: usize = 12;

/// The head of a part.
pub fn part_head(id: u64, number: u32) -> [u8; PART_HEAD_BYTES] {
    let mut head = [0; PART_HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..16].copy_from_slice(&id.to_le_bytes());
    head[16..].copy_from_slice(&number.to_le_bytes());
    head
}

/// Writes a frame for each megabyte of `content`; returns the number of bytes written.
pub fn write_frames(content: &[u8], out: &mut impl Write) -> io::Result<u64> {
    let mut written = 0;
    for content in content.chunks(FRAME_BYTES_MAX) {
        out.write_all(&frame_head(content))?;
        out.write_all(content)?;
        written += (FRAME_HEAD_BYTES + content.len()) as u64;
    }
    Ok(written)
}

fn frame_head(content: &[u8]) -> [u8; FRAME_HEAD_BYTES] {
    let length = (content.len() as u32).to_le_bytes();
    let checksum = crc64(crc64(0, &length), content);
    let mut head = [0; FRAME_HEAD_BYTES];
    head[..4].copy_from_slice(&length);
    head[4..].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// Reads the content of the frames of a part.
///
/// Its errors are [`Error`]s inside of [`io::Error`]s: see [`FrameReader::located`].
#[derive(Debug)]
pub struct FrameReader<R> {
    source: R,
    /// The expected head of the part, until it is read.
    head: Option<[u8; PART_HEAD_BYTES]>,
    /// The length of the part, from the manifest.
    length: u64,
    /// How many bytes of the part are read.
    offset: u64,
    /// The content of a frame, and how much of it was passed on.
    frame: Vec<u8>,
    at: usize,
    /// The positions of each frame's content, in the content of all frames and in the part.
    places: Vec<(u64, u64)>,
    content_bytes: u64,
}

impl<R: Read> FrameReader<R> {
    /// Reads the part with this number of a snapshot. It must have this length.
    pub fn new(source: R, id: u64, number: u32, length: u64) -> Self {
        let head = Some(part_head(id, number));
        let (frame, places) = (Vec::new(), Vec::new());
        FrameReader { source, head, length, offset: 0, frame, at: 0, places, content_bytes: 0 }
    }

    /// Converts an error's position in the content to a position in the part.
    pub fn located(&self, error: Error) -> Error {
        let why = match error.why {
            Why::Io(cause) => match cause.downcast::<Error>() {
                Ok(inner) => return inner,
                Err(cause) => Why::Io(cause),
            },
            why => why,
        };
        let frames_before = self.places.partition_point(|(content, _)| *content <= error.offset);
        let offset = match self.places.get(frames_before.wrapping_sub(1)) {
            Some((content, place)) => place + (error.offset - content),
            None => error.offset,
        };
        Error { offset, why }
    }

    /// Reads `count` bytes, or fewer at the end.
    fn read_some(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count);
        (&mut self.source).take(count as u64).read_to_end(&mut bytes)?;
        self.offset += bytes.len() as u64;
        Ok(bytes)
    }

    fn read_all<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let bytes = self.read_some(N)?;
        bytes.try_into().map_err(|_| self.error(self.offset, Why::Truncated))
    }

    fn error(&self, offset: u64, why: Why) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, Error { offset, why })
    }

    /// Reads the next frame; false at the end.
    fn next_frame(&mut self) -> io::Result<bool> {
        if let Some(head) = self.head.take()
            && self.read_all::<PART_HEAD_BYTES>()? != head
        {
            return Err(self.error(0, Why::Corrupt("not this part of this snapshot")));
        }
        let start = self.offset;
        if start >= self.length {
            return match self.read_some(1)?.is_empty() && start == self.length {
                true => Ok(false),
                false => Err(self.error(self.length, Why::Corrupt("more than the manifest says"))),
            };
        }
        let head = self.read_all::<FRAME_HEAD_BYTES>()?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if !(1..=FRAME_BYTES_MAX).contains(&length) {
            return Err(self.error(start, Why::Corrupt("a frame of an impossible length")));
        }
        self.places.push((self.content_bytes, self.offset));
        self.frame = self.read_some(length)?;
        if self.frame.len() < length {
            return Err(self.error(self.offset, Why::Truncated));
        }
        if frame_head(&self.frame) != head {
            return Err(self.error(start, Why::Checksum));
        }
        self.at = 0;
        self.content_bytes += length as u64;
        Ok(true)
    }
}

impl<R: Read> Read for FrameReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.frame.len() && !self.next_frame()? {
            return Ok(0);
        }
        let count = (&self.frame[self.at..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}
