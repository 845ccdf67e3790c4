//! All commands of the server, found by name.

use smallvec::SmallVec;

use crate::args::ArgSlices;
use crate::ctx::Entry;
use crate::entry::{self, Flag, Mode, Route, Rule, Run};
use crate::error::{CommandError, shown};
use crate::key_spec::{KeyFlag, KeyRef};
use crate::parse::keyword_is;
use crate::store::Store;
use crate::store::queues::room::Room;

/// The number of a command or subcommand in its [`Table`]; statistics are kept by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommandId(pub u16);

/// A command of the table: its entry and the data derived from it.
#[derive(Debug)]
pub struct Command {
    /// Its number.
    pub id: CommandId,
    /// Its declaration.
    pub entry: &'static Entry,
    /// The name with the container's: `config|get`.
    pub full_name: String,
    /// Its flags as a set of [`Flag::bit`]s, derived ones included.
    pub flags: u64,
    /// Its access categories as a set of [`Acl::bit`](crate::Acl::bit)s, derived ones included.
    pub acl: u64,
    /// The index of its only key, if its key specs name nothing else: the fast path.
    pub only_key: Option<usize>,
    /// Its keys, if they are a run of arguments: the first index, and the last, from the front or (negative) from the
    /// back.
    pub(crate) key_run: Option<(usize, i32)>,
    /// Whether it has no name, and cannot be called.
    pub is_disabled: bool,
    /// The subcommands of a container, sorted by name.
    subcommands: Vec<CommandId>,
}

/// The most bytes of a name, and of all arguments together, that an error quotes.
const QUOTED_BYTES_MAX: usize = 128;

/// What takes ask of the rate limits of queues, which are in a crate above.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// How many elements may be taken from the list at this key. An error if its limit cannot be read.
    pub room: fn(&Store, &[u8]) -> Result<Room, CommandError>,
    /// Counts this many elements that were taken from the list at this key, which is limited.
    pub took: fn(&mut Store, &[u8], u64) -> Result<(), CommandError>,
}

/// All commands.
#[derive(Debug)]
pub struct Table {
    commands: Vec<Command>,
    /// The number of commands before those of another protocol.
    listed_count: usize,
    /// Commands, without subcommands, in an open-addressing hash table by [`first_slot`].
    by_name: Box<[NameSlot]>,
    /// The few names that are too long for a slot.
    long_names: Vec<(Box<[u8]>, CommandId)>,
    /// What the commands that take from queues ask of their limits; `None`: there are no limits.
    rates: Option<Rates>,
}

/// A command's name and number side by side, so that a look-up costs at most one cache miss.
#[derive(Clone, Debug, Default)]
struct NameSlot {
    /// Together with the length, the whole name.
    ends: [u64; 2],
    /// Length of the name; 0 if the slot is empty.
    length: u8,
    id: u16,
}

/// The longest name that fits into a slot.
const SLOT_NAME_BYTES_MAX: usize = 16;
/// Enough slots that most are empty.
const NAME_SLOTS: usize = 1 << NAME_SLOTS_LOG2;
const NAME_SLOTS_LOG2: u32 = 11;

/// The first and the last eight bytes of a name in lower case; they overlap if the name is shorter than 16
/// bytes.
#[inline]
fn ends(name: &[u8]) -> [u64; 2] {
    let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    let half = |bytes: &[u8]| bytes.first_chunk().map_or(0, |chunk| u64::from(u32::from_le_bytes(*chunk)));
    let length = name.len();
    let ends = match length {
        0 => [0, 0],
        1..4 => [u64::from(name[0]) << 8 | u64::from(name[length / 2]), u64::from(name[length - 1])],
        4..8 => [half(name), half(&name[length - 4..])],
        _ => [word(name), word(&name[length - 8..])],
    };
    ends.map(to_lower_case)
}

/// Converts the capital letters among eight bytes to lower case, all at once: byte by byte would cost more
/// than the rest of the look-up.
#[inline]
fn to_lower_case(word: u64) -> u64 {
    let each = |byte: u8| u64::from_le_bytes([byte; 8]);
    // The sums of a byte's lower seven bits have the top bit set from 'A', and after 'Z'. None carries into
    // the next byte.
    let lower_bits = word & each(0x7F);
    let (from_a, past_z) = (lower_bits + each(0x80 - b'A'), lower_bits + each(0x7F - b'Z'));
    let is_capital = from_a & !past_z & !word & each(0x80);
    // Shifted by two, that bit is the one in which small letters differ.
    word | is_capital >> 2
}

/// The slot where the search for a name begins.
#[inline]
fn first_slot([front, back]: [u64; 2], length: usize) -> usize {
    let mixed = (front ^ back.rotate_left(23)).wrapping_add(length as u64);
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - NAME_SLOTS_LOG2)) as usize
}

/// Puts a name into the next free slot.
fn put(slots: &mut [NameSlot], name: NameSlot) {
    let start = first_slot(name.ends, usize::from(name.length));
    let mut places = (start..NAME_SLOTS).chain(0..start);
    let free = places.find(|&place| slots[place].length == 0);
    slots[free.expect("far fewer commands than slots")] = name;
}

impl Table {
    /// The table of all `families`.
    pub fn new(families: &[&'static [Entry]]) -> Self {
        let by_name = vec![NameSlot::default(); NAME_SLOTS].into();
        let mut table =
            Table { commands: Vec::new(), listed_count: 0, by_name, long_names: Vec::new(), rates: None };
        for entry in families.iter().copied().flatten() {
            let name = entry.name.as_bytes();
            assert!(table.by_name(name).is_none(), "the command {} is declared twice", entry.name);
            let id = table.add(entry, None);
            table.add_name(name, id);
        }
        table.listed_count = table.commands.len();
        table
    }

    /// Limits the takes from queues.
    #[must_use]
    pub fn with_rates(self, rates: Rates) -> Self {
        Table { rates: Some(rates), ..self }
    }

    /// What limits the takes from queues.
    #[inline]
    pub fn rates(&self) -> Option<Rates> {
        self.rates
    }

    /// Adds the commands of another protocol. They are shown as subcommands of its name, and cannot be called
    /// by name.
    #[must_use]
    pub fn with_protocol(mut self, protocol: &Entry, entries: impl Iterator<Item = &'static Entry>) -> Self {
        for entry in entries {
            self.add(entry, Some(protocol));
        }
        self
    }

    /// Makes `to` the only name of the command `from`; if `to` is empty, the command can no longer be called.
    /// The name in users' rules, statistics and descriptions stays. The error is worded as in Redis.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), &'static str> {
        let id = self.by_name(from).ok_or("No such command in rename-command")?.id;
        if self.by_name(to).is_some_and(|command| command.id != id) {
            return Err("Target command name already exists");
        }
        let mut slots = self.by_name.to_vec();
        self.by_name.fill(NameSlot::default());
        slots.retain(|slot| slot.length > 0 && slot.id != id.0);
        slots.into_iter().for_each(|slot| put(&mut self.by_name, slot));
        self.long_names.retain(|(_, known)| *known != id);
        if !to.is_empty() {
            self.add_name(to, id);
        }
        self.commands[usize::from(id.0)].is_disabled = to.is_empty();
        for index in self.commands[usize::from(id.0)].subcommands.clone() {
            self.commands[usize::from(index.0)].is_disabled = to.is_empty();
        }
        Ok(())
    }

    /// Lets a command be called by a name.
    fn add_name(&mut self, name: &[u8], id: CommandId) {
        if name.len() <= SLOT_NAME_BYTES_MAX {
            put(&mut self.by_name, NameSlot { ends: ends(name), length: name.len() as u8, id: id.0 });
        } else {
            self.long_names.push((name.into(), id));
        }
    }

    fn add(&mut self, entry: &'static Entry, container: Option<&Entry>) -> CommandId {
        let name = entry.name;
        assert!(!name.is_empty() && !name.bytes().any(|byte| byte.is_ascii_uppercase()), "the name {name:?}");
        assert!(entry.arity != 0, "{name}: its name is an argument");
        assert!(!(entry.has(Flag::Write) && entry.has(Flag::ReadOnly)), "{name} writes or only reads");
        let is_variable = entry.keys.iter().any(|spec| spec.flags.contains(&KeyFlag::VariableFlags));
        assert_eq!(entry.key_flags.is_some(), is_variable, "{name}: what its options make of its keys");
        let number = u16::try_from(self.commands.len()).expect("there are some hundreds of commands");
        let id = CommandId(number);
        let full_name = match container {
            Some(container) => format!("{}|{}", container.name, entry.name),
            None => entry.name.to_owned(),
        };
        self.commands.push(Command {
            id,
            entry,
            full_name,
            flags: entry::derived_flags(entry),
            acl: entry::derived_acl(entry),
            only_key: entry::only_key(entry),
            key_run: entry::key_run(entry),
            is_disabled: false,
            subcommands: Vec::new(),
        });
        let subcommands = entry.subcommands.iter().map(|sub| self.add(sub, Some(entry))).collect();
        self.commands[usize::from(id.0)].subcommands = subcommands;
        id
    }

    /// A command by its number.
    #[inline]
    pub fn get(&self, id: CommandId) -> &Command {
        &self.commands[usize::from(id.0)]
    }

    /// The number of commands, with subcommands.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Every command and subcommand.
    pub fn all(&self) -> &[Command] {
        &self.commands[..self.listed_count]
    }

    /// Every command and subcommand, and then those of another protocol.
    pub fn all_with_protocol(&self) -> &[Command] {
        &self.commands
    }

    /// The command of another protocol at this index, in the order in which they were added.
    #[inline]
    pub fn of_protocol(&self, index: usize) -> &Command {
        &self.commands[self.listed_count + index]
    }

    /// Whether a command is one of another protocol.
    pub fn is_of_protocol(&self, id: CommandId) -> bool {
        usize::from(id.0) >= self.listed_count
    }

    /// The commands, without subcommands, that can be called.
    pub fn callable(&self) -> impl Iterator<Item = &Command> {
        self.top_level().filter(|command| !command.is_disabled)
    }

    /// The commands that are not subcommands.
    pub fn top_level(&self) -> impl Iterator<Item = &Command> {
        self.all().iter().filter(|command| !command.is_subcommand())
    }

    /// The subcommands of a container.
    pub fn subcommands(&self, command: &Command) -> impl Iterator<Item = &Command> {
        command.subcommands.iter().map(|id| self.get(*id))
    }

    /// The command with this name, in any case.
    #[inline]
    pub fn by_name(&self, name: &[u8]) -> Option<&Command> {
        let (ends, length) = (ends(name), name.len());
        let mut index = first_slot(ends, length);
        loop {
            let slot = &self.by_name[index];
            if slot.length == 0 {
                return self.by_long_name(name);
            }
            if slot.ends == ends && usize::from(slot.length) == length {
                return Some(self.get(CommandId(slot.id)));
            }
            index = (index + 1) % NAME_SLOTS;
        }
    }

    #[cold]
    fn by_long_name(&self, name: &[u8]) -> Option<&Command> {
        let (_, id) = self.long_names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(self.get(*id))
    }

    /// The command that is declared with this name, in any case; it may have been renamed.
    pub fn declared(&self, name: &[u8]) -> Option<&Command> {
        self.top_level().find(|command| command.entry.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The command or subcommand that is declared with this full name.
    pub fn declared_full(&self, name: &[u8]) -> Option<&Command> {
        match name.iter().position(|&byte| byte == b'|') {
            None => self.declared(name),
            Some(bar) => self.subcommand(self.declared(&name[..bar])?, &name[bar + 1..]),
        }
    }

    /// A subcommand by name in any case.
    pub fn subcommand(&self, container: &Command, name: &[u8]) -> Option<&Command> {
        self.subcommands(container).find(|sub| sub.entry.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// A command by its full name (`config|get`, or as COMMAND INFO takes it).
    pub fn by_full_name(&self, name: &[u8]) -> Option<&Command> {
        match name.iter().position(|&byte| byte == b'|') {
            None => self.by_name(name),
            Some(bar) => self.subcommand(self.by_name(&name[..bar])?, &name[bar + 1..]),
        }
    }

    /// The command or subcommand that `args` name.
    #[inline]
    pub fn named(&self, args: &[&[u8]]) -> Result<&Command, CommandError> {
        let name = args.first().copied().unwrap_or_default();
        let command = self.by_name(name).ok_or_else(|| unknown_command(args))?;
        if command.subcommands.is_empty() || args.len() < 2 {
            return Ok(command);
        }
        self.subcommand(command, args[1]).ok_or_else(|| unknown_subcommand(args))
    }

    /// The command that `args` call, its arity checked.
    #[inline]
    pub fn resolve(&self, args: &[&[u8]]) -> Result<&Command, CommandError> {
        let command = self.named(args)?;
        if !command.entry.takes(args.len()) || matches!(command.entry.run, Run::Container) {
            return Err(CommandError::wrong_arity(&command.full_name));
        }
        Ok(command)
    }
}

impl Command {
    /// The declared name of the command, or of its container if it is a subcommand.
    pub fn top_name(&self) -> &str {
        self.full_name.split('|').next().unwrap_or_default()
    }

    /// Arguments of this command with secrets replaced, for everyone but its client.
    pub fn without_secrets<'a>(&self, args: &[&'a [u8]]) -> ArgSlices<'a> {
        self.entry.secrets.hidden(args)
    }

    /// Whether it has this property, given or derived.
    #[inline]
    pub fn has(&self, flag: Flag) -> bool {
        self.flags & flag.bit() != 0
    }

    /// The keys among `args`; `None` if the arguments contradict the key specs.
    pub fn keys(&self, args: &[&[u8]]) -> Option<SmallVec<[KeyRef; 8]>> {
        let mut found = SmallVec::new();
        for spec in self.entry.keys {
            if !spec.is_key() {
                continue;
            }
            if !spec.find(args, &mut found) {
                return None;
            }
        }
        if self.lists_keys(found.len()) {
            found.remove(0);
        }
        found.extend(self.sort_target(args).map(|index| KeyRef { index, write: true }));
        Some(found)
    }

    /// Whether its keys are listed after a word; `found_count` includes the empty one in their usual place.
    pub(crate) fn lists_keys(&self, found_count: usize) -> bool {
        found_count > 1 && self.entry.is_under(Rule::MayListKeys)
    }

    /// The index of the target of `SORT`, which its key spec does not find. If there are several, the last one counts.
    pub fn sort_target(&self, args: &[&[u8]]) -> Option<usize> {
        if self.entry.route != Route::Sort || !self.is_write() {
            return None;
        }
        let (mut target, mut at) = (None, 2);
        while let Some(word) = args.get(at) {
            let is = |name| keyword_is(word, name);
            let is_store = is("STORE") && at + 1 < args.len();
            if is_store {
                target = Some(at + 1);
            }
            // The value of an option is not an option itself.
            at += match () {
                () if is("LIMIT") => 3,
                () if is_store || is("BY") || is("GET") => 2,
                () => 1,
            };
        }
        target
    }

    /// The index of its only key in this call.
    #[inline]
    pub fn lone_key(&self, args: &[&[u8]]) -> Option<usize> {
        let alone = |(first, last): (usize, i32)| {
            (last < 0 && args.len() == first + last.unsigned_abs() as usize).then_some(first)
        };
        self.only_key.or_else(|| self.key_run.and_then(alone)).filter(|index| *index < args.len())
    }

    /// Whether it belongs to a container.
    pub fn is_subcommand(&self) -> bool {
        self.full_name.contains('|')
    }

    /// Whether it changes data.
    #[inline]
    pub fn is_write(&self) -> bool {
        self.has(Flag::Write)
    }

    /// Whether this call may change data.
    pub fn writes(&self, args: &[&[u8]]) -> bool {
        let shows =
            self.entry.is_under(Rule::ShowsAlone) && args.len() == self.entry.arity.unsigned_abs() as usize;
        self.is_write() && !shows
    }
}

#[cold]
fn unknown_command(args: &[&[u8]]) -> CommandError {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(shown(args.first().copied().unwrap_or_default(), QUOTED_BYTES_MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in args.iter().skip(1) {
        let Some(room @ 1..) = QUOTED_BYTES_MAX.checked_sub(text.len() - start) else { break };
        text.push(b'\'');
        text.extend_from_slice(shown(arg, room));
        text.extend_from_slice(b"' ");
    }
    CommandError::new(text)
}

#[cold]
fn unknown_subcommand(args: &[&[u8]]) -> CommandError {
    about_subcommand("ERR unknown subcommand '", args)
}

/// The error for a subcommand in `args` that does not exist, or that does not take these arguments.
pub fn subcommand_error(args: &[&[u8]]) -> CommandError {
    about_subcommand("ERR unknown subcommand or wrong number of arguments for '", args)
}

/// The error `what` for the subcommand in `args`, with a hint to HELP.
fn about_subcommand(what: &str, args: &[&[u8]]) -> CommandError {
    let container = String::from_utf8_lossy(args[0]).to_uppercase();
    CommandError::quoting(what, shown(args[1], QUOTED_BYTES_MAX), &format!("'. Try {container} HELP."))
}

impl Mode {
    /// Whether the command may run on a thread other than its client's.
    pub fn may_travel(self) -> bool {
        self != Mode::Session
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 9] = [
        "a",
        "ab",
        "get",
        "incr",
        "lpush",
        "restore",
        "zrangebyscore",
        "zrevrangebyscore",
        "georadiusbymember",
    ];

    const fn entry(name: &'static str) -> Entry {
        Entry { name, arity: 1, ..Entry::DEFAULT }
    }

    static ENTRIES: [Entry; 9] = {
        let mut entries = [entry(""); NAMES.len()];
        let mut index = 0;
        while index < NAMES.len() {
            entries[index] = entry(NAMES[index]);
            index += 1;
        }
        entries
    };

    fn found<'t>(table: &'t Table, name: &str) -> Option<&'t str> {
        table.by_name(name.as_bytes()).map(|command| &*command.full_name)
    }

    #[test]
    fn only_capital_letters_become_small() {
        for byte in 0..=u8::MAX {
            let word = u64::from_le_bytes([0xFF, byte, 0, b'Z', byte, byte, b'A', byte]);
            assert_eq!(to_lower_case(word).to_le_bytes().to_vec(), word.to_le_bytes().to_ascii_lowercase());
        }
    }

    #[test]
    fn a_name_is_found_in_any_case_and_nothing_that_is_like_it() {
        let table = Table::new(&[&ENTRIES]);
        for name in NAMES {
            assert_eq!(found(&table, name), Some(name));
            assert_eq!(found(&table, &name.to_uppercase()), Some(name));
            for index in 0..name.len() {
                let mut like = name.as_bytes().to_vec();
                for other in [like[index] ^ 0x80, like[index] & 0x1f, b'*'] {
                    like[index] = other;
                    assert!(table.by_name(&like).is_none(), "{like:?}");
                }
            }
            for like in [format!("{name}\0"), format!("{name}{name}"), name[1..].to_owned()] {
                assert!(NAMES.contains(&&*like) || found(&table, &like).is_none(), "{like:?}");
            }
        }
    }

    #[test]
    fn a_renamed_command_has_its_new_name_only() {
        let mut table = Table::new(&[&ENTRIES]);
        let new_names = ["b", "Exactly16bytes.x", "17 bytes, or more", "[get]", "get"];
        for (old, new) in ["get"].iter().chain(&new_names).zip(&new_names) {
            assert_eq!(table.rename(old.as_bytes(), new.as_bytes()), Ok(()));
            assert_eq!((found(&table, old), found(&table, &new.to_uppercase())), (None, Some("get")));
        }
        assert_eq!(table.rename(b"get", b"{GET}"), Ok(()));
        assert_eq!(found(&table, "[get]"), None);
        assert_eq!(table.rename(b"incr", b"GeoRadiusByMember"), Err("Target command name already exists"));
        assert_eq!(table.rename(b"incr", b"LPUSH"), Err("Target command name already exists"));
        assert_eq!(table.rename(b"incr", b"INCR"), Ok(()));
        assert_eq!(table.rename(b"incr", b""), Ok(()));
        assert_eq!(table.rename(b"incr", b"x"), Err("No such command in rename-command"));
        assert_eq!(found(&table, ""), None);
    }
}
