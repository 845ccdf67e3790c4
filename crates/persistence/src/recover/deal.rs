//! Parses the commands of slices, and deals them out to groups of shards.
//!
//! Commands are not copied: a [`DealtCommand`] has the positions of its words in the payload of its slice.

use std::ops::Range;
use std::sync::Arc;

use effectlog::{Slice, StreamPosition};
use engine::{Command, CommandId, Needs, Table};
use shard::{Placement, ShardId};
use smallvec::SmallVec;

use super::FoundSlice;
use super::crew::Meeting;
use crate::error::Error;
use crate::role::{Role, Roles};
use crate::runner::{selected, shown_name};

/// The length of a usual command, in bytes.
const USUAL_BYTES: usize = 128;
/// Words of a command that need no separate memory.
const WORDS_INLINE: usize = 16;

/// The words of a command.
pub(super) type Words<'a> = SmallVec<[&'a [u8]; WORDS_INLINE]>;

/// Slices that are dealt together.
#[derive(Default)]
pub(super) struct Batch {
    slices: Vec<FoundSlice>,
    bytes: usize,
}

impl Batch {
    pub(super) fn add(&mut self, found: FoundSlice) {
        self.bytes += found.slice.payload.len();
        self.slices.push(found);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it has this many bytes. Slices without commands count, too, because they take memory.
    pub(super) fn has(&self, bytes: usize) -> bool {
        self.bytes + self.slices.len() * size_of::<FoundSlice>() >= bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }
}

/// A command to run.
pub(super) struct DealtCommand {
    pub(super) command: CommandId,
    pub(super) db: u32,
    /// The word that is its only key, if it has just one, and where that key is.
    pub(super) key: Option<(usize, (ShardId, u64))>,
    /// The index of its slice in the batch.
    slice: u32,
    /// Its offset in the slice.
    offset: usize,
    words: Range<usize>,
    /// The meeting of the groups whose shards it needs, if there are several.
    pub(super) meeting: Option<Arc<Meeting>>,
}

/// An error in a command or a slice.
pub(super) struct Failure {
    /// The name of the command, for people.
    pub(super) command: Option<String>,
    /// The position in the stream.
    pub(super) position: StreamPosition,
    /// A part of a sentence.
    pub(super) why: String,
}

impl Failure {
    pub(super) fn error(self, found: &FoundSlice) -> Error {
        let (name, slice) = (found.file.to_string(), found.slice.number);
        let Failure { command, position, why } = self;
        match command {
            Some(command) => Error::SliceCommand { name, command, slice, position, why },
            None => Error::Slice { name, slice, position, why },
        }
    }
}

/// A dealt batch.
pub(super) struct Dealt {
    batch: Batch,
    pub(super) steps: Vec<DealtCommand>,
    /// The positions of the steps' words in their slices.
    words: Vec<Range<usize>>,
    /// For each group the indexes of its steps.
    pub(super) lists: Vec<Vec<u32>>,
    /// Steps that change the libraries of functions.
    pub(super) libraries: Vec<u32>,
    /// The database selected at the end. `None` if unknown.
    pub(super) selected: Option<u32>,
}

impl Dealt {
    /// Checks that it continues with the database that earlier batches have `selected`, and updates that.
    pub(super) fn check_selected(&self, selected: &mut Option<u32>) -> Result<(), Error> {
        if let Some(found) = self.batch.slices.first()
            && let Err(why) = check_selected(*selected, found.slice.db)
        {
            return Err(Failure { command: None, position: found.slice.position, why }.error(found));
        }
        *selected = self.selected.or(*selected);
        Ok(())
    }

    pub(super) fn words(&self, step: &DealtCommand) -> Words<'_> {
        let payload = &self.batch.slices[step.slice as usize].slice.payload;
        self.words[step.words.clone()].iter().map(|word| &payload[word.clone()]).collect()
    }

    /// The original time of a step, in milliseconds since 1970.
    pub(super) fn unix_ms(&self, step: &DealtCommand) -> u64 {
        self.batch.slices[step.slice as usize].unix_ms
    }

    /// The error of a step that cannot be run.
    #[cold]
    pub(super) fn error(&self, step: &DealtCommand, why: String) -> Error {
        let found = &self.batch.slices[step.slice as usize];
        let command = Some(shown_name(&self.words(step)));
        Failure { command, position: found.slice.position.plus(step.offset), why }.error(found)
    }
}

/// Deals batches.
#[derive(Clone, Copy)]
pub(super) struct Dealer<'a> {
    pub(super) table: &'a Table,
    pub(super) roles: Roles<'a>,
    pub(super) placement: &'a Placement,
    pub(super) db_count: u32,
    pub(super) group_count: usize,
}

impl Dealer<'_> {
    pub(super) fn deal(&self, batch: Batch) -> Result<Dealt, Error> {
        let mut lists: Vec<Vec<u32>> = (0..self.group_count).map(|_| Vec::new()).collect();
        // This estimate, for commands of the usual length, makes one allocation enough.
        let step_count = batch.bytes / USUAL_BYTES + 1;
        lists.iter_mut().for_each(|list| list.reserve(step_count / self.group_count + 1));
        let (steps, words) = (Vec::with_capacity(step_count), Vec::with_capacity(step_count * 3));
        let mut dealt =
            Dealt { batch: Batch::default(), steps, words, lists, libraries: Vec::new(), selected: None };
        let mut selected: Option<u32> = None;
        for (index, found) in (0..).zip(&batch.slices) {
            let slice = &found.slice;
            if let Err(why) = check_selected(selected, slice.db) {
                return Err(Failure { command: None, position: slice.position, why }.error(found));
            }
            let dealt_slice = self.deal_slice(index, slice, &mut dealt);
            let db = dealt_slice.map_err(|failure| failure.error(found))?;
            selected = db.or(selected);
        }
        dealt.selected = selected;
        dealt.batch = batch;
        Ok(dealt)
    }

    /// Deals the commands of one slice. Returns the database selected after it.
    fn deal_slice(&self, index: u32, slice: &Slice, dealt: &mut Dealt) -> Result<Option<u32>, Failure> {
        let Slice { position, mut db, ref payload, .. } = *slice;
        let fail = |offset: usize, command: Option<String>, why: &str| Failure {
            command,
            position: position.plus(offset),
            why: why.to_owned(),
        };
        let db_count = self.db_count;
        if let Some(number) = db.filter(|number| *number >= db_count) {
            let why = format!("database {number} is selected, but the setting databases is {db_count}");
            return Err(fail(0, None, &why));
        }
        let mut offset = 0;
        let mut multi_at = None;
        // In a copy of another stream, newlines stand between commands and replace commands that failed.
        while let Some(start) = (offset..payload.len()).find(|at| payload[*at] != b'\n') {
            offset = start;
            let first_word = dealt.words.len();
            let read = read_command(payload, offset, &mut dealt.words);
            let end = read.map_err(|why| fail(offset, None, why))?;
            let range = first_word..dealt.words.len();
            let words: Words<'_> =
                dealt.words[range.clone()].iter().map(|word| &payload[word.clone()]).collect();
            let broken = |why: &str| fail(offset, Some(shown_name(&words)), why);
            let command = self.table.resolve(&words).map_err(|error| broken(&error.to_string()))?;
            let mut keeps = false;
            match (self.roles.of(command.id), multi_at) {
                (Role::Data | Role::Libraries, _) => keeps = true,
                (Role::Select, _) => db = Some(selected(words[1], db_count).map_err(broken)?),
                (Role::Begin, None) => multi_at = Some(offset),
                (Role::End, Some(_)) => multi_at = None,
                (Role::Begin, Some(_)) => return Err(broken("a nested transaction")),
                (Role::End, None) => return Err(broken("the end of a transaction that was never begun")),
                (Role::Nothing, _) => {}
                (Role::Refused(why), _) => return Err(broken(why)),
            }
            if keeps {
                let Some(db) = db else { return Err(broken("no database is selected")) };
                let step = DealtCommand {
                    command: command.id,
                    db,
                    key: None,
                    slice: index,
                    offset,
                    words: range,
                    meeting: None,
                };
                self.deal_command(
                    command,
                    &words,
                    step,
                    &mut dealt.steps,
                    &mut dealt.lists,
                    &mut dealt.libraries,
                );
            } else {
                dealt.words.truncate(first_word);
            }
            offset = end;
        }
        match multi_at {
            Some(at) => Err(fail(at, None, "it ends inside the transaction that begins there")),
            None => Ok(db),
        }
    }

    /// Adds a command to the lists of all groups that it needs.
    fn deal_command(
        &self,
        command: &Command,
        words: &[&[u8]],
        mut step: DealtCommand,
        steps: &mut Vec<DealtCommand>,
        lists: &mut [Vec<u32>],
        libraries: &mut Vec<u32>,
    ) {
        let place = steps.len() as u32;
        if self.roles.of(command.id) == Role::Libraries {
            libraries.push(place);
        } else if let Some(index) = command.lone_key(words) {
            let located = self.placement.locate(words[index]);
            step.key = Some((index, located));
            lists[group_of(located.0, self.group_count)].push(place);
        } else {
            let ids: SmallVec<[ShardId; 8]> = match Needs::of_no_lone_key(command, words, self.placement) {
                Needs::Nothing => SmallVec::new(),
                Needs::One(id) => SmallVec::from_slice(&[id]),
                Needs::Several(ids) => ids,
                Needs::All => (0..self.placement.shard_count()).map(ShardId).collect(),
            };
            let mut groups: SmallVec<[usize; 8]> =
                ids.iter().map(|id| group_of(*id, self.group_count)).collect();
            groups.sort_unstable();
            groups.dedup();
            match groups.as_slice() {
                [] => lists[0].push(place),
                [only] => lists[*only].push(place),
                several => {
                    several.iter().for_each(|group| lists[*group].push(place));
                    step.meeting = Some(Arc::new(Meeting::new(several.len(), ids)));
                }
            }
        }
        steps.push(step);
    }
}

/// Checks that the database that a slice names as selected before it is the one that earlier slices have
/// selected.
fn check_selected(before: Option<u32>, said: Option<u32>) -> Result<(), String> {
    match (before, said) {
        (Some(before), Some(said)) if before != said => {
            Err(format!("it says that database {said} is selected, but the slices before it select {before}"))
        }
        _ => Ok(()),
    }
}

/// The group of a shard.
pub(super) fn group_of(id: ShardId, group_count: usize) -> usize {
    id.index() % group_count
}

/// Reads the command that begins at `offset`. Appends the positions of its words, and returns its end.
fn read_command(payload: &[u8], offset: usize, words: &mut Vec<Range<usize>>) -> Result<usize, &'static str> {
    let (count, mut at) = read_number(payload, offset, b'*')?;
    if count == 0 {
        return Err("an empty command");
    }
    for _ in 0..count {
        let (length, start) = read_number(payload, at, b'$')?;
        let end = start.checked_add(length).ok_or("an argument that extends past the end of the slice")?;
        match payload.get(end..).and_then(|rest| rest.get(..2)) {
            Some(b"\r\n") => {}
            Some(_) => return Err("no line end after an argument"),
            None => return Err("an argument that extends past the end of the slice"),
        }
        words.push(start..end);
        at = end + 2;
    }
    Ok(at)
}

/// Reads a line that consists of `sign` and a number. Returns the number and the end of the line.
#[inline]
fn read_number(payload: &[u8], offset: usize, sign: u8) -> Result<(usize, usize), &'static str> {
    const NO_COMMAND: &str = "this is not a command";
    let Some((first, rest)) = payload.get(offset..).and_then(<[u8]>::split_first) else {
        return Err("it ends inside a command");
    };
    if *first != sign {
        return Err(NO_COMMAND);
    }
    let mut number: usize = 0;
    for (index, byte) in rest.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                let digit = usize::from(byte - b'0');
                number = number.checked_mul(10).and_then(|tens| tens.checked_add(digit)).ok_or(NO_COMMAND)?;
            }
            b'\r' if index > 0 && rest.get(index + 1) == Some(&b'\n') => {
                return Ok((number, offset + index + 3));
            }
            _ => return Err(NO_COMMAND),
        }
    }
    Err("it ends inside a command")
}
