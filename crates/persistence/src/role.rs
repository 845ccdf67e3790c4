//! Classifies the commands of an append-only file or a journal for loading.

use engine::{Command, CommandId, Entry, Route, Rule, Table};

/// The role of a command in a stream that is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It changes data, and runs.
    Data,
    /// Its argument is the database of the commands after it.
    Select,
    /// It begins a transaction.
    Begin,
    /// It ends the transaction.
    End,
    /// It changes the libraries of functions.
    Libraries,
    /// It leaves no state behind, and is skipped.
    Nothing,
    /// It cannot be run, for this reason.
    Refused(&'static str),
}

/// The role of each command of a table, by its number.
#[derive(Clone, Copy)]
pub(crate) struct Roles<'a>(pub(crate) &'a [Role]);

impl Roles<'_> {
    pub(crate) fn of(self, id: CommandId) -> Role {
        self.0[usize::from(id.0)]
    }
}

/// The roles of all commands of `table`, by their numbers. The entries in `of_data` change data.
/// `changes_libraries` tells by its full name whether a command changes libraries of functions.
pub fn roles(table: &Table, of_data: &[&[Entry]], changes_libraries: impl Fn(&str) -> bool) -> Vec<Role> {
    table.all().iter().map(|command| role_of(command, of_data, &changes_libraries)).collect()
}

fn role_of(command: &Command, of_data: &[&[Entry]], changes_libraries: impl Fn(&str) -> bool) -> Role {
    let (name, entry) = (command.full_name.as_str(), command.entry);
    let container = name.split('|').next();
    let is_of_data = || of_data.iter().copied().flatten().any(|entry| Some(entry.name) == container);
    if entry.is_under(Rule::SelectsDb) {
        Role::Select
    } else if entry.is_under(Rule::BeginsMulti) {
        Role::Begin
    } else if entry.route == Route::Queued {
        Role::End
    } else if entry.is_under(Rule::LeavesNothing) {
        Role::Nothing
    } else if matches!(entry.route, Route::Script(_)) {
        Role::Refused(
            "it has scripts instead of their effects, as Redis 6 and earlier may write; BGREWRITEAOF there makes a file without them",
        )
    } else if changes_libraries(name) {
        Role::Libraries
    } else if is_of_data() {
        Role::Data
    } else {
        Role::Refused("it is not a command that changes data")
    }
}
