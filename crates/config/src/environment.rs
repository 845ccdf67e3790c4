//! Settings from environment variables, the usual way to configure containers.
//!
//! `DARTER_SET_MAXMEMORY_POLICY=noeviction` means `CONFIG SET maxmemory-policy noeviction`: `_` stands for `-`. The
//! value is one word, even with spaces in it, so a password needs no quotes. A directive that is not a setting, such
//! as `user`, has words and quotes as in a file.
//!
//! Variables override files, and the command line overrides variables. The prefix is longer than `DARTER_` because
//! Kubernetes itself sets `DARTER_PORT` and more for a service that is called darter.

use crate::error::Error;
use crate::source::{Directive, words_of};
use crate::table::Table;

/// The prefix of the variables.
pub const ENVIRONMENT_PREFIX: &str = "DARTER_SET_";

/// The directives in environment variables, ordered by name. Variables without the prefix are ignored.
///
/// # Errors
/// If a directive that is not a setting has unbalanced quotes.
pub(crate) fn directives(table: &Table, variables: &[(String, Vec<u8>)]) -> Result<Vec<Directive>, Error> {
    let mut found = Vec::new();
    for (variable, value) in variables {
        let Some(name) = variable.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
        let name = name.to_ascii_lowercase().replace('_', "-");
        let place = format!("in the environment, {variable}");
        let words = if table.others.contains(&name.as_str()) {
            words_of(value).ok_or_else(|| Error::UnbalancedQuotes { place: place.clone() })?
        } else {
            vec![value.clone()]
        };
        found.push(Directive { name, words, place });
    }
    // The system has them in any order.
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{BIND, COUNT, PORT, REQUIREPASS, TABLE};
    use crate::values::Values;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn variables_are_directives() {
        let given = variables(&[
            ("PATH", "/bin"),
            ("DARTER_PORT", "tcp://10.0.0.1:6379"),
            ("DARTER_SET_REQUIREPASS", "a \"b"),
            ("DARTER_SET_PORT", "7000"),
            ("DARTER_SET_BIND", "127.0.0.1 -::1"),
            ("DARTER_SET_USER", "x \"on off\""),
        ]);
        let (mut values, mut others) = (Values::<COUNT>::new(&TABLE), Vec::new());
        let found = values.apply(directives(&TABLE, &given).unwrap(), |other| {
            others.push(other);
            Ok(())
        });
        assert!(found.errors.is_empty(), "{:?}", found.errors);
        assert_eq!(values.number(PORT), 7000);
        assert_eq!((&*values.text(REQUIREPASS), &*values.text(BIND)), ("a \"b", "127.0.0.1 -::1"));
        assert_eq!(others[0].words, [b"x".to_vec(), b"on off".to_vec()]);
    }

    #[test]
    fn errors_name_the_variable() {
        let check = |name: &str, value: &str, expected: &str| {
            let mut values = Values::<COUNT>::new(&TABLE);
            let directives = directives(&TABLE, &variables(&[(name, value)]));
            let error = match directives {
                Ok(directives) => values.apply(directives, |_| Ok(())).errors.remove(0),
                Err(error) => error,
            };
            assert_eq!(error.to_string(), expected);
        };
        check(
            "DARTER_SET_PROT",
            "1",
            "unknown setting 'prot' in the environment, DARTER_SET_PROT; did you mean 'port'?",
        );
        check(
            "DARTER_SET_PORT",
            "x",
            "bad value 'x' for 'port' in the environment, DARTER_SET_PORT: argument couldn't be parsed into an integer \
             (Where to listen)",
        );
        check("DARTER_SET_USER", "\"x", "unbalanced quotes in the environment, DARTER_SET_USER");
    }
}
