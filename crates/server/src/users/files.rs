//! Users in files: lines `user <name> <rules>` of the configuration file, or a file of their own (`aclfile`).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use acl::{RuleError, User, has_spaces, merge_selectors, parse_file};
use command::{CommandError, Table};
use config::replace_file;

use super::Users;
use crate::error::Error;
use crate::settings::{ACLFILE, Settings};
use crate::shared::Shared;

/// Bytes of an ACL file.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A line of the configuration file about a user.
#[derive(Debug)]
pub(crate) struct UserLine {
    /// Where it is.
    pub(crate) place: String,
    /// The name and the rules.
    pub(crate) words: Vec<Vec<u8>>,
}

impl Users {
    /// The users that the configuration declares, or those of the file that it names.
    pub(crate) fn at_start(table: &Table, settings: &Settings, lines: &[UserLine]) -> Result<Users, Error> {
        let users = Users::new(table, settings);
        let path = settings.text(ACLFILE);
        if !path.is_empty() && !lines.is_empty() {
            return Err(Error::UsersTwice);
        }
        let mut seen: Vec<&[u8]> = Vec::new();
        for line in lines {
            let user = declared(table, settings, line, &seen)?;
            seen.push(&line.words[0]);
            if !user.is_on {
                tracing::info!("the user '{}' is disabled", String::from_utf8_lossy(&user.name));
            }
            users.put(user);
        }
        if !path.is_empty() {
            let loaded = read(table, settings, &path)
                .map_err(|errors| Error::Users(String::from_utf8_lossy(&errors).into_owned()))?;
            users.replace(settings.grammar(table), loaded);
        }
        Ok(users)
    }
}

/// The user that a line declares.
fn declared(table: &Table, settings: &Settings, line: &UserLine, seen: &[&[u8]]) -> Result<User, Error> {
    let name = line.words.first().map(Vec::as_slice).unwrap_or_default();
    let bad = |why: String| Error::BadUser {
        name: String::from_utf8_lossy(name).into_owned(),
        place: line.place.clone(),
        why,
    };
    let Some((_, rules)) = line.words.split_first() else { return Err(bad("a name is missing".to_owned())) };
    if has_spaces(name) {
        return Err(bad("names have no spaces".to_owned()));
    }
    if seen.contains(&name) {
        return Err(bad("a user can only be defined once".to_owned()));
    }
    let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
    let shown = |rule: &[u8]| String::from_utf8_lossy(rule).into_owned();
    let merged = merge_selectors(&rules)
        .map_err(|start| bad(format!("unmatched parenthesis at '{}'", shown(rules[start]))))?;
    let grammar = settings.grammar(table);
    let mut user = User::new(name, grammar);
    for rule in &merged {
        user.apply(grammar, rule).map_err(|error| match error {
            RuleError::Unknown => bad(format!("'{}': {error}", shown(rule))),
            // It may be a password.
            error => bad(error.to_string()),
        })?;
    }
    Ok(user)
}

/// The users of the file at `path`; or all that is wrong with it, in one line.
fn read(table: &Table, settings: &Settings, path: &str) -> Result<Vec<User>, Vec<u8>> {
    let mut text = Vec::new();
    let bytes = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text));
    let why = match bytes {
        Ok(bytes) if bytes as u64 <= FILE_BYTES_MAX => {
            return parse_file(settings.grammar(table), path, &text);
        }
        Ok(_) => format!("it is longer than {FILE_BYTES_MAX} bytes"),
        Err(error) => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_owned()
        }
    };
    Err(format!("Error loading ACLs, opening file '{path}': {why}").into_bytes())
}

impl Shared {
    /// The ACL file.
    fn acl_file(&self) -> Result<std::sync::Arc<str>, CommandError> {
        let path = self.settings.text(ACLFILE);
        if path.is_empty() {
            return Err(CommandError::fixed(
                "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the \
                 ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file \
                 set) in order to store users in the Redis configuration.",
            ));
        }
        Ok(path)
    }

    /// `ACL LOAD`: the users become those of the ACL file, or stay as they are.
    pub(crate) fn load_users(&self) -> Result<(), CommandError> {
        let path = self.acl_file()?;
        let users = read(&self.table, &self.settings, &path)
            .map_err(|errors| CommandError::quoting("ERR ", &errors, ""))?;
        self.users.replace(self.settings.grammar(&self.table), users);
        Ok(())
    }

    /// `ACL SAVE`: writes all users to the ACL file, which is replaced as a whole.
    pub(crate) fn save_users(&self) -> Result<(), CommandError> {
        let path = self.acl_file()?;
        let accounts = self.users.accounts();
        let text: Vec<u8> =
            accounts.values().flat_map(|account| [account.user.line(), b"\n".to_vec()].concat()).collect();
        replace_file(Path::new(&*path), &text).map_err(|error| {
            tracing::warn!("ACL SAVE failed: {error}");
            CommandError::fixed(
                "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
            )
        })
    }

    /// The users as the configuration file declares them; none if they have a file of their own, or if there is only the
    /// one that is made of the other settings.
    pub(crate) fn user_lines(&self) -> Vec<Vec<u8>> {
        let made = self.settings.default_user(&self.table);
        let accounts = self.users.accounts();
        let has_file = !self.settings.text(ACLFILE).is_empty();
        let declared =
            accounts.values().map(|account| &account.user).filter(|user| **user != made && !has_file);
        declared.map(User::line).collect()
    }
}
