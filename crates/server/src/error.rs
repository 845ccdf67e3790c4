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
    #[error("bad user '{name}' {place}: {why}")]
    BadUser { name: String, place: String, why: String },
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
    /// Configuration files that include each other.
    #[error("configuration files include each other too deep {place}")]
    IncludesTooDeep { place: String },
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
        let bare = name.trim_start_matches('-');
        // Of those that begin with a single letter the first of the table: `-p` means the port.
        let far = |known: &str| match known.starts_with(bare) && bare.len() == 1 {
            true => 0,
            false => distance(&bare.to_ascii_lowercase(), known),
        };
        let nearest = settings::all()
            .map(|(id, setting)| (far(setting.name), id, setting.name))
            .filter(|(distance, _, known)| {
                distance * 2 <= known.len().min(bare.len()) || known.starts_with(bare)
            })
            .min();
        let dashes = &name[..name.len() - bare.len()];
        let dashes = if dashes.is_empty() { "" } else { "--" };
        let suggestion =
            nearest.map(|(.., known)| format!("; did you mean '{dashes}{known}'?")).unwrap_or_default();
        Error::UnknownSetting { name: name.to_owned(), place: place.to_owned(), suggestion }
    }
}

/// Levenshtein's distance: how many bytes have to be changed, put in or left out to make `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [("", "abc", 3), ("port", "prot", 2), ("kitten", "sitting", 3), ("x", "x", 0)]
        {
            assert_eq!(distance(a, b), expected);
        }
    }
}
