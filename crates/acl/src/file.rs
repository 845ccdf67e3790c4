//! The ACL file: one user on each line, `user <name> <rules>`.
//!
//! It is accepted as a whole or not at all. All wrong lines are reported.

use crate::rule_error::RuleError;
use crate::user::{Grammar, User, has_spaces, merge_selectors};

/// Reads an ACL file. `name` is its name in errors. The error is one line about everything that is wrong.
pub fn parse_file(grammar: Grammar, name: &str, text: &[u8]) -> Result<Vec<User>, Vec<u8>> {
    let (mut users, mut errors) = (Vec::new(), Vec::new());
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if !line.is_empty()
            && let Err(error) = parse_line(grammar, name, index + 1, line, &mut users)
        {
            errors.extend(error);
        }
    }
    if errors.is_empty() {
        return Ok(users);
    }
    errors.extend_from_slice(
        b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
    );
    Err(errors)
}

/// Adds the user of a line. An invalid user is added too, so that a second one of its name is noticed.
fn parse_line(
    grammar: Grammar,
    file: &str,
    number: usize,
    line: &[u8],
    users: &mut Vec<User>,
) -> Result<(), Vec<u8>> {
    let place = format!("{file}:{number}");
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [b"user", name, ref rules @ ..] = words[..] else {
        let error = format!("{place} should start with user keyword followed by the username. ");
        return Err(error.into_bytes());
    };
    if has_spaces(name) {
        let before = format!("'{place}: username '");
        return Err([before.as_bytes(), name, b"' contains invalid characters. "].concat());
    }
    if users.iter().any(|known| *known.name == *name) {
        let after = format!("' found on line {number}. ");
        return Err([b"WARNING: Duplicate user '", name, after.as_bytes()].concat());
    }
    let rules = merge_selectors(rules)
        .map_err(|_| format!("{place}: Unmatched parenthesis in selector definition.").into_bytes())?;
    let mut user = User::new(name, grammar);
    let (mut errors, mut has_other_error) = (Vec::new(), false);
    for rule in &rules {
        let rule = rule.trim_ascii();
        match user.apply(grammar, rule) {
            Ok(()) => {}
            // An unknown rule contains no secret, so the error may show it.
            Err(error @ RuleError::Unknown) => {
                let before = format!("{place}: Error in applying operation '");
                errors.extend([before.as_bytes(), rule, format!("': {error}. ").as_bytes()].concat());
            }
            Err(_) if has_other_error => {}
            // Later errors may follow from this one.
            Err(error) => {
                errors.extend(format!("{place}: {error}. ").into_bytes());
                has_other_error = true;
            }
        }
    }
    users.push(user);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
