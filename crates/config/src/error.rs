//! The errors of a configuration. Each is a sentence for the person who wrote it.

use std::io;

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directive is unknown.
    #[error("unknown setting '{name}' {place}{suggestion}")]
    UnknownSetting {
        /// Its name, as [`shown`] quotes it.
        name: String,
        /// Where it is: "in redis.conf, line 7".
        place: String,
        /// The end of the sentence, with a similar name; empty if no name is similar.
        suggestion: String,
    },
    /// A value is invalid.
    #[error("bad value '{value}' for '{name}' {place}: {why} ({doc})")]
    BadValue {
        /// Its name.
        name: &'static str,
        /// The value, as [`shown`] quotes it.
        value: String,
        /// Where it is.
        place: String,
        /// The reason.
        why: String,
        /// The description of the setting.
        doc: &'static str,
    },
    /// A line of the configuration file ends inside quotes.
    #[error("unbalanced quotes {place}")]
    UnbalancedQuotes {
        /// Where it is.
        place: String,
    },
    /// A configuration file includes itself, perhaps through another one.
    #[error("{name} includes itself {place}")]
    CircularInclude {
        /// The file.
        name: String,
        /// Where it is included.
        place: String,
    },
    /// Files include each other too deeply, or there are too many.
    #[error("too many files are included {place}")]
    TooManyIncludes {
        /// Where the last one is included.
        place: String,
    },
    /// The pattern of an `include` is invalid, or a matching file cannot be read.
    #[error("cannot include '{name}' {place}: {why}")]
    BadInclude {
        /// The pattern, as [`shown`] quotes it.
        name: String,
        /// Where it is.
        place: String,
        /// The reason.
        why: String,
    },
    /// A configuration is too long to be one.
    #[error("{name} is too long: a configuration file may have {mib_max} MiB at most")]
    LongConfiguration {
        /// The file.
        name: String,
        /// The limit in MiB, including all included files.
        mib_max: u64,
    },
    /// A directive asks for something that the server does not have.
    #[error("'{name}' {place} is refused: {why}")]
    Refused {
        /// Its name.
        name: &'static str,
        /// Where it is.
        place: String,
        /// The reason, and what to do instead.
        why: &'static str,
    },
    /// A flag of redis-server that runs another program.
    #[error("'{0}' is a mode of redis-server that Darter does not have")]
    NoSuchProgram(String),
    /// Flags for work on a journal's folder that cannot be combined or used like this.
    #[error("{0}")]
    FolderTask(String),
    /// A word that belongs to no flag.
    #[error("unexpected argument '{0}'")]
    StrayArgument(String),
    /// The configuration file comes after a flag.
    #[error(
        "'{path}' is taken for a value of '{name}': the configuration file is the first argument, before all flags"
    )]
    LateFile {
        /// The file, as [`shown`] quotes it.
        path: String,
        /// The directive before it.
        name: String,
    },
    /// A file that cannot be read.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed, and the place that asked for it.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A command cannot be renamed.
    #[error("cannot rename '{name}' {place}: {why}")]
    BadRename {
        /// The command.
        name: String,
        /// The place of the directive.
        place: String,
        /// The reason.
        why: &'static str,
    },
    /// Several lines are invalid.
    #[error("{first}; --test-config names this and {more} more")]
    Several {
        /// The first error.
        first: Box<Error>,
        /// How many more.
        more: usize,
    },
}

/// Why `CONFIG SET` changes nothing.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No such setting.
    #[error("unknown setting '{0}'")]
    Unknown(String),
    /// A setting that does not change, or not to this value.
    #[error("'{name}': {why}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// Why not, in Redis' words.
        why: String,
    },
}

/// The most letters of a quoted word that an error shows.
const SHOWN_LETTERS_MAX: usize = 64;

/// A word from outside as an error quotes it: on one line, and not too long.
pub fn shown(word: &str) -> String {
    let mut shown = String::new();
    for (index, letter) in word.chars().enumerate() {
        match letter {
            _ if index == SHOWN_LETTERS_MAX => {
                shown.push('…');
                break;
            }
            _ if letter.is_control() => shown.extend(letter.escape_debug()),
            _ => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_stay_on_one_line() {
        for (word, expected) in [("", ""), ("päß 'x'", "päß 'x'"), ("a\nb\0\u{1b}[2J", "a\\nb\\0\\u{1b}[2J")]
        {
            assert_eq!(shown(word), expected);
        }
        assert_eq!(shown(&"x".repeat(65)), "x".repeat(64) + "…");
    }
}
