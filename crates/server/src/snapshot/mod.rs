//! The snapshot of a server: the file `dbfilename` in `dir`, in Redis' dump format, or in Darter's own, with the parts that it names.
//!
//! `persistence` saves and loads it. Here it is wired to the server: `save.rs` saves while all shards are held, `background.rs` while clients are
//! served, when `points.rs` or somebody wants it, and `load.rs` loads it before commands that need data are served.

mod background;
mod load;
mod loaded;
mod points;
mod roles;
mod save;

use persistence::{Choice, Names, Wanted, Wish};
use proactor::Disk;
use rdb::Style;

pub(crate) use background::Share;
pub(crate) use loaded::Loaded;

use settings::{
    APPENDDIRNAME, APPENDFILENAME, DBFILENAME, DIR, IMPORT_AOF, IMPORT_ASK, IMPORT_NO, IMPORT_YES,
    RDB_SAVE_INCREMENTAL_FSYNC, RDB_VERSION, RDBCHECKSUM, RDBCOMPRESSION, SAVE, SNAPSHOT_FORMAT,
    STOP_WRITES_ON_BGSAVE_ERROR, Settings,
};

use crate::error::Error;
use crate::shared::Shared;

/// Where snapshots are, and how they are called.
fn names(settings: &Settings, disk: &Disk) -> Names {
    Names::new(disk, &settings.text(DIR), &settings.text(DBFILENAME))
}

/// Looks on `disk` what there is to be loaded, and decides whether the snapshot or append-only files of Redis count.
pub(crate) fn choose(settings: &Settings, disk: &Disk) -> Result<Choice, Error> {
    let wanted = match settings.number(IMPORT_AOF) {
        IMPORT_ASK => Wanted::Ask,
        IMPORT_YES => Wanted::Yes,
        IMPORT_NO => Wanted::No,
        _ => unreachable!("there is no such choice"),
    };
    let wish = Wish {
        wanted,
        folder: settings.text(APPENDDIRNAME).to_string(),
        file: settings.text(APPENDFILENAME).to_string(),
        has_save_points: !settings.text(SAVE).is_empty(),
    };
    Ok(Choice::at_start(&names(settings, disk), &wish)?)
}

impl Shared {
    /// Where snapshots are, and how they are called.
    pub(crate) fn snapshot_names(&self) -> Names {
        names(&self.settings, &self.machine.disk)
    }

    /// How snapshots are encoded.
    fn snapshot_style(&self) -> Style {
        Style {
            compresses: self.settings.is_on(RDBCOMPRESSION),
            version: self.settings.number(RDB_VERSION) as u32,
        }
    }

    /// What the settings say of a save that begins now.
    fn save_settings(&self) -> persistence::Settings {
        persistence::Settings {
            names: self.snapshot_names(),
            style: self.snapshot_style(),
            has_own_format: self.settings.is_on(SNAPSHOT_FORMAT),
            has_checksum: self.settings.is_on(RDBCHECKSUM),
            begins_early: self.settings.is_on(RDB_SAVE_INCREMENTAL_FSYNC),
        }
    }

    /// Whether commands that write are refused, because the last save failed.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.snapshots.last_failed.load(std::sync::atomic::Ordering::Relaxed)
            && self.has_save_points()
            && self.settings.is_on(STOP_WRITES_ON_BGSAVE_ERROR)
    }

    /// Whether a server that ends saves unless it is told otherwise.
    pub(crate) fn has_save_points(&self) -> bool {
        self.settings.is_on(SAVE)
    }

    /// Changes on all shards; exactly those that a save sees if they are entered.
    fn changes(&self) -> u64 {
        self.shards.figures().map(|figures| figures.changes.get()).sum()
    }
}
