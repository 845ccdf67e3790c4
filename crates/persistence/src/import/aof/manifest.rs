//! The manifest: lists the files that contain the data, and their order.
//!
//! A line has pairs of a key and a value: `file`, `seq` and `type` must be present, others may be (Redis 8
//! writes offsets). Types are `b` (the base, at most one), `i` (the commands after it, in ascending order of
//! `seq`) and `h` (history: files that are about to be deleted, whose content is in the base).

use resp::split_args;

use crate::import::aof::error::ManifestError;

/// The most bytes of a manifest.
pub const MANIFEST_BYTES_MAX: usize = 4 << 20;

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Manifest {
    /// The base file, if there is one.
    pub base: Option<String>,
    /// The incremental files, oldest first.
    pub increments: Vec<String>,
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// If Redis refuses the text too: it is not in the form in which manifests are written.
    pub fn decode(text: &[u8]) -> Result<Manifest, ManifestError> {
        let mut manifest = Manifest::default();
        let mut last_number = 0;
        let mut line_count = 0;
        for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let error = |why| ManifestError { line: index + 1, why };
            line_count = index + 1;
            if line.starts_with(b"#") {
                continue;
            }
            if !line.ends_with(b"\n") {
                return Err(error("the manifest ends in the middle of a line"));
            }
            let Line { file, number, kind } = Line::decode(line).map_err(error)?;
            match kind {
                b'b' if manifest.base.is_some() => return Err(error("a second base file")),
                b'b' => manifest.base = Some(file),
                b'i' if number <= last_number => {
                    return Err(error("sequence numbers of incremental files do not ascend"));
                }
                b'i' => {
                    last_number = number;
                    manifest.increments.push(file);
                }
                b'h' => {}
                _ => return Err(error("an unknown type of file")),
            }
        }
        if line_count == 0 {
            return Err(ManifestError { line: 1, why: "an empty manifest" });
        }
        Ok(manifest)
    }

    /// All files, in the order in which they must be read.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.base.iter().chain(&self.increments).map(String::as_str)
    }
}

/// A parsed line.
struct Line {
    file: String,
    number: u64,
    kind: u8,
}

impl Line {
    fn decode(line: &[u8]) -> Result<Line, &'static str> {
        const NOT_A_LINE: &str = "not a line of a manifest";
        let words = split_args(line.trim_ascii()).ok_or("quotes that do not match")?;
        let (pairs, rest) = words.as_chunks::<2>();
        if pairs.is_empty() || !rest.is_empty() {
            return Err(NOT_A_LINE);
        }
        let (mut file, mut number, mut kind) = (None, None, None);
        for [key, value] in pairs {
            match key.to_ascii_lowercase().as_slice() {
                b"file" => file = Some(file_name(value)?),
                b"seq" => number = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok()),
                b"type" => kind = value.first().copied(),
                _ => {}
            }
        }
        match (file, number, kind) {
            (Some(file), Some(number @ 1..), Some(kind)) => Ok(Line { file, number, kind }),
            _ => Err(NOT_A_LINE),
        }
    }
}

/// Checks that a name has no directory.
fn file_name(name: &[u8]) -> Result<String, &'static str> {
    let is_path = name.contains(&b'/') || name.contains(&b'\0') || name == b"." || name == b"..";
    match str::from_utf8(name) {
        _ if is_path => Err("a file that is a path: it must be a name"),
        Ok("") | Err(_) => Err("a name that no file can have"),
        Ok(name) => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&[&str], &str>) {
        let found = Manifest::decode(text.as_bytes());
        let found = found.map_err(|error| error.to_string());
        let files = found.as_ref().map(|manifest| manifest.files().collect::<Vec<_>>());
        assert_eq!(files.as_deref().map_err(|error| error.as_str()), expected, "{text:?}");
    }

    #[test]
    fn the_base_comes_first_and_history_is_left_out() {
        check(
            "# comment\nfile a.2.incr.aof seq 2 type i\nfile a.1.base.rdb seq 1 type b\nfile a.0.incr.aof seq 9 type h\n\
             file \"a 3\" seq 3 type i startoffset 7 endoffset 9\n",
            Ok(&["a.1.base.rdb", "a.2.incr.aof", "a 3"]),
        );
        check("FILE a SEQ 1 TYPE i\r\n", Ok(&["a"]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let base = "file a seq 1 type b\n";
        for (text, error) in [
            ("", "an empty manifest in line 1"),
            (&format!("{base}{base}"), "a second base file in line 2"),
            (
                "file a seq 2 type i\nfile b seq 2 type i\n",
                "sequence numbers of incremental files do not ascend in line 2",
            ),
            ("file ../a seq 1 type b\n", "a file that is a path: it must be a name in line 1"),
            ("file .. seq 1 type b\n", "a file that is a path: it must be a name in line 1"),
            ("file a seq 1 type x\n", "an unknown type of file in line 1"),
            ("file a seq x type b\n", "not a line of a manifest in line 1"),
            ("file a seq 1\n", "not a line of a manifest in line 1"),
            ("file a seq 1 type\n", "not a line of a manifest in line 1"),
            ("\n", "not a line of a manifest in line 1"),
            ("file \"a seq 1 type b\n", "quotes that do not match in line 1"),
            ("file \"\" seq 1 type b\n", "a name that no file can have in line 1"),
            ("file a seq 1 type b", "the manifest ends in the middle of a line in line 1"),
        ] {
            check(text, Err(error));
        }
    }
}
