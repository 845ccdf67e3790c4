//! A user: whether and how it may authenticate, and its selectors.

use std::borrow::Cow;

use engine::{CommandError, Table, keyword_is};

use crate::password::PasswordHash;
use crate::rule_error::RuleError;
use crate::selector::Selector;

/// The most selectors, patterns, passwords and rules about commands that one user may have together.
const PARTS_MAX: usize = 10_000;

/// The table and the default that decide what a rule means.
#[derive(Clone, Copy, Debug)]
pub struct Grammar<'t> {
    /// The commands that rules may name.
    pub table: &'t Table,
    /// New users may use all channels (`acl-pubsub-default`).
    pub all_channels: bool,
}

/// A user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// Its name.
    pub name: Box<[u8]>,
    /// Clients may authenticate as this user.
    pub is_on: bool,
    /// Every password is accepted (`nopass`).
    pub takes_any_password: bool,
    /// The flag `skip-sanitize-payload`: kept and shown, without effect.
    pub(super) skips_sanitizing: bool,
    /// Each of these passwords is accepted.
    pub passwords: Vec<PasswordHash>,
    /// The first selector always exists. It holds the rules outside parentheses.
    selectors: Vec<Selector>,
}

impl User {
    /// A new user, who may do nothing.
    pub fn new(name: &[u8], grammar: Grammar) -> User {
        User {
            name: name.into(),
            is_on: false,
            takes_any_password: false,
            skips_sanitizing: false,
            passwords: Vec::new(),
            selectors: vec![Selector::new(grammar.table, grammar.all_channels)],
        }
    }

    /// The default user, which clients are before they authenticate. It may do everything, and needs `password` if
    /// there is one.
    pub fn default_user(grammar: Grammar, password: Option<&[u8]>) -> User {
        let mut user = User::new(b"default", grammar);
        for rule in [&b"+@all"[..], b"~*", b"&*", b"on"] {
            user.apply(grammar, rule).expect("these are rules");
        }
        user.set_password(password);
        user
    }

    /// Makes this the only password. `None`: every password is accepted.
    pub fn set_password(&mut self, password: Option<&[u8]>) {
        self.passwords = password.map(PasswordHash::of).into_iter().collect();
        self.takes_any_password = password.is_none();
    }

    /// The user after these rules, one for each argument. One invalid rule fails all.
    pub fn changed(&self, grammar: Grammar, rules: &[&[u8]]) -> Result<User, CommandError> {
        let merged = merge_selectors(rules).map_err(|start| {
            let before = "ERR Unmatched parenthesis in acl selector starting at '";
            CommandError::quoting(before, rules[start], "'.")
        })?;
        let mut user = self.clone();
        for rule in &merged {
            user.apply(grammar, rule).map_err(|error| {
                CommandError::quoting("ERR Error in ACL SETUSER modifier '", rule, &format!("': {error}"))
            })?;
        }
        Ok(user)
    }

    /// Applies one rule. After an error the user may only be used to find further errors.
    pub fn apply(&mut self, grammar: Grammar, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            b"" => {}
            _ if keyword_is(rule, "on") => self.is_on = true,
            _ if keyword_is(rule, "off") => self.is_on = false,
            _ if keyword_is(rule, "skip-sanitize-payload") => self.skips_sanitizing = true,
            _ if keyword_is(rule, "sanitize-payload") => self.skips_sanitizing = false,
            _ if keyword_is(rule, "nopass") => self.set_password(None),
            _ if keyword_is(rule, "resetpass") => self.reset_passwords(),
            [b'>', password @ ..] => self.add_password(PasswordHash::of(password)),
            [b'#', hash @ ..] => {
                self.add_password(PasswordHash::parse(hash).ok_or(RuleError::BadHash)?);
            }
            [b'<', password @ ..] => return self.remove_password(&PasswordHash::of(password)),
            [b'!', hash @ ..] => {
                return self.remove_password(&PasswordHash::parse(hash).ok_or(RuleError::BadHash)?);
            }
            [b'(', rules @ .., b')'] => {
                let selector = parse_selector(grammar, rules)?;
                self.selectors.push(selector);
            }
            _ if keyword_is(rule, "clearselectors") => self.selectors.truncate(1),
            _ if keyword_is(rule, "reset") => *self = User::new(&self.name, grammar),
            _ => self.selectors[0].apply(grammar.table, rule)?,
        }
        self.check_size()
    }

    fn check_size(&self) -> Result<(), RuleError> {
        let part_count: usize = self.selectors.iter().map(Selector::part_count).sum();
        if part_count + self.passwords.len() > PARTS_MAX { Err(RuleError::TooMuch) } else { Ok(()) }
    }

    fn reset_passwords(&mut self) {
        self.takes_any_password = false;
        self.passwords.clear();
    }

    fn add_password(&mut self, hash: PasswordHash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.takes_any_password = false;
    }

    fn remove_password(&mut self, hash: &PasswordHash) -> Result<(), RuleError> {
        let index = self.passwords.iter().position(|known| known == hash).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(index);
        Ok(())
    }

    /// Whether clients may authenticate as this user with the password of this hash.
    pub fn admits(&self, hash: &PasswordHash) -> bool {
        // Compare all hashes: the time taken must not reveal which one matches.
        let is_known = self.passwords.iter().fold(false, |found, known| found | known.matches(hash));
        self.is_on && (self.takes_any_password || is_known)
    }

    /// Whether clients act as this user without authentication.
    pub fn is_open(&self) -> bool {
        self.is_on && self.takes_any_password
    }

    /// Whether the user's commands need no check.
    pub fn is_unrestricted(&self) -> bool {
        self.selectors.iter().any(Selector::is_unrestricted)
    }

    /// All selectors. The first one holds the rules outside parentheses.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }
}

/// Parses the rules between the parentheses of a selector.
///
/// Refuses characters that would end the selector or open a quote when the user's description is read again.
fn parse_selector(grammar: Grammar, rules: &[u8]) -> Result<Selector, RuleError> {
    let mut selector = Selector::new(grammar.table, grammar.all_channels);
    // Text with unbalanced quotes has no rules.
    for rule in resp::split_args(rules).unwrap_or_default() {
        if rule.ends_with(b")") || rule.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
            return Err(RuleError::Syntax);
        }
        selector.apply(grammar.table, &rule)?;
    }
    Ok(selector)
}

/// Joins selectors that are spread over several of the `rules`. The error is the index of a rule that opens a selector
/// without an end.
pub fn merge_selectors<'r>(rules: &[&'r [u8]]) -> Result<Vec<Cow<'r, [u8]>>, usize> {
    let mut merged: Vec<Cow<'r, [u8]>> = Vec::with_capacity(rules.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (index, &rule) in rules.iter().enumerate() {
        let is_end = rule.ends_with(b")");
        match open.take() {
            None if rule.starts_with(b"(") && !is_end => open = Some((index, rule.to_vec())),
            None => merged.push(rule.into()),
            Some((start, mut selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(rule);
                if is_end {
                    merged.push(selector.into());
                } else {
                    open = Some((start, selector));
                }
            }
        }
    }
    open.map_or(Ok(merged), |(start, _)| Err(start))
}

/// Whether a name or a pattern contains characters that would split or end it.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}
