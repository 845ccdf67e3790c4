//! The meaning of all directives together.
//!
//! A later line wins over an earlier one, and the command line over files. Whether a promise can be kept is judged by
//! the resulting values. So `daemonize yes` in a file and `--daemonize no` do not contradict each other, and a line
//! that a later one overrides is not a promise.
//!
//! Errors are collected, so that all of them can be reported.

use crate::error::{Error, shown};
use crate::setting::Id;
use crate::source::Directive;
use crate::values::Values;

/// How many errors are kept.
const ERROR_COUNT_MAX: usize = 100;

/// What applying directives has shown, besides the values of settings.
#[derive(Debug)]
pub struct Applied {
    /// The settings that were given, with the place of the last line about each.
    given: Vec<(Id, String)>,
    /// Directives without effect whose value is not the default.
    pub without_effect: Vec<WithoutEffect>,
    /// All errors in the order of the lines, then all refused values.
    pub errors: Vec<Error>,
}

/// A directive without effect whose value is not the default.
#[derive(PartialEq, Eq, Debug)]
pub struct WithoutEffect {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub text: String,
    /// Where it is: "in redis.conf, line 7".
    pub place: String,
}

impl Applied {
    /// Whether the configuration has a line about a setting.
    pub fn is_given(&self, id: Id) -> bool {
        self.given.iter().any(|(given, _)| *given == id)
    }
}

impl<const COUNT: usize> Values<COUNT> {
    /// Applies `directives` in this order. Those that are not settings go to `other`.
    pub fn apply(
        &mut self,
        directives: Vec<Directive>,
        mut other: impl FnMut(Directive) -> Result<(), Error>,
    ) -> Applied {
        let mut found = Applied { given: Vec::new(), without_effect: Vec::new(), errors: Vec::new() };
        for directive in directives {
            let is_other = self.table.others.iter().any(|name| directive.name.eq_ignore_ascii_case(name));
            let applied = match is_other {
                true => other(directive),
                false => self.apply_one(directive, &mut found.given),
            };
            if let Err(error) = applied
                && found.errors.len() < ERROR_COUNT_MAX
            {
                found.errors.push(error);
            }
        }
        for (id, place) in &found.given {
            let (name, text, place) = (self.table.setting(*id).name, self.text(*id), place.clone());
            if let Some(why) = self.table.refusal(*id, &text) {
                found.errors.push(Error::Refused { name, place, why });
            } else if self.table.foreign(*id).is_some_and(|foreign| foreign.is_expected_of(&text)) {
                found.without_effect.push(WithoutEffect { name, text: text.to_string(), place });
            }
        }
        found
    }

    fn apply_one(&self, directive: Directive, given: &mut Vec<(Id, String)>) -> Result<(), Error> {
        let Directive { name, words, place } = directive;
        let Some(id) = self.table.find(&name) else { return Err(self.table.unknown(&name, &place)) };
        let setting = self.table.setting(id);
        let bad = |value: &str, why: String| Error::BadValue {
            name: setting.name,
            value: if setting.is_secret { "(redacted)".to_owned() } else { shown(value) },
            place: place.clone(),
            why,
            doc: setting.doc,
        };
        let mut texts: Vec<&str> = Vec::with_capacity(words.len());
        for word in &words {
            let text = std::str::from_utf8(word).map_err(|_| {
                bad(&String::from_utf8_lossy(word), "argument must be valid UTF-8".to_owned())
            })?;
            texts.push(text);
        }
        let is_first = !given.iter().any(|(known, _)| *known == id);
        let adds = !setting.kind.lines_add_up() || !is_first;
        let texts = setting.kind.words_of_line(&texts);
        let mut known = self.lock();
        let value = setting
            .kind
            .parse(&texts, if adds { &known[id.0] } else { "" })
            .map_err(|why| bad(&texts.join(" "), why))?;
        self.store(&mut known, id, &value);
        given.retain(|(known, _)| *known != id);
        given.push((id, place));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{BIND, COUNT, PIN, PORT, REQUIREPASS, SAVE, TABLE};
    use crate::source::directives;

    type Read = (Values<COUNT>, Applied, Vec<Directive>);

    fn read(lines: &str) -> Read {
        let (mut values, mut others) = (Values::new(&TABLE), Vec::new());
        let directives = directives(&TABLE, lines.as_bytes(), "x").expect(lines);
        let found = values.apply(directives, |other| {
            others.push(other);
            Ok(())
        });
        (values, found, others)
    }

    #[track_caller]
    fn check(lines: &str, without_effect: &[&str], errors: &[&str]) {
        let (_, found, _) = read(lines);
        let told: Vec<&str> = found.without_effect.iter().map(|directive| directive.name).collect();
        assert_eq!(told, without_effect, "{lines}");
        let refused: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        assert_eq!(refused, errors, "{lines}");
    }

    #[test]
    fn later_lines_win_and_some_add_up() {
        let (values, found, others) = read(
            "# comment\n\n  Port 7000\nport 7001\nbind 127.0.0.1 -::1\nrequirepass \"a b\"\nsave 36 1\nsave 60 5\n\
             pin false\nUser x \"on off\"\n",
        );
        assert_eq!((values.number(PORT), values.is_on(PIN)), (7001, false));
        assert_eq!((&*values.text(BIND), &*values.text(REQUIREPASS)), ("127.0.0.1 -::1", "a b"));
        assert_eq!(&*values.text(SAVE), "36 1 60 5");
        assert_eq!((others[0].words[1].as_slice(), &*others[0].place), (&b"on off"[..], "in x, line 10"));
        assert!(found.is_given(PORT) && !found.is_given(crate::example::TIMEOUT));
        assert!(found.errors.is_empty());
    }

    #[test]
    fn only_what_differs_from_the_default_is_told() {
        check("hz 10\nactiverehashing no\nreplicaof no one", &[], &[]);
        check("hz 20\nhz 20", &[], &[]);
        check("hz 10\nhz 30", &["hz"], &[]);
        check("hz 30\nhz 10", &[], &[]);
    }

    #[test]
    fn all_errors_are_told() {
        check(
            "replicaof a 1\nport x\nfoo 1\nappendonly yes\nport 1 2",
            &[],
            &[
                "bad value 'x' for 'port' in x, line 2: argument couldn't be parsed into an integer (Where to listen)",
                "unknown setting 'foo' in x, line 3",
                "bad value '1 2' for 'port' in x, line 5: wrong number of arguments (Where to listen)",
                "'replicaof' in x, line 1 is refused: there is no replication",
                "'appendonly' in x, line 4 is refused: there is no file",
            ],
        );
        check("appendonly yes\nappendonly no", &[], &[]);
    }
}
