//! Users in the configuration: reads and writes lines `user <name> <rules>`.

use crate::rule_error::RuleError;
use crate::user::{Grammar, User, has_spaces, merge_selectors};
use crate::users::Users;

/// A line of the configuration about a user.
#[derive(Debug)]
pub struct UserLine {
    /// Where the line is, for errors.
    pub place: String,
    /// The name and the rules.
    pub words: Vec<Vec<u8>>,
}

/// An invalid line about a user.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
#[error("bad user '{name}' {place}: {why}")]
pub struct BadUser {
    name: String,
    place: String,
    why: String,
}

impl UserLine {
    /// The user's name; empty if it is missing.
    pub fn name(&self) -> &[u8] {
        self.words.first().map(Vec::as_slice).unwrap_or_default()
    }

    /// The user that the line declares. `seen`: the names in the lines before.
    fn user(&self, grammar: Grammar, seen: &[&[u8]]) -> Result<User, String> {
        let name = self.name();
        let Some((_, rules)) = self.words.split_first() else { return Err("a name is missing".to_owned()) };
        if has_spaces(name) {
            return Err("names cannot contain spaces".to_owned());
        }
        if seen.contains(&name) {
            return Err("a user can only be defined once".to_owned());
        }
        let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
        let shown = |rule: &[u8]| String::from_utf8_lossy(rule).into_owned();
        let merged = merge_selectors(&rules)
            .map_err(|start| format!("unmatched parenthesis at '{}'", shown(rules[start])))?;
        let mut user = User::new(name, grammar);
        for rule in &merged {
            user.apply(grammar, rule).map_err(|error| match error {
                RuleError::Unknown => format!("'{}': {error}", shown(rule)),
                // It may be a password.
                error => error.to_string(),
            })?;
        }
        Ok(user)
    }
}

/// A name for an error, without what follows a space: that may be rules, with passwords among them.
fn name_in_error(name: &[u8]) -> String {
    let end = name.iter().position(u8::is_ascii_whitespace);
    let shown = String::from_utf8_lossy(&name[..end.unwrap_or(name.len())]);
    if end.is_some() { format!("{shown} …") } else { shown.into_owned() }
}

impl Users {
    /// Adds the users that `lines` declare, up to the first invalid line.
    pub fn declare(&self, grammar: Grammar, lines: &[UserLine]) -> Result<(), BadUser> {
        let mut seen = Vec::new();
        for line in lines {
            let user = line.user(grammar, &seen).map_err(|why| BadUser {
                name: name_in_error(line.name()),
                place: line.place.clone(),
                why,
            })?;
            seen.push(line.name());
            self.put(user);
        }
        Ok(())
    }

    /// The lines that declare these users. The default user is left out if it is as [`Users::new`] creates it.
    pub fn declarations(&self, grammar: Grammar, password: Option<&[u8]>) -> Vec<Vec<u8>> {
        let made = User::default_user(grammar, password);
        let latest = self.latest();
        latest.users().filter(|user| **user != made).map(User::line).collect()
    }
}
