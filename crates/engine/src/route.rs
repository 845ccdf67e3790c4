//! Computes the shards that a command call needs.

use ds::compact_table::POSITION_BITS;
use shard::{Placement, ShardId};
use smallvec::SmallVec;

use crate::ctx::Ctx;
use crate::entry::Route;
use crate::error::{CommandError, CommandResult};
use crate::parse::{keyword_is, parse_cursor};
use crate::table::Command;

/// The position of a scan over all shards: the shard's number in the upper 16 bits, the position in its table
/// in the lower 48. The scan visits one shard after the other, so each step needs only one. 0 is both the
/// beginning and the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The shard; a client may send one that does not exist.
    pub shard: u16,
    /// The position in its table.
    pub position: u64,
}

impl Cursor {
    /// Reads a cursor as clients send it.
    pub fn parse(arg: &[u8]) -> Result<Cursor, CommandError> {
        let cursor = parse_cursor(arg)?;
        let position = cursor & ((1 << POSITION_BITS) - 1);
        Ok(Cursor { shard: (cursor >> POSITION_BITS) as u16, position })
    }

    /// The number that clients get.
    pub fn number(self) -> u64 {
        assert!(self.position >> POSITION_BITS == 0, "a position in a table leaves room for the shard");
        u64::from(self.shard) << POSITION_BITS | self.position
    }
}

/// Whether `SORT` with these arguments reads keys that it builds from patterns.
fn reads_patterns(args: &[&[u8]]) -> bool {
    args.windows(2)
        .any(|pair| (keyword_is(pair[0], "BY") || keyword_is(pair[0], "GET")) && pair[1].contains(&b'*'))
}

/// The indexes of the words after `STORE` and `STOREDIST`.
pub(crate) fn stored_keys(args: &[&[u8]]) -> impl Iterator<Item = usize> {
    let is_store = |word: &[u8]| keyword_is(word, "STORE") || keyword_is(word, "STOREDIST");
    (1..args.len()).filter(move |&index| is_store(args[index - 1]))
}

/// The shards to enter before a command runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Needs {
    /// None.
    Nothing,
    /// One.
    One(ShardId),
    /// Several, ascending.
    Several(SmallVec<[ShardId; 8]>),
    /// All.
    All,
}

impl Needs {
    /// The shards that `command` needs to run with `args`. Arguments that contradict the key specs have no keys: the
    /// command refuses them before it reads or writes anything.
    #[inline]
    pub fn of(command: &Command, args: &[&[u8]], placement: &Placement) -> Needs {
        match command.lone_key(args) {
            Some(index) => Needs::One(placement.shard(args[index])),
            None => Needs::of_no_lone_key(command, args, placement),
        }
    }

    /// The shards of a call for which [`Command::lone_key`] has returned `None`.
    pub fn of_no_lone_key(command: &Command, args: &[&[u8]], placement: &Placement) -> Needs {
        if command.only_key.is_some() {
            return Needs::Nothing;
        }
        match command.entry.route {
            Route::Keys if command.entry.keys.is_empty() => Needs::Nothing,
            Route::Keys | Route::KeysInTurn | Route::Script(_) => Needs::of_keys(command, args, placement),
            Route::Sort if reads_patterns(args) => Needs::All,
            Route::Stored | Route::Sort => {
                let stored = stored_keys(args).map(|index| placement.shard(args[index])).collect();
                Needs::of_keys(command, args, placement).and(Needs::several(stored))
            }
            Route::Channel(index) => {
                args.get(index).map_or(Needs::Nothing, |channel| Needs::One(placement.channel(channel)))
            }
            Route::Channels(from) => {
                Needs::several(args.iter().skip(from).map(|channel| placement.channel(channel)).collect())
            }
            Route::Cursor(index) => match args.get(index).and_then(|arg| Cursor::parse(arg).ok()) {
                Some(cursor) if cursor.shard < placement.shard_count() => Needs::One(ShardId(cursor.shard)),
                _ => Needs::Nothing,
            },
            Route::Global | Route::Chance | Route::KeysAndBeside | Route::Walk => Needs::All,
            // The session knows these shards, and its dispatcher asks it.
            Route::Queued => Needs::Nothing,
        }
    }

    /// The shard of the first key, for a command that tries its keys in turn.
    #[inline]
    pub fn of_first_key(command: &Command, args: &[&[u8]], placement: &Placement) -> Needs {
        let first = match command.key_run {
            Some((first, _)) => args.get(first).copied(),
            None => command.keys(args).and_then(|keys| Some(args[keys.first()?.index])),
        };
        first.map_or(Needs::Nothing, |key| Needs::One(placement.shard(key)))
    }

    /// The shards of the keys that its key specs find.
    pub fn of_keys(command: &Command, args: &[&[u8]], placement: &Placement) -> Needs {
        let mut found = SmallVec::new();
        for spec in command.entry.keys {
            spec.find(args, &mut found);
        }
        match found.as_slice() {
            [] => Needs::Nothing,
            [only] => Needs::One(placement.shard(args[only.index])),
            keys => Needs::several(keys.iter().map(|key| placement.shard(args[key.index])).collect()),
        }
    }

    /// Exactly these shards.
    pub fn several(mut ids: SmallVec<[ShardId; 8]>) -> Needs {
        ids.sort_unstable();
        ids.dedup();
        match ids.as_slice() {
            [] => Needs::Nothing,
            [only] => Needs::One(*only),
            _ => Needs::Several(ids),
        }
    }

    /// The union of two needs.
    pub fn and(self, other: Needs) -> Needs {
        if other == Needs::Nothing {
            return self;
        }
        let mut ids: SmallVec<[ShardId; 8]> = SmallVec::new();
        for needs in [&self, &other] {
            match needs {
                Needs::Nothing => {}
                Needs::One(id) => ids.push(*id),
                Needs::Several(several) => ids.extend_from_slice(several),
                Needs::All => return Needs::All,
            }
        }
        Needs::several(ids)
    }

    /// Adds these shards.
    pub fn with(self, ids: &[ShardId]) -> Needs {
        self.and(Needs::several(ids.into()))
    }
}

impl Ctx<'_, '_> {
    /// Enters the shard of a further key, for a command that tries its keys in turn. The shard of the first
    /// key is already entered. The others are out of order, so they are only tried, without waiting. They
    /// stay entered, so that the command sees all keys at one moment. If one is taken, the command runs again
    /// with all its shards entered in order.
    pub fn enter_next(&mut self, key: &[u8]) -> CommandResult {
        let hold = &mut self.store.tx.hold;
        let placement = hold.shards().placement();
        if hold.try_enter(placement.shard(key)) {
            return Ok(());
        }
        let wanted = match Needs::of(self.command, self.args, placement) {
            Needs::Several(ids) => ids,
            needs => unreachable!("the first key's shard is entered, and another one is not: {needs:?}"),
        };
        Err(CommandError::again(wanted))
    }
}
