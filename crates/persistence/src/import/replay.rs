//! Loads append-only files: the snapshot at their beginning, and then their commands, one after the other.
//!
//! Commands run on shards that no other component knows (`runner.rs`), all of which are entered. They have
//! the names that `rename-command` gave them, as in Redis. Expired keys of the snapshot stay, because a later
//! command may have extended their time. A transaction runs when its end has been read. An incomplete one
//! does not run at all.
//!
//! A file that ends in the middle of a command or a transaction is loaded up to that point if it is the last
//! file and `aof-load-truncated` allows it. Any other error ends the loading, and the server with it.

use std::io::Read;
use std::path::Path;

use crate::import::aof::{Reader, Record};
use engine::{Command, CommandId, Located, OwnedArgs, Table};
use proactor::{Disk, DiskReader};
use shard::Placement;

use super::files::{Files, shown};
use crate::error::Error;
use crate::load::{Counted, Extras, Load, Loaded, Others, Target, on_heap_to_serve};
use crate::role::{Role, Roles};
use crate::runner::{Runner, Stage, selected, shown_name};

/// The number of commands after which memory and the request to stop are checked.
const RUN_MAX: u64 = 4096;
/// The beginnings of files that are snapshots.
const SNAPSHOTS: [&[u8]; 2] = [b"REDIS", b"VALKEY"];

/// Append-only files to load, and the rules for it.
#[derive(Clone, Copy)]
pub struct Import<'a> {
    /// The files.
    pub files: &'a Files,
    /// All commands.
    pub table: &'a Table,
    /// The role of each command of the table.
    pub roles: &'a [Role],
    /// The longest argument of a command.
    pub argument_bytes_max: u64,
    /// Whether the last file may end in the middle of a command or a transaction: `aof-load-truncated`.
    pub may_be_torn: bool,
}

impl Load<'_> {
    /// The content of append-only files. This thread reads it, with the help of others if the files begin
    /// with a snapshot. `None` if the load was stopped.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is damaged, or if a command in it cannot be run.
    pub fn append_only(&self, import: &Import<'_>, extras: &mut dyn Extras) -> Result<Option<Loaded>, Error> {
        let (disk, files) = (self.names.disk(), import.files);
        let name = files.name();
        self.progress.begin_file(files.bytes());
        let target = Target::of_stream(self, &name, self.clock.now_ms() as i64);
        let mut others = Others::new(&target, extras);
        let mut commands_from = 0;
        if let Some((path, _)) = files.files.first()
            && is_snapshot(disk, path)?
        {
            let file = Counted::new(open(disk, path)?, &target);
            let read = match self.thread_count {
                0 => on_heap_to_serve(|| others.read_file(file)),
                _ => others.read_file(file),
            };
            let error = |source| Error::Snapshot { name: shown(path), source };
            commands_from = read.map_err(error)?;
        }
        if !self.is_stopped() {
            let stage = Stage::new(&target);
            let replay = || Replay::new(import, &stage, &mut *others.extras).read_all(commands_from);
            on_heap_to_serve(replay)?;
        }
        if self.is_stopped() {
            return Ok(None);
        }
        let superseded_aof = others.superseded_aof;
        Ok(Some(target.loaded(superseded_aof)))
    }
}

fn open(disk: &Disk, path: &Path) -> Result<DiskReader, Error> {
    disk.reader(path).map_err(|source| Error::Io { what: format!("cannot read {}", shown(path)), source })
}

fn is_snapshot(disk: &Disk, path: &Path) -> Result<bool, Error> {
    let mut head = Vec::new();
    let read = open(disk, path)?.take(8).read_to_end(&mut head);
    read.map_err(|source| Error::Io { what: format!("cannot read {}", shown(path)), source })?;
    Ok(SNAPSHOTS.iter().any(|magic| head.starts_with(magic)))
}

/// A transaction whose end has not been read yet.
struct Multi {
    offset: u64,
    commands: Vec<(u64, CommandId, OwnedArgs)>,
}

/// Runs commands.
struct Replay<'a> {
    import: &'a Import<'a>,
    stage: &'a Stage<'a>,
    extras: &'a mut dyn Extras,
}

/// The state while one file is read.
struct Running<'a> {
    runner: Runner<'a>,
    db: u32,
    multi: Option<Multi>,
    import: &'a Import<'a>,
    path: &'a Path,
    placement: &'a Placement,
    db_count: u32,
}

impl<'a> Replay<'a> {
    fn new(import: &'a Import<'a>, stage: &'a Stage<'a>, extras: &'a mut dyn Extras) -> Self {
        assert_eq!(import.roles.len(), import.table.all().len(), "each command has a role");
        Replay { import, stage, extras }
    }

    /// Runs the commands of all files; those of the first one begin at `from`.
    fn read_all(mut self, mut from: u64) -> Result<(), Error> {
        self.stage.exchange();
        let files = self.import.files;
        for (index, (path, length)) in files.files.iter().enumerate() {
            let is_last = index + 1 == files.files.len();
            if from < *length {
                self.read(path, (from, *length), is_last)?;
            }
            from = 0;
            if self.stage.target.is_stopped() {
                return Ok(());
            }
        }
        let key_count = self.stage.exchange();
        self.stage.target.set_key_count(key_count);
        Ok(())
    }

    /// Runs the commands of a file from `from` on.
    fn read(&mut self, path: &Path, (from, length): (u64, u64), is_last: bool) -> Result<(), Error> {
        let Stage { target, .. } = *self.stage;
        let load = target.load;
        let mut file = open(load.names.disk(), path)?;
        file.go_to(from)
            .map_err(|source| Error::Io { what: format!("cannot read {}", shown(path)), source })?;
        // Commands that Redis appends during the load are not part of the files that were found.
        let file = Counted::new(file, target).take(length - from);
        let mut reader = Reader::new(file, from, self.import.argument_bytes_max);
        let mut record = Record::default();
        let mut running = Running {
            runner: Runner::new(self.stage, self.import.table, |_| true),
            db: 0,
            multi: None,
            import: self.import,
            path,
            placement: load.placement,
            db_count: load.db_count,
        };
        let mut count = 0;
        let end = loop {
            match reader.next(&mut record) {
                Ok(true) => running.take(&record, self.extras)?,
                Ok(false) => break None,
                Err(crate::import::aof::Error { offset, why: crate::import::aof::Why::Torn }) => {
                    break Some(offset);
                }
                Err(source) => return Err(Error::AppendOnly { name: shown(path), source }),
            }
            count += 1;
            if count % RUN_MAX == 0 {
                running.runner.settle(self.stage);
                target.set_key_count(running.runner.key_count());
                if load.is_stopped() {
                    break None;
                }
            }
        };
        let is_stopped = load.is_stopped();
        let torn_at = running.multi.as_ref().map(|multi| multi.offset).or(end);
        drop(running);
        match torn_at {
            Some(offset) if !is_stopped => self.end_early(path, (offset, length), is_last),
            _ => Ok(()),
        }
    }

    /// Handles a file that ends in the middle of the command or transaction that begins at `offset`.
    fn end_early(&self, path: &Path, (offset, length): (u64, u64), is_last: bool) -> Result<(), Error> {
        assert!(offset <= length, "what is torn begins in the file");
        let what = "it ends in the middle of a command or a transaction that begins";
        let refuse = |why: &str| {
            let why = format!("{what} at offset {offset}, {} bytes before its end, {why}", length - offset);
            Err(Error::AppendOnlyFiles { name: shown(path), why })
        };
        match (is_last, self.import.may_be_torn) {
            (false, _) => refuse("and other files come after it"),
            (true, false) => refuse("and aof-load-truncated is no"),
            (true, true) => {
                tracing::warn!(
                    "{}: the last {} bytes are ignored: {what} at offset {offset}. The file is not changed",
                    shown(path),
                    length - offset,
                );
                Ok(())
            }
        }
    }
}

impl Running<'_> {
    /// Handles a command: runs it, or keeps it for the end of its transaction.
    fn take(&mut self, record: &Record, extras: &mut dyn Extras) -> Result<(), Error> {
        let args: smallvec::SmallVec<[&[u8]; 16]> = record.args().collect();
        let offset = record.offset;
        let id = match self.import.table.resolve(&args) {
            Ok(command) => command.id,
            Err(error) => return Err(self.unresolved(offset, &args, &error.to_string())),
        };
        match (self.role(id), &mut self.multi) {
            (Role::Begin, None) => {
                self.multi = Some(Multi { offset, commands: Vec::new() });
                Ok(())
            }
            (Role::Begin, Some(_)) => Err(self.error(offset, &args, "a nested transaction")),
            (Role::End, None) => {
                Err(self.error(offset, &args, "the end of a transaction that was never begun"))
            }
            (Role::End, multi @ Some(_)) => {
                let commands = multi.take().into_iter().flat_map(|multi| multi.commands);
                commands.into_iter().try_for_each(|(at, id, args)| self.run(at, id, &args.slices(), extras))
            }
            (_, None) => self.run(offset, id, &args, extras),
            (_, Some(multi)) => {
                multi.commands.push((offset, id, OwnedArgs::new(&args)));
                Ok(())
            }
        }
    }

    fn role(&self, id: CommandId) -> Role {
        Roles(self.import.roles).of(id)
    }

    fn run(
        &mut self,
        offset: u64,
        id: CommandId,
        args: &[&[u8]],
        extras: &mut dyn Extras,
    ) -> Result<(), Error> {
        let command = self.import.table.get(id);
        match self.role(id) {
            Role::Data => {
                let lone = command.lone_key(args).map(|index| args[index]);
                let located = lone.map(|key| Located::new(key, self.placement.locate(key)));
                let ran = self.runner.run(command, args, self.db, located);
                ran.map_err(|why| self.error(offset, args, &why))
            }
            Role::Select => {
                self.db = selected(args[1], self.db_count).map_err(|why| self.error(offset, args, why))?;
                Ok(())
            }
            Role::Libraries => {
                extras.change_libraries(command, args).map_err(|why| self.error(offset, args, &why))
            }
            Role::Nothing => Ok(()),
            Role::Refused(why) => Err(self.error(offset, args, why)),
            Role::Begin | Role::End => unreachable!("transactions do not stand in one another"),
        }
    }

    /// The error of a command that does not exist, or not with this number of arguments.
    #[cold]
    fn unresolved(&self, offset: u64, args: &[&[u8]], why: &str) -> Error {
        let is_declared = |command: &Command| command.full_name.as_bytes().eq_ignore_ascii_case(args[0]);
        let table = self.import.table;
        let is_renamed = table.by_name(args[0]).is_none() && table.all().iter().any(is_declared);
        let renamed =
            "rename-command has disabled this name; remove that line of the configuration to load the file";
        self.error(offset, args, if is_renamed { renamed } else { why })
    }

    fn error(&self, offset: u64, args: &[&[u8]], why: &str) -> Error {
        Error::AppendOnlyCommand {
            name: shown(self.path),
            command: shown_name(args),
            offset,
            why: why.to_owned(),
        }
    }
}
