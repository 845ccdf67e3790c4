//! Which shards a command call needs.

use shard::{Placement, ShardId};
use smallvec::SmallVec;

use crate::entry::Route;
use crate::table::Command;

/// The shards to be entered before a command runs.
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
    /// The shards that `command` needs to run with `args`. Keys that contradict its key specs are left out: the
    /// command refuses such arguments before it touches anything.
    #[inline]
    pub fn of(command: &Command, args: &[&[u8]], placement: &Placement) -> Needs {
        if let Some(index) = command.only_key {
            return match args.get(index) {
                Some(key) => Needs::One(placement.shard(key)),
                None => Needs::Nothing,
            };
        }
        match command.entry.route {
            Route::Keys if command.entry.keys.is_empty() => Needs::Nothing,
            Route::Keys => Needs::of_keys(command, args, placement),
            Route::Channel(index) => {
                args.get(index).map_or(Needs::Nothing, |channel| Needs::One(placement.shard(channel)))
            }
            Route::Channels(from) => {
                Needs::several(args.iter().skip(from).map(|channel| placement.shard(channel)).collect())
            }
            Route::Global => Needs::All,
            // The session knows them, and its dispatcher asks it.
            Route::Queued => Needs::Nothing,
        }
    }

    fn of_keys(command: &Command, args: &[&[u8]], placement: &Placement) -> Needs {
        let mut found = SmallVec::new();
        for spec in command.entry.keys {
            spec.find(args, &mut found);
        }
        Needs::several(found.iter().map(|key| placement.shard(args[key.index])).collect())
    }

    /// Exactly these.
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

    /// The same with these shards added.
    pub fn with(self, ids: &[ShardId]) -> Needs {
        self.and(Needs::several(ids.into()))
    }
}
