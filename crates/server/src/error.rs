//! Why a server does not start. Each is a sentence for whoever started it.

use std::io;

use crate::settings;

/// The server cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// No such directive.
    #[error("unknown setting '{name}' {place}{suggestion}")]
    UnknownSetting { name: String, place: String, suggestion: String },
    /// A directive with a value that it cannot have.
    #[error("bad value '{value}' for '{name}' {place}: {why} ({doc})")]
    BadValue { name: &'static str, value: String, place: String, why: String, doc: &'static str },
    /// A line of the configuration file about a user that cannot be.
    #[error(transparent)]
    BadUser(#[from] acl::BadUser),
    /// Users in the configuration file and in one of their own.
    #[error(
        "users are declared in the configuration and in the file that aclfile names: it must be one of them"
    )]
    UsersTwice,
    /// An ACL file with errors.
    #[error("cannot take the users of aclfile: {0}")]
    Users(String),
    /// A line of the configuration file that ends inside quotes.
    #[error("unbalanced quotes {place}")]
    UnbalancedQuotes { place: String },
    /// A configuration file that includes itself, or one that includes it.
    #[error("{name} is included by itself {place}")]
    CircularInclude { name: String, place: String },
    /// Files that include each other for ever, or nearly.
    #[error("too many files are included {place}")]
    TooManyIncludes { place: String },
    /// A pattern that is none, or a file that matches it and cannot be looked at.
    #[error("cannot include '{name}' {place}: {why}")]
    BadInclude { name: String, place: String, why: String },
    /// Something that cannot be meant as a configuration.
    #[error("{name} is too long for a configuration, which has {mib_max} MiB at most")]
    LongConfiguration { name: String, mib_max: u64 },
    /// A directive that promises what is not there.
    #[error("'{name}' {place} is refused: {why}")]
    Refused { name: &'static str, place: String, why: &'static str },
    /// A command that cannot get another name.
    #[error("cannot rename '{name}' {place}: {why}")]
    BadRename { name: String, place: String, why: &'static str },
    /// Several lines of the configuration are wrong.
    #[error("{first}; --test-config names this and {more} more")]
    Several { first: Box<Error>, more: usize },
    /// The configuration was judged, and what is wrong with it was said.
    #[error("the configuration is refused")]
    BadConfiguration,
    /// A flag of redis-server for another program than the server.
    #[error("'{0}' is not something that this program does")]
    NoSuchProgram(String),
    /// A word that belongs to no flag.
    #[error("unexpected argument '{0}'")]
    StrayArgument(String),
    /// Neither port nor socket.
    #[error("configured to listen nowhere: set port or unixsocket")]
    NowhereToListen,
    /// Sockets and drivers.
    #[error(transparent)]
    Network(#[from] proactor::Error),
    /// A snapshot that cannot be loaded.
    #[error("cannot load {name}: {source}")]
    Snapshot { name: String, source: rdb::Error },
    /// An append-only file that cannot be loaded.
    #[error("cannot load {name}: {source}")]
    AppendOnly { name: String, source: aof::Error },
    /// A command in an append-only file that cannot be run.
    #[error("cannot load {name}: the command {command} at offset {offset}: {why}")]
    AppendOnlyCommand { name: String, command: String, offset: u64, why: String },
    /// An append-only file of which a part is not as it should be.
    #[error("cannot load {name}: {why}")]
    AppendOnlyFiles { name: String, why: String },
    /// An append-only file and a snapshot, of which somebody has to say which counts.
    #[error("{0}")]
    Undecided(String),
    /// Files and the rest of the system.
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl Error {
    /// An unknown directive, with the nearest one that there is.
    pub(crate) fn unknown_setting(name: &str, place: &str) -> Error {
        let name = shown(name);
        let bare = name.trim_start_matches('-');
        let word = bare.to_ascii_lowercase().replace('_', "-");
        // Of those that begin with a single letter the first of the table: `-p` means the port.
        let far = |known: &str| match known.starts_with(bare) && bare.len() == 1 {
            true => 0,
            false => strsim::damerau_levenshtein(&word, &known.replace('_', "-")),
        };
        let nearest = settings::all()
            .map(|(id, setting)| (far(setting.name), id, setting.name))
            .filter(|(distance, _, known)| {
                distance * 2 <= known.len().min(bare.len()) || known.starts_with(bare)
            })
            .min();
        // `--threads` is a part of a name rather than nearly one.
        let has_word = |known: &str| known.split(['-', '_']).any(|part| part == word);
        let part = settings::all().map(|(_, setting)| setting.name).find(|name| has_word(name));
        let suggested = part.or(nearest.map(|(.., known)| known));
        let dashes = &name[..name.len() - bare.len()];
        let dashes = if dashes.is_empty() { "" } else { "--" };
        let suggestion =
            suggested.map(|known| format!("; did you mean '{dashes}{known}'?")).unwrap_or_default();
        Error::UnknownSetting { name: name.clone(), place: place.to_owned(), suggestion }
    }
}

/// Quoted words in errors have so many letters.
const SHOWN_LETTERS_MAX: usize = 64;

/// A word from outside as an error quotes it: on one line, and not too long.
pub(crate) fn shown(word: &str) -> String {
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

    #[test]
    fn names_are_suggested() {
        for (name, expected) in [
            ("prot", "'prot' here; did you mean 'port'?"),
            ("threads", "'threads' here; did you mean 'proactor_threads'?"),
            ("--maxclient", "'--maxclient' here; did you mean '--maxclients'?"),
            ("xyzzy-plugh", "'xyzzy-plugh' here"),
        ] {
            assert_eq!(
                Error::unknown_setting(name, "here").to_string(),
                format!("unknown setting {expected}")
            );
        }
    }
}
