//! Begins a journal, and continues it in the next run of the server.
//!
//! A new journal is pending until its base exists. An existing one continues after the end that a scan has found, in a
//! new incarnation and in a segment without frames of that incarnation. So data that an earlier run left behind that end never
//! continue this one. The manifest that says so is durable before anything is written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use effectlog::{Lsn, StreamPosition};

use crate::error::Error;
use crate::folder::{Contents, LockedFolder};
use crate::journal::{Journal, Shared, make_segment, sync_names};
use crate::manifest::{Base, Manifest, Stream, StreamId};
use crate::mutant::{self, Mutant};
use crate::scan::{End, Verdict};
use crate::segment::{FramePlace, SegmentStart, Tuning};
use crate::writer::{Policy, Writer};

/// The parameters of a new journal.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    /// A random number.
    pub id: u64,
    /// The id of the stream.
    pub stream: Option<StreamId>,
    /// The number of the server's databases.
    pub databases: u32,
    /// The last slice before it.
    pub slice: Lsn,
    /// The position in the stream at the end of that slice.
    pub position: StreamPosition,
    /// The base of its slices.
    pub data: Data,
}

/// The base of a new journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data {
    /// There are no data.
    None,
    /// A base that has yet to be written. Until [`Journal::set_base`], the previous journal, if there is one, remains
    /// the folder's.
    Coming,
}

impl Journal {
    /// Begins a new journal. It supersedes the one in the folder: at once if there are no data, otherwise when the base
    /// exists.
    pub fn create(
        folder: Arc<LockedFolder>,
        tuning: Tuning,
        policy: Policy,
        beginning: Beginning,
    ) -> Result<(Journal, Writer), Error> {
        let former = match folder.contents()? {
            Contents::Journal(former) => Some(former),
            Contents::Nothing | Contents::RedisAof(_) => None,
        };
        if let Some(former) = &former {
            folder.settle_manifest(former)?;
        }
        folder.remove_leftovers(former.as_ref())?;
        let Beginning { id, stream, databases, slice, position, data } = beginning;
        let stream = stream.map(|id| Stream { id, from: Some(position) });
        let place = FramePlace { slice: slice.next(), position, checksum: 0, is_within_slice: false };
        let manifest = Manifest {
            id,
            incarnation: 1,
            stream,
            databases,
            former: former.map(|former| [vec![former.id], former.former].concat()).unwrap_or_default(),
            base: Base { slice, position, file: None },
            segments: vec![SegmentStart { number: 1, incarnation: 1, place }],
            spares: Vec::new(),
            lengths: BTreeMap::new(),
        };
        folder.write_manifest(&manifest, true)?;
        make_segment(&folder, tuning.segment_bytes_first, policy, id, 1)?;
        sync_names(&folder)?;
        if data == Data::None {
            folder.write_manifest(&manifest, false)?;
            folder.remove_leftovers(Some(&manifest))?;
        }
        Journal::open(folder, tuning, policy, manifest, data == Data::Coming)
    }

    /// Continues after the `end` that [`LockedFolder::recover`] has found, in a new incarnation, in which `stream` is the id
    /// of the stream. Remains of a power failure behind that end are dropped. Slices that were cut off at a time are
    /// moved aside. Damage is refused.
    pub fn resume(
        folder: Arc<LockedFolder>,
        tuning: Tuning,
        policy: Policy,
        manifest: &Manifest,
        end: &End,
        stream: Option<StreamId>,
    ) -> Result<(Journal, Writer), Error> {
        if let Some(damage) = end.damage() {
            return Err(damage);
        }
        folder.settle_manifest(manifest)?;
        let stream = stream.map(|id| Stream { id, from: Some(end.place.position) });
        let manifest = &Manifest { stream, ..manifest.clone() };
        if end.verdict == Verdict::Until {
            let (journal, writer, _) = Journal::cut(folder, tuning, policy, manifest, end.clone())?;
            return Ok((journal, writer));
        }
        Journal::begin_term(folder, tuning, policy, manifest, end)
    }

    /// Continues after `end` although durable data follow it: all files with such data are moved aside under these
    /// names.
    pub(crate) fn cut(
        folder: Arc<LockedFolder>,
        tuning: Tuning,
        policy: Policy,
        manifest: &Manifest,
        mut end: End,
    ) -> Result<(Journal, Writer, Vec<PathBuf>), Error> {
        // A segment in which no slice counts is not kept.
        end.segments.pop_if(|last| last.place == end.place);
        let aside = folder.set_aside(manifest, &end.segments)?;
        let rest = Manifest { segments: end.segments.clone(), spares: Vec::new(), ..manifest.clone() };
        let (journal, writer) = Journal::begin_term(folder, tuning, policy, &rest, &end)?;
        Ok((journal, writer, aside))
    }

    fn begin_term(
        folder: Arc<LockedFolder>,
        tuning: Tuning,
        policy: Policy,
        manifest: &Manifest,
        end: &End,
    ) -> Result<(Journal, Writer), Error> {
        folder.remove_leftovers(Some(manifest))?;
        // A deleted segment must not reappear after the manifest has stopped naming its owner.
        sync_names(&folder)?;
        let mut segments = end.segments.clone();
        let mut ready: Vec<u64> =
            segments.pop_if(|last| last.place == end.place).iter().map(|last| last.number).collect();
        let last_number = segments.last().map_or(0, |last| last.number);
        ready.extend(manifest.numbers().filter(|number| *number > last_number));
        ready.sort_unstable();
        ready.dedup();
        ready.retain(|number| tuning.can_use(folder.segment_bytes(manifest.id, *number)));
        if ready.is_empty() {
            let number = manifest.last_number() + 1;
            make_segment(&folder, tuning.segment_bytes_first, policy, manifest.id, number)?;
            sync_names(&folder)?;
            ready.push(number);
        }
        let first = ready.remove(0);
        let incarnation = manifest.incarnation + if mutant::is_on(Mutant::NoTerm) { 0 } else { 1 };
        segments.push(SegmentStart { number: first, incarnation, place: end.place });
        let next = Manifest { incarnation, former: Vec::new(), segments, spares: ready, ..manifest.clone() };
        if !mutant::is_on(Mutant::NoTerm) {
            folder.write_manifest(&next, false)?;
        }
        Journal::open(folder, tuning, policy, next, false)
    }

    fn open(
        folder: Arc<LockedFolder>,
        tuning: Tuning,
        policy: Policy,
        manifest: Manifest,
        is_pending: bool,
    ) -> Result<(Journal, Writer), Error> {
        let last = *manifest.segments.last().expect("a journal has a segment");
        let shared = Arc::new(Shared::new(folder, tuning, policy, manifest, is_pending));
        let writer = Writer::begin(&shared, policy, last)?;
        Ok((Journal(shared), writer))
    }
}
