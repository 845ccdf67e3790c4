//! One set of permissions: commands, keys, channels and databases.

use engine::{Acl, Command, CommandId, Table, keyword_is};

use crate::rule_error::RuleError;
use crate::user::has_spaces;

/// The longest rule.
const RULE_BYTES_MAX: usize = 64 * 1024;

/// A set of permissions. A command runs if one selector of its user allows all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selector {
    /// All keys are allowed.
    pub(super) all_keys: bool,
    /// All channels are allowed.
    pub(super) all_channels: bool,
    /// All commands are allowed.
    pub(super) all_commands: bool,
    /// The rules about commands start from all commands (`+@all`), not from none.
    pub(super) begins_with_all: bool,
    /// One bit for each command of the table.
    commands: Vec<u64>,
    /// Commands that are allowed only with this first argument.
    first_args: Vec<(CommandId, Box<[u8]>)>,
    /// The rules from which `commands` and `first_args` result, without those that later rules made superfluous:
    /// whether the rule allows, and its object in lower case.
    pub(super) rules: Vec<(bool, Vec<u8>)>,
    pub(super) keys: Vec<KeyPattern>,
    pub(super) channels: Vec<Box<[u8]>>,
    /// The databases that are allowed, in ascending order. `None`: all.
    pub(super) databases: Option<Vec<u32>>,
}

/// A pattern of keys, and what the user may do with them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeyPattern {
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) pattern: Box<[u8]>,
}

impl Selector {
    /// A selector that allows nothing but all databases, and channels if that is the default.
    pub(super) fn new(table: &Table, all_channels: bool) -> Self {
        Selector {
            all_keys: false,
            all_channels,
            all_commands: false,
            begins_with_all: false,
            commands: vec![0; table.len().div_ceil(u64::BITS as usize)],
            first_args: Vec::new(),
            rules: Vec::new(),
            keys: Vec::new(),
            channels: Vec::new(),
            databases: None,
        }
    }

    /// Whether it allows everything.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels && self.databases.is_none()
    }

    /// The number of its parts, for the limit on a user's rules.
    pub(super) fn part_count(&self) -> usize {
        let database_count = self.databases.as_ref().map_or(0, Vec::len);
        1 + self.first_args.len() + self.rules.len() + self.keys.len() + self.channels.len() + database_count
    }

    /// Whether it allows the command, whatever keys and channels the call names.
    pub(super) fn allows_command(&self, command: &Command, args: &[&[u8]]) -> bool {
        let (word, bit) = place(command.id);
        self.all_commands || self.commands[word] & bit != 0 || {
            let index = if command.is_subcommand() { 2 } else { 1 };
            args.get(index).is_some_and(|arg| {
                self.first_args.iter().any(|(id, first)| *id == command.id && first.eq_ignore_ascii_case(arg))
            })
        }
    }

    /// Applies one rule.
    pub(super) fn apply(&mut self, table: &Table, rule: &[u8]) -> Result<(), RuleError> {
        if rule.len() > RULE_BYTES_MAX {
            return Err(RuleError::TooMuch);
        }
        match rule {
            _ if keyword_is(rule, "allkeys") || rule == b"~*" => self.set_all_keys(true),
            _ if keyword_is(rule, "resetkeys") => self.set_all_keys(false),
            _ if keyword_is(rule, "allchannels") || rule == b"&*" => self.set_all_channels(true),
            _ if keyword_is(rule, "resetchannels") => self.set_all_channels(false),
            _ if keyword_is(rule, "allcommands") || keyword_is(rule, "+@all") => self.set_all_commands(true),
            _ if keyword_is(rule, "nocommands") || keyword_is(rule, "-@all") => self.set_all_commands(false),
            _ if keyword_is(rule, "alldbs") => self.databases = None,
            _ if keyword_is(rule, "resetdbs") => self.databases = Some(Vec::new()),
            [b'd' | b'D', b'b' | b'B', b'=', list @ ..] => self.databases = Some(parse_databases(list)?),
            [b'~' | b'%', ..] if self.all_keys => return Err(RuleError::AllKeys),
            [b'~', pattern @ ..] => return self.add_keys(true, true, pattern),
            [b'%', rest @ ..] => return self.add_keys_for(rest),
            [b'&', ..] if self.all_channels => return Err(RuleError::AllChannels),
            [b'&', pattern @ ..] => return self.add_channels(pattern),
            [sign @ (b'+' | b'-'), category @ ..] if category.starts_with(b"@") => {
                return self.set_category(table, category, *sign == b'+');
            }
            [b'+', name @ ..] => return self.allow(table, name),
            [b'-', name @ ..] => {
                self.set_command(table, table.declared_full(name).ok_or(RuleError::Unknown)?, false);
            }
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn set_all_keys(&mut self, allowed: bool) {
        self.all_keys = allowed;
        self.keys.clear();
    }

    pub(super) fn set_all_channels(&mut self, allowed: bool) {
        self.all_channels = allowed;
        self.channels.clear();
    }

    fn set_all_commands(&mut self, allowed: bool) {
        self.all_commands = allowed;
        self.begins_with_all = allowed;
        self.commands.fill(if allowed { u64::MAX } else { 0 });
        self.first_args.clear();
        self.rules.clear();
    }

    /// `R~pattern`, `W~pattern`, `RW~pattern`.
    fn add_keys_for(&mut self, rest: &[u8]) -> Result<(), RuleError> {
        let tilde = rest.iter().position(|&byte| byte == b'~').ok_or(RuleError::Syntax)?;
        let (reads, writes) = match rest[..tilde].to_ascii_uppercase().as_slice() {
            b"R" => (true, false),
            b"W" => (false, true),
            b"RW" | b"WR" => (true, true),
            _ => return Err(RuleError::Syntax),
        };
        self.add_keys(reads, writes, &rest[tilde + 1..])
    }

    fn add_keys(&mut self, reads: bool, writes: bool, pattern: &[u8]) -> Result<(), RuleError> {
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| *known.pattern == *pattern) {
            Some(known) => {
                known.reads |= reads;
                known.writes |= writes;
            }
            None => self.keys.push(KeyPattern { reads, writes, pattern: pattern.into() }),
        }
        // The pattern `*` for reading and writing is shown, and read again, as all keys.
        if self.keys.iter().any(|keys| keys.reads && keys.writes && *keys.pattern == *b"*") {
            self.set_all_keys(true);
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if has_spaces(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| **known == *pattern) {
            self.channels.push(pattern.into());
        }
        Ok(())
    }

    /// Allows a command, a subcommand, or a command with this first argument.
    fn allow(&mut self, table: &Table, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
            self.set_command(table, table.declared(name).ok_or(RuleError::Unknown)?, true);
            return Ok(());
        };
        let (command, rest) =
            (table.declared_full(&name[..bar]).ok_or(RuleError::Unknown)?, &name[bar + 1..]);
        if command.is_subcommand() {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if rest.is_empty() || has_spaces(rest) {
            return Err(RuleError::Syntax);
        }
        if !command.entry.subcommands.is_empty() {
            let subcommand = table.subcommand(command, rest).ok_or(RuleError::Unknown)?;
            self.set_command(table, subcommand, true);
        } else {
            self.first_args.retain(|(id, known)| *id != command.id || !known.eq_ignore_ascii_case(rest));
            self.first_args.push((command.id, rest.to_ascii_lowercase().into()));
            self.note_rule(name, true);
        }
        Ok(())
    }

    fn set_command(&mut self, table: &Table, command: &Command, allowed: bool) {
        self.set_bits(table, command, allowed);
        self.note_rule(command.full_name.as_bytes(), allowed);
    }

    /// Allows or denies a category; `category` includes the `@`.
    fn set_category(&mut self, table: &Table, category: &[u8], allowed: bool) -> Result<(), RuleError> {
        let found = Acl::parse(&category[1..]).ok_or(RuleError::Unknown)?;
        self.note_rule(category, allowed);
        for command in table.all_with_protocol().iter().filter(|command| command.acl & found.bit() != 0) {
            self.set_bits(table, command, allowed);
        }
        Ok(())
    }

    /// Sets the bits of a command and its subcommands.
    fn set_bits(&mut self, table: &Table, command: &Command, allowed: bool) {
        self.first_args.retain(|(id, _)| *id != command.id);
        for id in table.subcommands(command).map(|sub| sub.id).chain([command.id]) {
            let (word, bit) = place(id);
            if allowed {
                self.commands[word] |= bit;
            } else {
                self.commands[word] &= !bit;
            }
        }
        self.all_commands = self.commands.iter().all(|word| *word == u64::MAX);
    }

    /// Appends a rule, and removes those that it makes superfluous: rules about the same object or a part of it.
    fn note_rule(&mut self, what: &[u8], allowed: bool) {
        let what = what.to_ascii_lowercase();
        self.rules.retain(|(_, known)| match known.strip_prefix(what.as_slice()) {
            Some(rest) => !rest.is_empty() && rest[0] != b'|',
            None => true,
        });
        self.rules.push((allowed, what));
    }
}

/// The numbers of a rule `db=`, in ascending order.
fn parse_databases(list: &[u8]) -> Result<Vec<u32>, RuleError> {
    let parse = |number: &[u8]| {
        let number = ds::num::parse_i64(number).ok_or(RuleError::Syntax)?;
        i32::try_from(number).ok().and_then(|db| u32::try_from(db).ok()).ok_or(RuleError::DbOutOfRange)
    };
    let mut databases = list.split(|&byte| byte == b',').map(parse).collect::<Result<Vec<u32>, _>>()?;
    databases.sort_unstable();
    databases.dedup();
    Ok(databases)
}

fn place(id: CommandId) -> (usize, u64) {
    let id = usize::from(id.0);
    (id / u64::BITS as usize, 1 << (id % u64::BITS as usize))
}
