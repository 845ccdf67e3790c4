//! A user: whether and how it may authenticate, and its selectors.

use std::borrow::Cow;

use command::{CommandError, Table, keyword_is};

use crate::password::PasswordHash;
use crate::rule_error::RuleError;
use crate::selector::Selector;

/// Selectors, patterns, passwords and rules about commands that one user may have together.
const PARTS_MAX: usize = 10_000;

/// What rules are understood by.
#[derive(Clone, Copy, Debug)]
pub struct Grammar<'t> {
    /// The commands that rules may name.
    pub table: &'t Table,
    /// Users may use all channels unless told otherwise (`acl-pubsub-default`).
    pub all_channels: bool,
}

/// A user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// Its name.
    pub name: Box<[u8]>,
    /// Somebody may authenticate as this user.
    pub is_on: bool,
    /// Any password is right.
    pub takes_any_password: bool,
    /// Payloads of `RESTORE` need not be looked at closely: kept and shown, and without effect.
    pub(super) skips_sanitizing: bool,
    /// Any of them is right.
    pub passwords: Vec<PasswordHash>,
    /// The first one, which is always there, has what the rules outside parentheses say.
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

    /// The user of clients that have not authenticated, who may do everything unless told otherwise; with a password, or
    /// without.
    pub fn default_user(grammar: Grammar, password: Option<&[u8]>) -> User {
        let mut user = User::new(b"default", grammar);
        for rule in [&b"+@all"[..], b"~*", b"&*", b"on"] {
            user.apply(grammar, rule).expect("these are rules");
        }
        user.set_password(password);
        user
    }

    /// Leaves this password only, or none and lets any be right.
    pub fn set_password(&mut self, password: Option<&[u8]>) {
        self.passwords = password.map(PasswordHash::of).into_iter().collect();
        self.takes_any_password = password.is_none();
    }

    /// The same user after these rules, each an argument; all of them are applied, or none.
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

    /// Applies one rule; after an error the user is good for nothing but further errors.
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

    /// Whether somebody who knows the password of this hash may authenticate as this user.
    pub fn admits(&self, hash: &PasswordHash) -> bool {
        // All of them are compared, whichever it is.
        let is_known = self.passwords.iter().fold(false, |found, known| found | known.matches(hash));
        self.is_on && (self.takes_any_password || is_known)
    }

    /// Whether nobody has to authenticate as this user.
    pub fn is_open(&self) -> bool {
        self.is_on && self.takes_any_password
    }

    /// Whether its commands need not be looked at.
    pub fn is_unrestricted(&self) -> bool {
        self.selectors.iter().any(Selector::is_unrestricted)
    }

    /// The first one has what the rules outside parentheses say.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }
}

/// A selector by the rules between its parentheses.
///
/// What they are made of must not be taken for the end of the selector, or for quotes, when the user's description is
/// read again.
fn parse_selector(grammar: Grammar, rules: &[u8]) -> Result<Selector, RuleError> {
    let mut selector = Selector::new(grammar.table, grammar.all_channels);
    // Where quotes do not match there is no rule.
    for rule in resp::split_args(rules).unwrap_or_default() {
        if rule.ends_with(b")") || rule.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
            return Err(RuleError::Syntax);
        }
        selector.apply(grammar.table, &rule)?;
    }
    Ok(selector)
}

/// Puts the selectors among `rules` together that are spread over several; the error is where one begins that does not
/// end.
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

/// Whether there are characters in a name or a pattern that would make it several words, or end it.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}
