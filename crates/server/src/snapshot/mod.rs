//! The snapshot of a server: the file `dbfilename` in `dir`, in Redis' dump format, or in Darter's own, with the parts that it names.
//!
//! `persistence` saves and loads it. Here it is wired to the server: `save.rs` saves while all shards are held, `background.rs` while clients are
//! served, when `persistence`'s `points.rs` or somebody wants it, `spool.rs` does the same for replicas, and `load.rs` loads it before commands that need data are served.

mod background;
mod load;
mod loaded;
mod save;
mod spool;

use std::sync::atomic::Ordering;

use persistence::{Choice, Names, Purpose, Snapshots, Wanted, Wish};
use proactor::Disk;
use rdb::Style;

pub(crate) use background::Share;
pub(crate) use load::{Loader, loading_progress};
pub(crate) use loaded::Loaded;

use settings::{
    APPENDDIRNAME, APPENDFILENAME, APPENDONLY, DBFILENAME, DIR, IMPORT_AOF, IMPORT_ASK, IMPORT_NO,
    IMPORT_YES, RDB_SAVE_INCREMENTAL_FSYNC, RDB_VERSION, RDBCHECKSUM, RDBCOMPRESSION, SNAPSHOT_FORMAT,
    STOP_WRITES_ON_BGSAVE_ERROR, Settings,
};

use crate::error::Error;

/// Where snapshots are, and how they are called.
pub(crate) fn names(settings: &Settings, disk: &Disk) -> Names {
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
        has_save_points: settings.has_save_points(),
        has_journal: settings.is_on(APPENDONLY),
    };
    Ok(Choice::at_start(&names(settings, disk), &wish)?)
}

/// What the settings say of a save that begins now.
pub(crate) fn save_settings(settings: &Settings, disk: &Disk) -> persistence::Settings {
    persistence::Settings {
        purpose: Purpose::Snapshot,
        names: names(settings, disk),
        style: style(settings),
        has_own_format: settings.is_on(SNAPSHOT_FORMAT),
        has_checksum: settings.is_on(RDBCHECKSUM),
        begins_early: settings.is_on(RDB_SAVE_INCREMENTAL_FSYNC),
    }
}

/// How snapshots are encoded.
fn style(settings: &Settings) -> Style {
    let (compresses, version) = (settings.is_on(RDBCOMPRESSION), settings.number(RDB_VERSION) as u32);
    Style { compresses, version, expires_fields: true }
}

/// Whether commands that write are refused, because the last save failed.
pub(crate) fn refuses_writes(snapshots: &Snapshots, settings: &Settings) -> bool {
    snapshots.last_failed.load(Ordering::Relaxed)
        && settings.has_save_points()
        && settings.is_on(STOP_WRITES_ON_BGSAVE_ERROR)
}
