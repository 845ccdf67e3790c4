//! Loading append-only files: the snapshot that they begin with, and then their commands, one after the other.
//!
//! Commands run on shards that nobody else knows, all of which are entered, through the table of commands like those of clients, so
//! they have the names that `rename-command` gave them, as in Redis. But nothing expires meanwhile: what had gone was deleted by a
//! command of its own. A transaction runs when its end was read; of one that has none nothing does.
//!
//! A file that ends in the middle of a command or a transaction is loaded up to there if `aof-load-truncated` allows it and it is the last one.
//! Anything else that is wrong ends the loading, and the server with it.

use std::io::Read;
use std::path::Path;

use aof::{Reader, Record};
use command::{Client, Command, CommandId, Located, Outcome, OwnedArgs, Shards, Table, Tx};
use keyspace::{Config, Db};
use proactor::{Disk, DiskReader};
use resp::{Output, Proto};
use shard::{Hold, ShardId};

use super::files::{Files, shown};
use crate::error::Error;
use crate::load::{Counted, Extras, Load, Loaded, Others, Target, on_heap_to_serve};

/// Commands after which other things are looked at.
const RUN_MAX: u64 = 4096;
/// What a file begins with that is a snapshot.
const SNAPSHOTS: [&[u8]; 2] = [b"REDIS", b"VALKEY"];

/// Append-only files that are to be loaded, and how.
#[derive(Clone, Copy)]
pub struct Import<'a> {
    /// What was found.
    pub files: &'a Files,
    /// The commands that there are.
    pub table: &'a Table,
    /// What becomes of each command of the table.
    pub roles: &'a [Role],
    /// No argument of a command is longer.
    pub argument_bytes_max: u64,
    /// The last file may end amid a command or a transaction: `aof-load-truncated`.
    pub may_be_torn: bool,
}

/// What becomes of a command in an append-only file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It is about data, and runs.
    Data,
    /// Its argument is the database of the commands after it.
    Select,
    /// It begins a transaction.
    Begin,
    /// It ends the transaction, which runs now.
    End,
    /// It changes the libraries of functions.
    Libraries,
    /// It leaves nothing behind that is kept.
    Nothing,
    /// It cannot be run, for this reason.
    Refused(&'static str),
}

impl Load<'_> {
    /// What append-only files hold, read by this thread, with others if they begin with a snapshot; `None` if the load was stopped.
    ///
    /// # Errors
    /// If a file cannot be read or is damaged, or if a command in it cannot be run.
    pub fn append_only(&self, import: &Import<'_>, extras: &mut dyn Extras) -> Result<Option<Loaded>, Error> {
        let (disk, files) = (self.names.disk(), import.files);
        let name = files.name();
        self.progress.begin_file(files.bytes());
        let target = Target::new(self, &name, self.clock.now_ms() as i64);
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
            let config = Config { notify: 0, ..self.config.clone() };
            let replay =
                || Replay::new(import, &target, &config, &mut *others.extras).read_all(commands_from);
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

/// A transaction whose end was not read yet.
struct Multi {
    offset: u64,
    commands: Vec<(u64, CommandId, OwnedArgs)>,
}

/// Runs commands.
struct Replay<'a> {
    import: &'a Import<'a>,
    target: &'a Target<'a>,
    extras: &'a mut dyn Extras,
    shards: Shards,
    config: &'a Config,
}

/// What happens while one file is read.
struct Running<'a, 's> {
    tx: Tx<'s>,
    client: Client,
    out: Output,
    multi: Option<Multi>,
    roles: &'a [Role],
    path: &'a Path,
    db_count: u32,
}

impl<'a> Replay<'a> {
    fn new(
        import: &'a Import<'a>,
        target: &'a Target<'a>,
        config: &'a Config,
        extras: &'a mut dyn Extras,
    ) -> Self {
        assert_eq!(import.roles.len(), import.table.all().len(), "each command has a role");
        let shards = Shards::new(target.load.placement.clone(), 1, target.load.db_count, 0);
        Replay { import, target, extras, shards, config }
    }

    /// Runs the commands of all files; those of the first one begin at `from`.
    fn read_all(mut self, mut from: u64) -> Result<(), Error> {
        self.exchange();
        let files = self.import.files;
        for (index, (path, length)) in files.files.iter().enumerate() {
            let is_last = index + 1 == files.files.len();
            if from < *length {
                self.read(path, (from, *length), is_last)?;
            }
            from = 0;
            if self.target.load.is_stopped() {
                return Ok(());
            }
        }
        let key_count = self.exchange();
        self.target.set_key_count(key_count);
        Ok(())
    }

    /// Exchanges the databases of these shards with those of the target; how many keys these had.
    fn exchange(&mut self) -> u64 {
        let mut hold = Hold::new(&self.shards);
        let mut key_count = 0;
        for id in self.shards.ids() {
            let entered = hold.try_enter(id);
            assert!(entered, "nobody else knows these shards");
            let dbs = &mut hold.shard_mut(id).dbs;
            key_count += dbs.iter().map(|db| db.len() as u64).sum::<u64>();
            self.target.exchange(id, dbs);
        }
        leave(&mut hold);
        key_count
    }

    /// Runs the commands of a file from `from` on.
    fn read(&mut self, path: &Path, (from, length): (u64, u64), is_last: bool) -> Result<(), Error> {
        let load = self.target.load;
        let mut file = open(load.names.disk(), path)?;
        file.go_to(from)
            .map_err(|source| Error::Io { what: format!("cannot read {}", shown(path)), source })?;
        // What Redis appends while this is read does not belong to what was found.
        let file = Counted::new(file, self.target).take(length - from);
        let mut reader = Reader::new(file, from, self.import.argument_bytes_max);
        let mut record = Record::default();
        let mut hold = Hold::new(&self.shards);
        for id in self.shards.ids() {
            let entered = hold.try_enter(id);
            assert!(entered, "nobody else knows these shards");
        }
        let now = load.clock.now_ms() as i64;
        let mut tx = Tx::new(hold, self.import.table, self.config, now);
        tx.keeps_due = true;
        let client = Client { no_touch: false, ..Client::internal(0, Proto::Resp2) };
        let (out, roles, db_count) = (Output::new(), self.import.roles, load.db_count);
        let mut running = Running { tx, client, out, multi: None, roles, path, db_count };
        let mut count = 0;
        let end = loop {
            match reader.next(&mut record) {
                Ok(true) => running.take(&record, self.extras)?,
                Ok(false) => break None,
                Err(aof::Error { offset, why: aof::Why::Torn }) => break Some(offset),
                Err(source) => return Err(Error::AppendOnly { name: shown(path), source }),
            }
            count += 1;
            if count % RUN_MAX == 0 {
                running.tx.now = load.clock.now_ms() as i64;
                self.target.set_key_count(running.key_count());
                heap::settle();
                if load.is_stopped() {
                    break None;
                }
            }
        };
        let is_stopped = load.is_stopped();
        let torn_at = running.multi.as_ref().map(|multi| multi.offset).or(end);
        leave(&mut running.tx.hold);
        match torn_at {
            Some(offset) if !is_stopped => self.end_early(path, (offset, length), is_last),
            _ => Ok(()),
        }
    }

    /// The file ends in the middle of what begins at `offset`.
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
                    "{}: the last {} bytes are left out: {what} at offset {offset}. The file stays as it is",
                    shown(path),
                    length - offset,
                );
                Ok(())
            }
        }
    }
}

fn leave<T, W>(hold: &mut Hold<'_, T, W>) {
    while let Some(&id) = hold.entered().last() {
        let left = hold.leave_or_keep(id);
        assert!(left, "nobody else knows these shards");
    }
}

impl Running<'_, '_> {
    fn key_count(&self) -> u64 {
        let ids = self.tx.hold.entered().iter();
        ids.flat_map(|id: &ShardId| &self.tx.hold.shard(*id).dbs).map(|db: &Db| db.len() as u64).sum()
    }

    /// Takes a command: runs it, or keeps it for the end of its transaction.
    fn take(&mut self, record: &Record, extras: &mut dyn Extras) -> Result<(), Error> {
        let args: smallvec::SmallVec<[&[u8]; 16]> = record.args().collect();
        let offset = record.offset;
        let id = match self.tx.table.resolve(&args) {
            Ok(command) => command.id,
            Err(error) => return Err(self.unresolved(offset, &args, &error.to_string())),
        };
        match (self.role(id), &mut self.multi) {
            (Role::Begin, None) => {
                self.multi = Some(Multi { offset, commands: Vec::new() });
                Ok(())
            }
            (Role::Begin, Some(_)) => Err(self.error(offset, &args, "a transaction in another one")),
            (Role::End, None) => {
                Err(self.error(offset, &args, "the end of a transaction that did not begin"))
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
        self.roles[usize::from(id.0)]
    }

    fn run(
        &mut self,
        offset: u64,
        id: CommandId,
        args: &[&[u8]],
        extras: &mut dyn Extras,
    ) -> Result<(), Error> {
        match self.role(id) {
            Role::Data => self.run_data(id, args).map_err(|why| self.error(offset, args, &why)),
            Role::Select => {
                let number = ds::num::parse_i64(args[1]).and_then(|number| u32::try_from(number).ok());
                let Some(db) = number.filter(|number| *number < self.db_count) else {
                    return Err(self.error(offset, args, "more databases than the setting databases allows"));
                };
                self.client.db = db;
                Ok(())
            }
            Role::Libraries => {
                let command = self.tx.table.get(id);
                extras.change_libraries(command, args).map_err(|why| self.error(offset, args, &why))
            }
            Role::Nothing => Ok(()),
            Role::Refused(why) => Err(self.error(offset, args, why)),
            Role::Begin | Role::End => unreachable!("transactions do not stand in one another"),
        }
    }

    fn run_data(&mut self, id: CommandId, args: &[&[u8]]) -> Result<(), String> {
        let command = self.tx.table.get(id);
        if let Some(index) = command.lone_key(args) {
            let key = args[index];
            let located = Located::new(key, self.tx.hold.shards().placement().locate(key));
            self.tx.hold.focus(located.shard());
            self.tx.located = located;
        }
        let outcome = self.tx.run(command, args, &self.client, &mut (), &mut self.out);
        self.tx.finish(&mut ());
        self.tx.posts.clear();
        self.tx.restore = None;
        let failure = match outcome {
            Outcome::Done => None,
            Outcome::Failed => {
                let text = self.out.to_vec();
                Some(String::from_utf8_lossy(text.trim_ascii()).trim_start_matches('-').to_owned())
            }
            Outcome::Blocked(_) | Outcome::Again(_) => Some("it would have to wait".to_owned()),
        };
        self.out.clear();
        failure.map_or(Ok(()), Err)
    }

    /// The error of a command that the table does not know, or not with so many arguments.
    #[cold]
    fn unresolved(&self, offset: u64, args: &[&[u8]], why: &str) -> Error {
        let is_declared = |command: &Command| command.full_name.as_bytes().eq_ignore_ascii_case(args[0]);
        let table = self.tx.table;
        let is_renamed = table.by_name(args[0]).is_none() && table.all().iter().any(is_declared);
        let renamed = "rename-command has taken this name away; without that line of the configuration the file can be loaded";
        self.error(offset, args, if is_renamed { renamed } else { why })
    }

    fn error(&self, offset: u64, args: &[&[u8]], why: &str) -> Error {
        const SHOWN_BYTES_MAX: usize = 64;
        let name = &args[0][..args[0].len().min(SHOWN_BYTES_MAX)];
        Error::AppendOnlyCommand {
            name: shown(self.path),
            command: name.escape_ascii().to_string(),
            offset,
            why: why.to_owned(),
        }
    }
}
