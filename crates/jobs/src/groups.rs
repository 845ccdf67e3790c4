//! Groups: the jobs of a queue are divided among tenants, and the groups take turns.
//!
//! ```text
//!   {q}:jobs:group:ada   list          the waiting jobs of a group
//!   {q}:jobs:groups      sorted set    group → its turn: those with waiting jobs, under their limit
//!   {q}:jobs:groups:full sorted set    group → its active jobs: those with waiting jobs, at their limit
//!   {q}:jobs:groups:active  hash       group → its active jobs: every group that has active jobs
//!   {q}:jobs:turn        hash          now: the turn served last; list: the last turn of the queue's list;
//!                                      waiting: the number of waiting jobs in all groups
//! ```
//!
//! Turns are start-time fair queueing with jobs of one size (Goyal, Vin and Cheng, 1996): a group is served
//! at its turn and then gets the next one. A group that gets its first waiting job joins at the turn after
//! the one served last. It waits for the rest of this round and for its place in the next, so it gains
//! nothing by being empty in between. The queue's own list is one more group. Its turn is kept separately
//! because any client may push there.
//!
//! A take costs O(log n) for n groups. A group without jobs takes no memory.
//!
//! Invariant: the turn exists exactly if one of the two sorted sets does. The shard knows which queues have a
//! turn (`keyspace::queue`), so taking from other queues needs no look-up.

use crate::queues::{GROUPED, popping_end};
use ds::hash::Hash;
use ds::list::End;
use ds::zset::ZSet;
use engine::{Change, Class, CommandError, Gate, Store, got_room, peek_into, take_from};
use keyspace::List;
use keyspace::queue::{GROUPS, GROUPS_FULL, TURN};

use crate::job::{Jobs, wrong_type};
use crate::leasing::{Leasing, Next};
use crate::limits::Limit;

/// The most groups that one command moves because the limit has changed.
const MOVED_MAX: usize = 1000;
/// The most groups at their limit that one take lets in again.
const LET_IN_MAX: usize = 16;

const NOW: &[u8] = b"now";
const LIST: &[u8] = b"list";

/// The turn of a group to be served.
pub(crate) struct Turn {
    keys: GroupKeys,
    pub(crate) group: Vec<u8>,
    turn: u64,
    /// The turn that was served last.
    now: u64,
}

impl Turn {
    /// Notes that the turn was served.
    pub(crate) fn serve(&self, store: &mut Store) -> Result<(), CommandError> {
        let waiting = GroupKeys::number(store, &self.keys.turn, GROUPED)?.saturating_sub(1);
        let served: &[(&[u8], u64)] = &[(GROUPED, waiting), (NOW, self.turn)];
        self.keys.set_turn(store, if self.turn == self.now { &served[..1] } else { served })
    }

    /// Gives the group its next turn, or none if no job of it waits any more.
    pub(crate) fn pass(&self, store: &mut Store, is_empty: bool) -> Result<(), CommandError> {
        let Turn { keys, group, .. } = self;
        if is_empty {
            let was_ready = Jobs::take_out(store, &keys.ready, group)?;
            assert!(was_ready, "the group that was served had a turn");
            keys.forget_turn(store);
        } else {
            Jobs::set_time(store, &keys.ready, group, (self.turn + 1).cast_signed())?;
        }
        Ok(())
    }
}

/// The keys of a queue's groups.
pub(crate) struct GroupKeys {
    ready: Vec<u8>,
    full: Vec<u8>,
    active: Vec<u8>,
    turn: Vec<u8>,
    list: Vec<u8>,
}

impl GroupKeys {
    /// The keys whose names start with `begin`.
    pub(crate) fn new(begin: &[u8]) -> GroupKeys {
        let name = |end: &[u8]| [begin, end].concat();
        GroupKeys {
            ready: name(GROUPS),
            full: name(GROUPS_FULL),
            active: name(b":jobs:groups:active"),
            turn: name(TURN),
            list: name(b":jobs:group:"),
        }
    }

    fn list(&self, group: &[u8]) -> Vec<u8> {
        [&self.list, group].concat()
    }

    /// Checks that each key has its type.
    fn check(&self, store: &Store) -> Result<(), CommandError> {
        for key in [&self.ready, &self.full] {
            store.peek_as::<ZSet>(key).map_err(|_| wrong_type(key))?;
        }
        for key in [&self.active, &self.turn] {
            peek_into::<Hash>(store, key, &mut Vec::new()).map_err(|_| wrong_type(key))?;
        }
        Ok(())
    }

    fn number(store: &Store, key: &[u8], field: &[u8]) -> Result<u64, CommandError> {
        let mut buffer = Vec::new();
        let fields = peek_into::<Hash>(store, key, &mut buffer).map_err(|_| wrong_type(key))?;
        Ok(fields
            .and_then(|fields| fields.get(field))
            .and_then(|text| ds::num::parse_i64(&text.bytes()))
            .map(i64::cast_unsigned)
            .unwrap_or(0))
    }

    /// Sets fields of the turn hash in one effect.
    fn set_turn(&self, store: &mut Store, fields: &[(&[u8], u64)]) -> Result<(), CommandError> {
        assert!(!fields.is_empty(), "HSET without fields would fail on replicas");
        let (key, limits) = (&*self.turn, store.config().hash);
        let mut hash = store.upsert::<Hash>(key)?;
        let mut effect = vec![b"HSET".to_vec(), key.to_vec()];
        for (field, number) in fields {
            let text = itoa::Buffer::new().format(*number).as_bytes().to_vec();
            hash.set(field, &text, &limits);
            effect.extend([field.to_vec(), text]);
        }
        drop(hash);
        store.changed_with(key, Change::new(Class::Hash, "hset").times(0), |store| {
            store.effect(&effect.iter().map(|arg| &arg[..]).collect::<Vec<_>>());
        });
        Ok(())
    }

    /// The number of a group's active jobs.
    fn active(&self, store: &Store, group: &[u8]) -> Result<u64, CommandError> {
        Self::number(store, &self.active, group)
    }

    fn set_active(&self, store: &mut Store, group: &[u8], count: u64) -> Result<(), CommandError> {
        let key = &*self.active;
        if count > 0 {
            return Jobs::set_field(store, key, group, itoa::Buffer::new().format(count).as_bytes());
        }
        Jobs::remove_field(store, key, group)
    }

    /// Puts a group that has waiting jobs into the set for groups under their limit, or the one for groups at
    /// it.
    fn place(
        &self,
        store: &mut Store,
        group: &[u8],
        turn: u64,
        per_group: Option<u64>,
    ) -> Result<(), CommandError> {
        let active = self.active(store, group)?;
        let (set, at) = if per_group.is_some_and(|max| active >= max) {
            (&self.full, active)
        } else {
            (&self.ready, turn)
        };
        Jobs::set_time(store, set, group, at.cast_signed()).map(drop)
    }

    /// The group that is next, and its turn.
    fn first(&self, store: &Store) -> Result<Option<(Vec<u8>, u64)>, CommandError> {
        let ready = store.peek_as::<ZSet>(&self.ready)?;
        Ok(ready.and_then(|ready| ready.at(0)).map(|(group, turn)| (group.into_owned(), turn as u64)))
    }

    /// Lets in groups that are no longer at their limit, a few at a time. They are served after the groups
    /// that are already waiting.
    fn let_in(&self, store: &mut Store, per_group: Option<u64>) -> Result<(), CommandError> {
        for _ in 0..LET_IN_MAX {
            let first = store.peek_as::<ZSet>(&self.full)?.and_then(|full| full.at(0));
            let Some((group, active)) = first.map(|(group, active)| (group.into_owned(), active as u64))
            else {
                break;
            };
            if per_group.is_some_and(|max| active >= max) {
                break;
            }
            let was_full = Jobs::take_out(store, &self.full, &group)?;
            assert!(was_full, "the first group of a set is in it");
            let turn = Self::number(store, &self.turn, NOW)? + 1;
            Jobs::set_time(store, &self.ready, &group, turn.cast_signed())?;
        }
        Ok(())
    }

    /// Deletes the turn if no group has waiting jobs.
    fn forget_turn(&self, store: &mut Store) {
        if !store.exists(&self.ready) && !store.exists(&self.full) {
            store.delete(&self.turn);
        }
    }

    /// The first group that is under its limit. Groups before it that are at their limit stop waiting for a
    /// turn.
    fn first_under(
        &self,
        store: &mut Store,
        per_group: Option<u64>,
    ) -> Result<Option<(Vec<u8>, u64)>, CommandError> {
        self.let_in(store, per_group)?;
        for _ in 0..MOVED_MAX {
            let Some((group, turn)) = self.first(store)? else { return Ok(None) };
            let key = self.list(&group);
            if store.peek_as::<List>(&key).map_err(|_| wrong_type(&key))?.is_none() {
                // A client deleted the list.
                let was_ready = Jobs::take_out(store, &self.ready, &group)?;
                assert!(was_ready, "the search for a group comes to an end");
                continue;
            }
            let active = self.active(store, &group)?;
            if per_group.is_none_or(|max| active < max) {
                return Ok(Some((group, turn)));
            }
            let was_ready = Jobs::take_out(store, &self.ready, &group)?;
            assert!(was_ready, "a group waits for its turn or for room, not for both");
            Jobs::set_time(store, &self.full, &group, active.cast_signed())?;
        }
        Ok(None)
    }
}

impl Jobs<'_> {
    /// Checks that a job of this group can wait, and that the group's active jobs can be counted.
    ///
    /// # Errors
    /// If a key of the group, or the queue's limit, holds something else.
    pub(crate) fn check_group(&self, store: &Store, group: Option<&[u8]>) -> Result<(), CommandError> {
        let Some(group) = group else { return Ok(()) };
        let keys = self.names.groups();
        keys.check(store)?;
        let list = keys.list(group);
        store.peek_as::<List>(&list).map_err(|_| wrong_type(&list))?;
        self.per_group(store).map(|_| ())
    }

    /// Adds a waiting job to a group, at the end where jobs are pushed or at the one where they are taken.
    pub(crate) fn wait_in_group(
        &self,
        store: &mut Store,
        group: &[u8],
        end: End,
        element: &[u8],
    ) -> Result<(), CommandError> {
        self.check_group(store, Some(group))?;
        let keys = self.names.groups();
        let list = keys.list(group);
        // All takes from these lists are at the tail.
        let end = if end == popping_end(store, self.queue) { End::Tail } else { End::Head };
        Self::push(store, &list, end, element)?;
        let is_placed = |key: &[u8]| -> Result<bool, CommandError> {
            Ok(store.peek_as::<ZSet>(key)?.is_some_and(|set| set.score(group).is_some()))
        };
        if !is_placed(&keys.ready)? && !is_placed(&keys.full)? {
            let now = GroupKeys::number(store, &keys.turn, NOW)?;
            let per_group = self.per_group(store)?;
            keys.place(store, group, now + 1, per_group)?;
        }
        let waiting = GroupKeys::number(store, &keys.turn, GROUPED)? + 1;
        match store.exists(&keys.turn) {
            true => keys.set_turn(store, &[(GROUPED, waiting)])?,
            false => keys.set_turn(store, &[(NOW, 0), (GROUPED, waiting)])?,
        }
        got_room(store, self.queue);
        Ok(())
    }

    /// Takes the job that is next, from the queue's list or from that of a group; none if no job may be taken.
    pub(crate) fn take_next(&self, store: &mut Store, next: &mut Next) -> Result<(), CommandError> {
        if !self.has_groups(store) {
            let mut leasing = Leasing::from_queue(self, store, next);
            return take_from(store, self.queue, &mut leasing).map(|_| ());
        }
        let keys = self.names.groups();
        keys.check(store)?;
        let Some(gate) = Gate::of(store, self.queue)? else { return Ok(()) };
        let per_group = self.per_group(store)?;
        let first = keys.first_under(store, per_group)?;
        let now = GroupKeys::number(store, &keys.turn, NOW)?;
        let list_turn = now.max(GroupKeys::number(store, &keys.turn, LIST)? + 1);
        let has_list = store.exists(self.queue);
        if let Some((group, turn)) = first.filter(|(_, turn)| !has_list || *turn < list_turn) {
            let list = keys.list(&group);
            let turn = Turn { keys, group, turn, now };
            let mut leasing = Leasing::from_group(self, &turn, next);
            return gate.take(store, &list, &mut leasing).map(|_| ());
        }
        if has_list && store.exists(&keys.turn) {
            let served: &[(&[u8], u64)] = &[(LIST, list_turn), (NOW, list_turn)];
            keys.set_turn(store, if list_turn == now { &served[..1] } else { served })?;
        }
        keys.forget_turn(store);
        let mut leasing = Leasing::from_queue(self, store, next);
        gate.take(store, self.queue, &mut leasing).map(|_| ())
    }

    /// Counts one more or one fewer active job of a group, which may reach its limit or drop below it.
    pub(crate) fn count_active(
        &self,
        store: &mut Store,
        group: &[u8],
        is_more: bool,
    ) -> Result<(), CommandError> {
        self.check_group(store, Some(group))?;
        let keys = self.names.groups();
        let before = keys.active(store, group)?;
        let active = if is_more { before + 1 } else { before.saturating_sub(1) };
        keys.set_active(store, group, active)?;
        let per_group = self.per_group(store)?;
        let is_at = per_group.is_some_and(|max| active >= max);
        if store.peek_as::<ZSet>(&keys.full)?.is_some_and(|full| full.score(group).is_some()) {
            // The next take lets the group in.
            Self::set_time(store, &keys.full, group, active.cast_signed())?;
        } else if is_at && Self::take_out(store, &keys.ready, group)? {
            Self::set_time(store, &keys.full, group, active.cast_signed())?;
        }
        Ok(())
    }

    /// Whether a group has a job that may be taken under the groups' limit.
    pub(crate) fn has_group_with_some(&self, store: &Store) -> Result<bool, CommandError> {
        if !self.has_groups(store) {
            return Ok(false);
        }
        let keys = self.names.groups();
        let per_group = self.per_group(store)?;
        let full = store.peek_as::<ZSet>(&keys.full)?;
        let is_under = |score: f64| per_group.is_none_or(|max| score < max as f64);
        if full.and_then(|full| full.at(0)).is_some_and(|(_, active)| is_under(active)) {
            return Ok(true);
        }
        let Some(ready) = store.peek_as::<ZSet>(&keys.ready)? else { return Ok(false) };
        for (group, _) in ready.iter().take(MOVED_MAX) {
            if is_under(keys.active(store, &group)? as f64) && store.exists(&keys.list(&group)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether any group has waiting jobs.
    pub(crate) fn has_groups(&self, store: &Store) -> bool {
        let (shard, _) = store.locate(self.queue);
        store.db(shard).queues().is_grouped(self.queue)
    }

    fn per_group(&self, store: &Store) -> Result<Option<u64>, CommandError> {
        Ok(Limit::of(store, self.queue)?.and_then(|limit| limit.per_group))
    }

    /// Moves groups that a changed limit leaves at their limit out of the way, some at a time. True if there
    /// may be more.
    pub(crate) fn settle_groups(&self, store: &mut Store) -> Result<bool, CommandError> {
        if !self.has_groups(store) {
            return Ok(false);
        }
        let keys = self.names.groups();
        keys.check(store)?;
        let per_group = self.per_group(store)?;
        let is_stuck = keys.first_under(store, per_group)?.is_none() && store.exists(&keys.ready);
        keys.forget_turn(store);
        Ok(is_stuck)
    }
}
