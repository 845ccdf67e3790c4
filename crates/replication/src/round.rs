//! A round: pieces of the primary's stream that are applied together, under all shards that any of them needs.
//!
//! A holder of any shard sees all of a round or nothing of it, so it suffices that each transaction is completely in
//! one round. A transaction whose end has not arrived keeps the round open; the part before it can be
//! [closed](Round::close) off.
//!
//! The bytes of the pieces stay where they were received. A round records where its commands are, and which pieces have
//! no meaning here. In this server's own log, newlines of the same length replace those pieces.
//!
//! Not here: running it (`apply.rs`).

use std::ops::Range;

use engine::{Command, Group, Needs, Route};
use persistence::Role;
use shard::{Placement, ShardId};
use smallvec::SmallVec;

use crate::stage::Vocabulary;

/// Limit of commands and bytes in a round. A single transaction or command may exceed it.
const STEPS_MAX: usize = 128;
const BYTES_MAX: usize = 32 << 10;
/// The limit of commands when much more of the stream has arrived.
const WIDE_STEPS_MAX: usize = 1024;
const WIDE_BYTES_MAX: usize = 256 << 10;
/// Below this number of commands, other threads are not asked for help.
const WIDE_STEPS_MIN: usize = 2 * STEPS_MAX;

/// Why a piece has no place in a round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    /// The command cannot be run, for this reason.
    Command(String),
    /// It selects a database that does not exist here. Later commands would run on another one.
    NoDatabase,
}

/// The words of a command.
pub(crate) type Words<'a> = SmallVec<[&'a [u8]; 16]>;

/// A command to run.
pub(crate) struct Step {
    pub(crate) command: &'static Command,
    pub(crate) db: u32,
    /// The word that is its only key, if it has just one, and where that key is.
    pub(crate) key: Option<(usize, (ShardId, u64))>,
    /// Its bytes in the round.
    pub(crate) at: Range<usize>,
    words: Range<usize>,
    /// Whether waiters are served after it: it is not part of a transaction, or it is the last command of one.
    pub(crate) ends_unit: bool,
}

/// The state of a round at the beginning of a transaction whose end has not arrived.
#[derive(Clone, Copy)]
struct Mark {
    length: usize,
    step_count: usize,
    word_count: usize,
    db: Option<u32>,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Round {
    /// The databases selected before and after the round.
    db_before: Option<u32>,
    db: Option<u32>,
    length: usize,
    steps: Vec<Step>,
    /// Where the words of the steps are in the round's bytes.
    words: Vec<Range<usize>>,
    /// Pieces without meaning here.
    blanks: Vec<Range<usize>>,
    shards: Vec<ShardId>,
    needs_all: bool,
    open: Option<Mark>,
}

impl Round {
    /// Begins an empty round, in a stream in which `db` is selected.
    pub(crate) fn begin(&mut self, db: Option<u32>) {
        self.truncate(Mark { length: 0, step_count: 0, word_count: 0, db });
        self.shards.clear();
        (self.db_before, self.needs_all) = (db, false);
        if self.steps.capacity() > 2 * WIDE_STEPS_MAX {
            *self = Round { db_before: db, db, ..Round::default() };
        }
    }

    /// The databases selected before and after it.
    pub(crate) fn dbs(&self) -> (Option<u32>, Option<u32>) {
        (self.db_before, self.db)
    }

    /// Its commands in order.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The words of a step; `bytes` are those of the round.
    pub(crate) fn words_of<'a>(&self, step: &Step, bytes: &'a [u8]) -> Words<'a> {
        self.words[step.words.clone()].iter().map(|word| &bytes[word.clone()]).collect()
    }

    /// The shards that it needs, ascending, at least one. `None`: all.
    pub(crate) fn shards(&mut self) -> Option<&[ShardId]> {
        if self.shards.is_empty() {
            // The role changes only while all shards are held, so holding any one of them keeps it.
            self.shards.push(ShardId(0));
        }
        self.shards.sort_unstable();
        self.shards.dedup();
        (!self.needs_all).then_some(&self.shards)
    }

    /// Whether the round must run before it takes more. With `much` waiting it may be larger.
    pub(crate) fn is_full(&self, much: bool) -> bool {
        let (steps_max, bytes_max) =
            if much { (WIDE_STEPS_MAX, WIDE_BYTES_MAX) } else { (STEPS_MAX, BYTES_MAX) };
        self.open.is_none() && (self.steps.len() >= steps_max || self.length >= bytes_max)
    }

    /// Whether several threads should run it: it has many commands, and each of them needs just one shard.
    pub(crate) fn is_wide(&self) -> bool {
        self.steps.len() >= WIDE_STEPS_MIN && self.steps.iter().all(|step| step.key.is_some())
    }

    /// Takes a piece: its bytes, and where the words of its command are in them. A piece without words has no meaning.
    /// After [`Wrong::NoDatabase`] the piece is not part of the round.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        words: &[Range<usize>],
        vocabulary: Vocabulary,
        placement: &Placement,
    ) -> Result<(), Wrong> {
        let at = self.length..self.length + bytes.len();
        self.length = at.end;
        let taken = if words.is_empty() {
            self.blanks.push(at.clone());
            return Ok(());
        } else {
            self.take_command(bytes, words, at.clone(), vocabulary, placement)
        };
        match &taken {
            Ok(()) => {}
            Err(Wrong::Command(_)) => self.blanks.push(at),
            Err(Wrong::NoDatabase) => self.length = at.start,
        }
        taken
    }

    fn take_command(
        &mut self,
        bytes: &[u8],
        words: &[Range<usize>],
        at: Range<usize>,
        Vocabulary { table, roles, databases }: Vocabulary,
        placement: &Placement,
    ) -> Result<(), Wrong> {
        let args: Words<'_> = words.iter().map(|word| &bytes[word.clone()]).collect();
        let command = table.resolve(&args).map_err(|error| Wrong::Command(error.to_string()))?;
        let wrong = |why: &str| Err(Wrong::Command(why.to_owned()));
        match (roles[usize::from(command.id.0)], self.open) {
            (Role::Begin, None) => {
                let (step_count, word_count) = (self.steps.len(), self.words.len());
                self.open = Some(Mark { length: at.start, step_count, word_count, db: self.db });
            }
            (Role::End, Some(begin)) => {
                self.open = None;
                if let Some(last) = self.steps[begin.step_count..].last_mut() {
                    last.ends_unit = true;
                }
            }
            (Role::Select, _) => {
                let Some(db) = ds::num::parse_i64(args[1]).and_then(|db| u32::try_from(db).ok()) else {
                    return wrong("no database has such a number");
                };
                self.db = Some(Some(db).filter(|db| *db < databases).ok_or(Wrong::NoDatabase)?);
            }
            (Role::Data | Role::Libraries, _) => self.take_step(command, &args, words, at, placement),
            (Role::Nothing, _) => {
                if matches!(command.entry.group, Group::PubSub | Group::Scripting) {
                    self.take_step(command, &args, words, at, placement);
                }
            }
            (Role::Refused(why), _) => return wrong(why),
            (Role::Begin, Some(_)) => return wrong("a nested transaction"),
            (Role::End, None) => return wrong("the end of a transaction that was never begun"),
        }
        Ok(())
    }

    fn take_step(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        words: &[Range<usize>],
        at: Range<usize>,
        placement: &Placement,
    ) {
        let lone_key = command.lone_key(args);
        let key = lone_key.map(|index| (index, placement.locate(args[index])));
        match key {
            Some((_, (id, _))) => self.shards.push(id),
            // Its other keys are known only when it runs.
            None if matches!(command.entry.route, Route::KeysInTurn | Route::Script(_)) => {
                self.needs_all = true
            }
            None => match Needs::of_no_lone_key(command, args, placement) {
                Needs::Nothing => {}
                Needs::One(id) => self.shards.push(id),
                Needs::Several(ids) => self.shards.extend(ids),
                Needs::All => self.needs_all = true,
            },
        }
        let first_word = self.words.len();
        self.words.extend(words.iter().map(|word| word.start + at.start..word.end + at.start));
        let (words, ends_unit) = (first_word..self.words.len(), self.open.is_none());
        let db = self.db.unwrap_or(0);
        self.steps.push(Step { command, db, key, at, words, ends_unit });
    }

    /// Closes the round, which takes nothing more before it has run. Returns its length in bytes. A transaction whose
    /// end has not arrived is left out. If there is nothing else, the round stays open and the result is `None`, as for
    /// an empty round.
    pub(crate) fn close(&mut self) -> Option<usize> {
        if let Some(mark) = self.open.filter(|mark| mark.length > 0) {
            self.truncate(mark);
        }
        (self.open.is_none() && self.length > 0).then_some(self.length)
    }

    fn truncate(&mut self, Mark { length, step_count, word_count, db }: Mark) {
        (self.length, self.db, self.open) = (length, db, None);
        self.steps.truncate(step_count);
        self.words.truncate(word_count);
        self.blanks.retain(|blank| blank.end <= length);
    }

    /// Turns the bytes into those for this server's log. Commands that have `failed` have no meaning there either.
    pub(crate) fn write_blanks(&self, bytes: &mut [u8], failed: &[Range<usize>]) {
        self.blanks.iter().chain(failed).for_each(|blank| bytes[blank.clone()].fill(b'\n'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ds::hashing::Seed;
    use engine::{Entry, Rule, Run, Table};
    use resp::encode_request;

    const SELECT: Entry = Entry {
        name: "select",
        arity: 2,
        rules: &[Rule::SelectsDb],
        run: Run::Function(|_| Ok(())),
        ..Entry::DEFAULT
    };
    const MULTI: Entry = Entry { name: "multi", arity: 1, ..SELECT };
    const EXEC: Entry = Entry { name: "exec", ..MULTI };

    struct Stream {
        round: Round,
        bytes: Vec<u8>,
        table: &'static Table,
        roles: &'static [Role],
        placement: Placement,
    }

    impl Stream {
        fn new() -> Stream {
            let families: Vec<&'static [Entry]> =
                commands::FAMILIES.iter().copied().chain([&[SELECT, MULTI, EXEC][..]]).collect();
            let table: &'static Table = Box::leak(Box::new(Table::new(&families)));
            let role = |command: &Command| match command.full_name.as_str() {
                "select" => Role::Select,
                "multi" => Role::Begin,
                "exec" => Role::End,
                "keys" => Role::Refused("it is refused"),
                _ => Role::Data,
            };
            let roles: Vec<Role> = table.all().iter().map(role).collect();
            let mut round = Round::default();
            round.begin(None);
            let placement = Placement::new(Seed::new(1), 64, None);
            Stream { round, bytes: Vec::new(), table, roles: Vec::leak(roles), placement }
        }

        fn take(&mut self, text: &str) -> Result<(), Wrong> {
            let (mut piece, mut words) = (Vec::new(), Vec::new());
            let args: Vec<&str> = text.split_whitespace().collect();
            if args.is_empty() {
                piece.push(b'\n');
            } else {
                encode_request(&args, &mut piece);
            }
            let mut from = 0;
            for arg in &args {
                let at = memchr::memmem::find(&piece[from..], arg.as_bytes()).expect("it is in it") + from;
                words.push(at..at + arg.len());
                from = at + arg.len();
            }
            self.bytes.extend_from_slice(&piece);
            let vocabulary = Vocabulary { table: self.table, roles: self.roles, databases: 16 };
            self.round.take(&piece, &words, vocabulary, &self.placement)
        }

        /// The steps, with the database and a bar where a unit ends.
        fn steps(&self) -> String {
            let shown = |step: &Step| {
                let words: Vec<String> = self
                    .round
                    .words_of(step, &self.bytes)
                    .iter()
                    .map(|w| w.escape_ascii().to_string())
                    .collect();
                format!("{}:{}{}", step.db, words.join(" "), if step.ends_unit { "|" } else { " " })
            };
            self.round.steps().iter().map(shown).collect()
        }
    }

    #[test]
    fn a_round_knows_its_commands_its_databases_and_its_shards() {
        let mut stream = Stream::new();
        for text in
            ["SELECT 3", "SET a 1", "", "MULTI", "LPUSH k x", "SELECT 0", "INCR a", "EXEC", "APPEND b y"]
        {
            assert_eq!(stream.take(text), Ok(()), "{text}");
        }
        assert_eq!(stream.steps(), "3:SET a 1|3:LPUSH k x 0:INCR a|0:APPEND b y|");
        assert_eq!(stream.round.close(), Some(stream.bytes.len()));
        assert_eq!(stream.round.dbs(), (None, Some(0)));
        let mut expected: Vec<ShardId> =
            ["a", "k", "b"].map(|key| stream.placement.shard(key.as_bytes())).to_vec();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(stream.round.shards(), Some(&expected[..]));
        stream.take("FLUSHALL").expect("it may be run");
        assert_eq!(stream.round.shards(), None, "all");
        stream.round.begin(Some(0));
        assert_eq!((stream.round.dbs(), stream.round.close()), ((Some(0), Some(0)), None));
        assert_eq!(stream.round.shards(), Some(&[ShardId(0)][..]));
    }

    #[test]
    fn a_transaction_is_in_one_round() {
        let mut stream = Stream::new();
        for text in ["SET a 1", "MULTI", "SELECT 5", "SET b 2"] {
            stream.take(text).expect("it may be run");
        }
        let first = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n".len();
        assert_eq!(stream.round.close(), Some(first), "what comes before it is run without it");
        assert_eq!((stream.steps(), stream.round.dbs()), ("0:SET a 1|".to_owned(), (None, None)));
        stream.round.begin(None);
        stream.bytes.clear();
        stream.take("MULTI").expect("it begins again");
        for number in 0..2 * STEPS_MAX {
            assert!(!stream.round.is_full(false));
            stream.take(&format!("SET key:{number} x")).expect("it may be run");
        }
        assert_eq!(stream.round.close(), None);
        stream.take("EXEC").expect("it ends");
        assert!(stream.round.is_full(false) && !stream.round.is_full(true) && stream.round.is_wide());
        assert_eq!(
            (stream.round.close(), stream.steps().matches('|').count()),
            (Some(stream.bytes.len()), 1)
        );
    }

    #[test]
    fn nothing_is_taken_from_where_another_database_is_selected_than_there_is() {
        let mut stream = Stream::new();
        for text in ["SET a 1", "MULTI", "SET b 2"] {
            stream.take(text).expect("it may be run");
        }
        assert_eq!(stream.take("SELECT 16"), Err(Wrong::NoDatabase));
        let first = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n".len();
        assert_eq!((stream.round.close(), stream.steps()), (Some(first), "0:SET a 1|".to_owned()));
    }

    #[test]
    fn what_cannot_be_run_becomes_newlines() {
        let mut stream = Stream::new();
        let mut expected = Vec::new();
        for (text, why) in [
            ("SET a 1", None),
            ("NONSENSE", Some("unknown command")),
            ("SELECT -1", Some("no database has such a number")),
            ("EXEC", Some("never begun")),
            ("MULTI", None),
            ("MULTI", Some("nested")),
            ("KEYS *", Some("it is refused")),
            ("SET b", Some("wrong number of arguments")),
            ("EXEC", None),
        ] {
            let before = stream.bytes.len();
            let taken = stream.take(text);
            match (why, taken) {
                (None, Ok(())) => expected.extend_from_slice(&stream.bytes[before..]),
                (Some(why), Err(Wrong::Command(said))) => {
                    assert!(said.contains(why), "{text}: {said}");
                    expected.resize(stream.bytes.len(), b'\n');
                }
                (_, taken) => panic!("{text}: {taken:?}"),
            }
        }
        let length = stream.round.close().expect("there is something");
        assert_eq!(stream.steps(), "0:SET a 1|");
        let mut bytes = stream.bytes.clone();
        stream.round.write_blanks(&mut bytes[..length], &[]);
        assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}
