//! Decides whether the append-only file or the snapshot is loaded at the start.
//!
//! Redis and Darter may have run in turn on the same directory, in any order. Loading the older of the two
//! files would lose data. So Darter remembers which append-only file its snapshots *supersede*: the one that
//! was imported, or ignored. The state of that file (names, lengths and ends of its parts) is stored
//!
//! * in every later snapshot: the snapshot is newer as long as the append-only file is in that state;
//! * in a file beside the snapshot, which remains when Redis overwrites the snapshot, and shows that there was an
//!   import.
//!
//! | append-only file | snapshot supersedes | `import-aof` | taken |
//! |---|---|---|---|
//! | damaged | | `no` | the snapshot |
//! | damaged | | `yes`, `ask` | nothing |
//! | none | | `yes`, and none was ever superseded | nothing: it is elsewhere |
//! | none | | | the snapshot |
//! | there | this state | any | the snapshot |
//! | there | another state | any | nothing: both have something new |
//! | there | nothing | `ask` | nothing |
//! | there | nothing, but one before it did: this state | `yes`, `ask` | nothing: another server wrote the snapshot since |
//! | there | nothing, but one before it did: another state | any | nothing: both have something new |
//! | there | nothing | `yes` | the append-only file |
//! | there | nothing | `no` | the snapshot |
//!
//! These rules apply with `appendonly no`. With `appendonly yes` there may also be a journal:
//!
//! | `appendonly` | journal | taken |
//! |---|---|---|
//! | `yes` | there | the journal; nothing, if another server wrote an append-only file or a snapshot since |
//! | `yes` | none | as in the first table, with `import-aof yes` for `ask`, and the snapshot where there is no append-only file |
//! | `no` | there | nothing; the snapshot with `import-aof no` |

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use rdb::{FileReader, FrameReader, Item, MANIFEST_BYTES_MAX, MANIFEST_MAGIC, Manifest};

use super::files::{Files, shown};
use crate::error::Error;
use crate::names::{Names, moment, part_name};
use crate::superseded::{STATE_AUX, VERSION_AUX, superseded_before};

/// The name of a journal's manifest.
const JOURNAL_MANIFEST: &str = "journal.manifest";
/// The state when there is no append-only file. It is recorded if an append-only file was to be ignored,
/// because a later one must not be ignored.
const NO_STATE: &str = "none";

/// Whether append-only files are loaded: `import-aof`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// No file is loaded if it is unclear which one counts.
    Ask,
    /// They are loaded, once.
    Yes,
    /// They are ignored.
    No,
}

/// The settings about append-only files at the start.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Whether they are loaded.
    pub wanted: Wanted,
    /// The name of their folder: `appenddirname`.
    pub folder: String,
    /// The name of the single file, which is also the beginning of the names in the folder: `appendfilename`.
    pub file: String,
    /// Whether the setting `save` has save points.
    pub has_save_points: bool,
    /// Whether the server keeps a journal: `appendonly`.
    pub has_journal: bool,
}

impl Wish {
    /// The path of the manifest of append-only files.
    pub(super) fn manifest(&self, names: &Names) -> PathBuf {
        names.path(&self.folder).join(format!("{}.manifest", self.file))
    }

    /// The path of a journal's manifest.
    fn journal(&self, names: &Names) -> PathBuf {
        names.path(&self.folder).join(JOURNAL_MANIFEST)
    }
}

/// The source of the data.
#[derive(Debug)]
pub enum DataSource {
    /// There is nothing.
    Nothing,
    /// The snapshot.
    Snapshot,
    /// The append-only file.
    AppendOnly(Files),
    /// The journal in the folder of append-only files.
    Journal,
}

/// The decision.
#[derive(Debug)]
pub struct Choice {
    /// The files to load.
    pub source: DataSource,
    /// The state of the append-only file that snapshots supersede from this start, unless the loaded snapshot
    /// names it itself.
    pub superseded: Option<String>,
}

/// Facts that the files themselves do not show.
struct Known<'a> {
    names: &'a Names,
    /// The snapshot, if there is one.
    snapshot: Option<PathBuf>,
    /// The state that it supersedes.
    by_snapshot: Option<String>,
    /// The state that any snapshot of Darter here ever superseded.
    ever: Option<String>,
}

impl Choice {
    /// Examines the files and decides.
    ///
    /// # Errors
    ///
    /// If nothing can be loaded, or if a person must decide.
    pub fn at_start(names: &Names, wish: &Wish) -> Result<Choice, Error> {
        let path = names.path(&names.name_to_load());
        let snapshot = names.disk().has(&path).then_some(path);
        let source = if snapshot.is_some() { DataSource::Snapshot } else { DataSource::Nothing };
        let ever = superseded_before(names);
        if names.disk().has(&wish.journal(names)) && !leaves_journal(names, wish)? {
            return Ok(Choice { source: DataSource::Journal, superseded: ever });
        }
        let files = match Files::find(wish, names) {
            Err(error) if wish.wanted == Wanted::No => {
                tracing::warn!("{error}. The file is ignored, because import-aof is no");
                None
            }
            found => found?,
        };
        let Some(files) = files else {
            if wish.wanted == Wanted::Yes && ever.is_none() && !wish.has_journal {
                return Err(Error::Undecided(format!(
                    "import-aof is yes, but there is no append-only file to load: neither {} nor {}. Without import-aof the \
                     server starts from the snapshot, if there is one",
                    shown(&wish.manifest(names)),
                    shown(&names.path(&wish.file)),
                )));
            }
            let superseded = (wish.wanted == Wanted::No).then(|| NO_STATE.to_owned());
            return Ok(Choice { source, superseded });
        };
        let by_snapshot = snapshot.is_some().then(|| superseded_by(names)).flatten();
        let known = Known { names, snapshot, by_snapshot, ever };
        let superseded = Some(files.state.clone());
        let wanted = match wish.wanted {
            // A user who wants the journal means what Redis does with this setting.
            Wanted::Ask if wish.has_journal => Wanted::Yes,
            wanted => wanted,
        };
        if !known.wants_import(wanted, &files)? {
            known.say_what_counts(&files);
            return Ok(Choice { source, superseded });
        }
        if !wish.has_save_points && !wish.has_journal {
            return Err(Error::Undecided(format!(
                "import-aof is yes, but save is empty: neither the data in {} nor anything written later would be saved when the server stops. Set save points, as with --save '3600 1 300 100 60 10000'",
                files.name()
            )));
        }
        Ok(Choice { source: DataSource::AppendOnly(files), superseded })
    }

    /// Whether there is anything to load.
    pub fn has_data(&self) -> bool {
        !matches!(self.source, DataSource::Nothing)
    }
}

/// Whether an existing journal is ignored.
fn leaves_journal(names: &Names, wish: &Wish) -> Result<bool, Error> {
    let journal = wish.journal(names);
    let refuse = |why: String| Err(Error::Undecided(why));
    if !wish.has_journal && wish.wanted == Wanted::No {
        tracing::warn!("{} is ignored, because import-aof and appendonly are no", shown(&journal));
        return Ok(true);
    }
    if !wish.has_journal {
        return refuse(format!(
            "{} names a journal, but appendonly is no, and the snapshot may lack data that is in the journal. --appendonly yes continues with the journal; \
             --appendonly no --import-aof no ignores it and starts from the snapshot, if there is one",
            shown(&journal)
        ));
    }
    if let Some(files) = Files::find(wish, names)?
        && superseded_before(names).as_ref() != Some(&files.state)
    {
        return refuse(format!(
            "{} was written by Redis (last {}) beside the journal that {} names, and each may have data that the other lacks. \
             Move one of them elsewhere",
            files.name(),
            files.changed(),
            shown(&journal)
        ));
    }
    let snapshot = names.path(&names.name_to_load());
    let changed = |path: &Path| names.disk().info(path).ok().and_then(|info| info.modified);
    if changed(&snapshot) > changed(&journal) && is_foreign(names) {
        return refuse(format!(
            "{} was written by another server than Darter after the journal that {} names, and each may have data that the other lacks. Move one of them elsewhere",
            shown(&snapshot),
            shown(&journal)
        ));
    }
    Ok(false)
}

impl Known<'_> {
    /// Whether the append-only file is loaded. The head of this file has the rules.
    fn wants_import(&self, wanted: Wanted, files: &Files) -> Result<bool, Error> {
        let (state, aof, snapshot) = (Some(&files.state), files.name(), self.snapshot_name());
        let refuse = |why: String| Err(Error::Undecided(why));
        if self.by_snapshot.is_some() && self.by_snapshot.as_ref() == state {
            return Ok(false);
        }
        let has_changed = self.ever.as_ref().is_some_and(|ever| Some(ever) != state);
        if self.by_snapshot.is_some() || self.snapshot.is_some() && has_changed {
            return refuse(format!(
                "Redis has written to {aof} (last {}) since a snapshot replaced it, so it and {snapshot} may each have data that the other lacks. Move one of them elsewhere: without {aof} the snapshot is loaded; without the snapshot, --import-aof yes \
                 loads {aof}",
                files.changed(),
            ));
        }
        match wanted {
            Wanted::Yes | Wanted::Ask if self.snapshot.is_some() && self.ever.as_ref() == state => {
                refuse(format!(
                    "{aof} was imported before and has not changed since, but another program has rewritten {snapshot}. --import-aof \
                 no loads the snapshot; to import again, move the snapshot elsewhere and pass --import-aof yes",
                ))
            }
            Wanted::Yes => Ok(true),
            Wanted::No if has_changed => refuse(format!(
                "import-aof is no, but Redis has written to {aof} (last {}) since Darter ignored it. --import-aof yes loads it; to start without it, move it elsewhere",
                files.changed(),
            )),
            Wanted::No => Ok(false),
            Wanted::Ask => refuse(format!(
                "there is an append-only file of Redis, {aof} (last written {}), and appendonly is no. --import-aof yes loads it \
                 once instead of the snapshot; --import-aof no ignores it and {}",
                files.changed(),
                self.without_import(),
            )),
        }
    }

    fn snapshot_name(&self) -> String {
        self.snapshot.as_ref().map_or_else(|| "the snapshot".to_owned(), |path| shown(path))
    }

    fn without_import(&self) -> String {
        let Some(path) = &self.snapshot else { return "starts empty".to_owned() };
        let changed = self.names.disk().info(path).ok().and_then(|info| info.modified);
        let changed = changed.map_or_else(|| "some time ago".to_owned(), moment);
        format!("loads {} (last written {changed})", shown(path))
    }

    /// Logs that the append-only file is not loaded, and why.
    fn say_what_counts(&self, files: &Files) {
        let aof = files.name();
        match (&self.by_snapshot, &self.snapshot) {
            (Some(_), _) => tracing::info!("{aof} is ignored: a snapshot already contains it"),
            (None, Some(_)) => {
                tracing::warn!("{aof} is ignored, because import-aof is no; the snapshot is loaded instead");
            }
            (None, None) => {
                tracing::warn!("{aof} is ignored, because import-aof is no; the server starts empty");
            }
        }
    }
}

/// The state of the append-only file that the snapshot supersedes, from the fields at its beginning. Errors
/// in them are reported when it is loaded.
fn superseded_by(names: &Names) -> Option<String> {
    let (_, value) = fields(names)?.into_iter().find(|(name, _)| name == STATE_AUX.as_bytes())?;
    String::from_utf8(value).ok()
}

/// Whether there is a snapshot that Darter did not write.
fn is_foreign(names: &Names) -> bool {
    fields(names).is_some_and(|fields| !fields.iter().any(|(name, _)| name == VERSION_AUX.as_bytes()))
}

/// The fields at the beginning of the snapshot, if it can be read.
fn fields(names: &Names) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let name = names.name_to_load();
    if !names.disk().is_file(&names.path(&name)) {
        return None;
    }
    let mut head = Vec::new();
    let mut file = names.reader(&name).ok()?;
    (&mut file).take(MANIFEST_MAGIC.len() as u64).read_to_end(&mut head).ok()?;
    if head != MANIFEST_MAGIC {
        return Some(fields_in(FileReader::new(Cursor::new(head).chain(file), false).ok()?));
    }
    file.take(MANIFEST_BYTES_MAX as u64).read_to_end(&mut head).ok()?;
    let manifest = Manifest::decode(&head).ok()?;
    let (number, bytes) = *manifest.parts.first()?;
    let part = names.reader(&part_name(&name, manifest.id, number)).ok()?;
    Some(fields_in(FileReader::of_part(FrameReader::new(part, manifest.id, number, bytes), 0, false)))
}

fn fields_in<R: Read>(mut snapshot: FileReader<R>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut fields = Vec::new();
    while let Ok(Item::Aux(name, value)) = snapshot.next_item() {
        fields.push((name, value));
    }
    fields
}
