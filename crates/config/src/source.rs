//! Collects directives: from the command line, the environment, standard input, files and the files that those include.
//!
//! All of them are collected before any is parsed, the command line's last: the command line overrides the environment,
//! and the environment overrides files. Text that cannot be split into lines of words is an error at once; `merge.rs`
//! judges the meaning of the words.
//!
//! A line is a directive and its words, quoted as in redis-cli, or a comment, whose bytes may be any. As in Redis,
//! `include` takes patterns: one with `*`, `?` or `[` that no file matches includes nothing.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use glob::MatchOptions;
use resp::split_args;

use crate::error::{Error, shown};
use crate::table::Table;

/// How deeply files may include each other.
const INCLUDE_DEPTH_MAX: usize = 16;
/// The most files of a configuration.
const FILE_COUNT_MAX: usize = 1000;
/// The most bytes of a configuration, including all included files.
const BYTES_MAX: u64 = 16 << 20;
/// The directive that includes files.
const INCLUDE: &str = "include";

/// A directive with its words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directive {
    /// The first word, as written.
    pub name: String,
    /// The words after it.
    pub words: Vec<Vec<u8>>,
    /// The place, for errors: "in redis.conf, line 7".
    pub place: String,
}

/// Reads the directives of a text and of the files that it includes. `name`: the text's name in errors.
///
/// # Errors
/// If something cannot be read, or does not consist of lines of words. Names and values are not checked.
pub fn directives(table: &Table, text: &[u8], name: &str) -> Result<Vec<Directive>, Error> {
    let mut reading = Reading::new(table);
    reading.text(text, name)?;
    Ok(reading.directives)
}

/// Collects the directives of a configuration.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    /// Suggests names in errors about unknown directives.
    table: &'a Table,
    pub(crate) directives: Vec<Directive>,
    bytes: u64,
    file_count: usize,
    /// The files that are being read. Each is included by the one before.
    open: Vec<PathBuf>,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(table: &'a Table) -> Self {
        Reading { table, directives: Vec::new(), bytes: 0, file_count: 0, open: Vec::new() }
    }

    /// Reads a file. `included`: where it is included; empty for the first file.
    pub(crate) fn file(&mut self, path: &Path, included: &str) -> Result<(), Error> {
        let name = path.display().to_string();
        let failed = |source| {
            let place = if included.is_empty() { String::new() } else { format!(", included {included}") };
            Error::Io { what: format!("cannot read {name}{place}"), source }
        };
        // A source without a path of its own, such as a pipe, cannot be included twice.
        let real_path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.open.contains(&real_path) {
            return Err(Error::CircularInclude { name, place: included.to_owned() });
        }
        self.file_count += 1;
        if self.open.len() > INCLUDE_DEPTH_MAX || self.file_count > FILE_COUNT_MAX {
            return Err(Error::TooManyIncludes { place: included.to_owned() });
        }
        let mut text = Vec::new();
        let opened = File::open(path).map_err(failed)?;
        opened.take(BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
        self.open.push(real_path);
        self.text(&text, &name)?;
        self.open.pop();
        Ok(())
    }

    /// Reads standard input.
    pub(crate) fn standard_input(&mut self) -> Result<(), Error> {
        let mut text = Vec::new();
        let read = std::io::stdin().take(BYTES_MAX + 1).read_to_end(&mut text);
        read.map_err(|source| Error::Io { what: "cannot read standard input".to_owned(), source })?;
        self.text(&text, "standard input")
    }

    /// Reads the lines of a text. `name`: its name in errors.
    pub(crate) fn text(&mut self, text: &[u8], name: &str) -> Result<(), Error> {
        self.bytes += text.len() as u64;
        if self.bytes > BYTES_MAX {
            return Err(Error::LongConfiguration { name: name.to_owned(), mib_max: BYTES_MAX >> 20 });
        }
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let place = format!("in {name}, line {}", index + 1);
            let Some(mut words) = words_of(line) else { return Err(Error::UnbalancedQuotes { place }) };
            if words.is_empty() {
                continue;
            }
            let name = String::from_utf8(words.remove(0))
                .map_err(|error| self.table.unknown(&String::from_utf8_lossy(error.as_bytes()), &place))?;
            self.add(Directive { name, words, place })?;
        }
        Ok(())
    }

    /// Adds a directive, or reads the files that it includes.
    pub(crate) fn add(&mut self, directive: Directive) -> Result<(), Error> {
        if !directive.name.eq_ignore_ascii_case(INCLUDE) {
            self.directives.push(directive);
            return Ok(());
        }
        directive.words.iter().try_for_each(|word| self.include(word, &directive.place))
    }

    /// Reads the files that the pattern of an `include` matches.
    fn include(&mut self, word: &[u8], place: &str) -> Result<(), Error> {
        let bad = |why: String| Error::BadInclude {
            name: shown(&String::from_utf8_lossy(word)),
            place: place.to_owned(),
            why,
        };
        let word = std::str::from_utf8(word).map_err(|error| bad(error.to_string()))?;
        if !word.contains(['*', '?', '[']) {
            return self.file(Path::new(word), place);
        }
        let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::new() };
        let found = glob::glob_with(word, options).map_err(|error| bad(error.to_string()))?;
        for path in found {
            self.file(&path.map_err(|error| bad(error.to_string()))?, place)?;
        }
        Ok(())
    }
}

/// Splits a line into words; a comment has none. `None`: its quotes are unbalanced.
pub(crate) fn words_of(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let line = line.trim_ascii();
    if line.starts_with(b"#") {
        return Some(Vec::new());
    }
    split_args(line)
}

#[cfg(test)]
mod tests {
    use scratch::Scratch;

    use super::*;

    fn write(folder: &Scratch, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = folder.folder().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path
    }

    fn read(path: &Path) -> Result<Vec<String>, String> {
        let mut reading = Reading::new(&crate::example::TABLE);
        reading.file(path, "").map_err(|error| error.to_string())?;
        Ok(reading.directives.into_iter().map(|directive| directive.name).collect())
    }

    #[test]
    fn patterns_include_files_in_order_and_none_if_there_is_none() {
        let folder = Scratch::new("patterns");
        let (b, a) = (write(&folder, "b.conf", "b 1\n"), write(&folder, "a.conf", b"a 1\r\n# \xff\n"));
        write(&folder, ".hidden.conf", "hidden 1\n");
        let dir = folder.folder().display();
        let text =
            format!("first 1\ninclude {dir}/*.conf\ninclude {dir}/none*\nInclude {dir}/[b].con?\nlast 1");
        assert_eq!(read(&write(&folder, "main", text)).unwrap(), ["first", "a", "b", "b", "last"]);
        drop((a, b));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = Scratch::new("errors");
        let dir = folder.folder().display();
        let check = |name: &str, text: &str, expected: &str| {
            let path = write(&folder, name, text.replace("DIR", &dir.to_string()));
            assert_eq!(read(&path).unwrap_err(), expected.replace("DIR", &dir.to_string()), "{text}");
        };
        check("self", "\ninclude DIR/./self", "DIR/./self includes itself in DIR/self, line 2");
        write(&folder, "two", format!("port 1\ninclude {dir}/one\n"));
        check("one", "include DIR/two\n", "DIR/one includes itself in DIR/two, line 2");
        check(
            "absent",
            "include DIR/none.conf",
            "cannot read DIR/none.conf, included in DIR/absent, line 1: No such file or directory (os error 2)",
        );
        check(
            "folder",
            "include DIR",
            "cannot read DIR, included in DIR/folder, line 1: Is a directory (os error 21)",
        );
        check("quotes", "port \"1", "unbalanced quotes in DIR/quotes, line 1");
        for level in 0..20 {
            write(&folder, &format!("level{level}"), format!("include {dir}/level{}\n", level + 1));
        }
        check("deep", "include DIR/level0", "too many files are included in DIR/level15, line 1");
        check(
            "long",
            &"#".repeat(17 << 20),
            "DIR/long is too long: a configuration file may have 16 MiB at most",
        );
        let error = read(&write(&folder, "junk", b"\x7fELF\x02\x01\x00\xff\xfe\n\x00\x01")).unwrap_err();
        assert_eq!(
            error,
            format!(
                "unknown setting '\\u{{7f}}ELF\\u{{2}}\\u{{1}}\\0\u{fffd}\u{fffd}' in {dir}/junk, line 1"
            )
        );
    }
}
