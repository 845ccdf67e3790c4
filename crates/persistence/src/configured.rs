//! Turns settings into the parameters of snapshots: their place, their form, and which files are loaded at
//! the start.

use std::sync::atomic::Ordering;

use config::{
    APPENDDIRNAME, APPENDFILENAME, APPENDONLY, DBFILENAME, DIR, IMPORT_AOF, IMPORT_ASK, IMPORT_NO,
    IMPORT_YES, RDB_SAVE_INCREMENTAL_FSYNC, RDB_VERSION, RDBCHECKSUM, RDBCOMPRESSION, SNAPSHOT_FORMAT,
    STOP_WRITES_ON_BGSAVE_ERROR, Settings,
};
use proactor::Disk;
use rdb::Style;

use crate::error::Error;
use crate::import::{Choice, Wanted, Wish};
use crate::names::Names;
use crate::purpose::Purpose;
use crate::snapshots::Snapshots;

/// The error of commands that write while snapshots cannot be saved.
pub const MISCONF: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the data set are disabled, because this instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB error.";

/// The place and the names of snapshots.
pub fn names(settings: &Settings, disk: &Disk) -> Names {
    Names::new(disk, &settings.text(DIR), &settings.text(DBFILENAME))
}

/// Checks the files on `disk`, and decides whether the snapshot or append-only files of Redis are loaded.
///
/// # Errors
///
/// If both exist and nothing says which one counts, or if one cannot be read.
pub fn choose(settings: &Settings, disk: &Disk) -> Result<Choice, Error> {
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
    Choice::at_start(&names(settings, disk), &wish)
}

/// The settings of a save that begins now.
pub fn save_settings(settings: &Settings, disk: &Disk) -> crate::Settings {
    crate::Settings {
        purpose: Purpose::Snapshot,
        names: names(settings, disk),
        style: style(settings),
        has_own_format: settings.is_on(SNAPSHOT_FORMAT),
        has_checksum: settings.is_on(RDBCHECKSUM),
        begins_early: settings.is_on(RDB_SAVE_INCREMENTAL_FSYNC),
    }
}

/// The encoding of snapshots.
pub fn style(settings: &Settings) -> Style {
    let (compresses, version) = (settings.is_on(RDBCOMPRESSION), settings.number(RDB_VERSION) as u32);
    Style { compresses, version, keeps_all: true }
}

/// Whether commands that write are refused because the last save failed.
pub fn refuses_writes(snapshots: &Snapshots, settings: &Settings) -> bool {
    snapshots.last_failed.load(Ordering::Relaxed)
        && settings.has_save_points()
        && settings.is_on(STOP_WRITES_ON_BGSAVE_ERROR)
}
