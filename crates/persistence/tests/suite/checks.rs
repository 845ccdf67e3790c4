//! Properties that hold for any bytes given to the readers; shared with the fuzz target.

use std::io::{self, Read};

use persistence::aof::{Manifest, Reader, Record, Why};

/// The longest argument that readers accept in these checks.
const ARGUMENT_BYTES_MAX: u64 = 1000;

/// Gives a few bytes at a time.
struct Dribble<'a>(&'a [u8]);

impl Read for Dribble<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(3);
        self.0.read(&mut into[..count])
    }
}

/// A command, and where it begins.
type Placed = (u64, Vec<Vec<u8>>);

/// The commands with their places, and how it ends: the place of a torn end, or of an error.
fn commands(source: impl Read) -> (Vec<Placed>, Option<(u64, String)>) {
    let (mut reader, mut record) = (Reader::new(source, 0, ARGUMENT_BYTES_MAX), Record::default());
    let mut found = Vec::new();
    loop {
        match reader.next(&mut record) {
            Ok(true) => found.push((record.offset, record.args().map(<[u8]>::to_vec).collect())),
            Ok(false) => return (found, None),
            Err(error) => {
                assert!(!matches!(error.why, Why::Io(_)));
                return (found, Some((error.offset, error.why.to_string())));
            }
        }
    }
}

/// Reads any bytes as a file. Pieces make no difference, no command comes that is not in the bytes, and the
/// commands before a torn end are read alike when that end is cut off.
pub(crate) fn check_commands(input: &[u8]) {
    let (found, end) = commands(input);
    assert_eq!((&found, &end), (&commands(Dribble(input)).0, &commands(Dribble(input)).1));
    let bytes: usize = found.iter().flat_map(|(_, args)| args).map(Vec::len).sum();
    assert!(bytes <= input.len());
    assert!(found.iter().all(|(_, args)| !args.is_empty()));
    if let Some((offset, why)) = end {
        assert!(offset <= input.len() as u64);
        if why.starts_with("the file ends") {
            assert_eq!(commands(&input[..offset as usize]), (found, None));
        }
    }
}

/// Any bytes as a manifest: it leads nowhere else.
pub(crate) fn check_manifest(input: &[u8]) {
    let Ok(manifest) = Manifest::decode(input) else { return };
    assert!(manifest.files().all(|file| !file.contains(['/', '\0']) && !["", ".", ".."].contains(&file)));
}
