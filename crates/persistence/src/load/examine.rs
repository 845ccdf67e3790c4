//! Checks a snapshot without loading it: whether it is complete, and whether its checksums are correct.
//!
//! It takes no more memory than the longest string. Errors inside a value whose checksum is correct are not
//! noticed.

use std::io::{self, Read};

use proactor::DiskReader;
use rdb::{FileReader, FrameReader, Item, MANIFEST_BYTES_MAX, MANIFEST_MAGIC, Manifest};

use crate::error::Error;
use crate::names::{Names, part_name};

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Examined {
    /// The size of all its files.
    pub bytes: u64,
    /// The keys in all databases.
    pub key_count: u64,
}

/// Checks the snapshot `name`. `watch` is called now and then with the number of bytes read.
///
/// # Errors
///
/// If a file cannot be read or is damaged.
pub fn examine(names: &Names, name: &str, watch: &mut dyn FnMut(u64)) -> Result<Examined, Error> {
    let error = |source| Error::Snapshot { name: names.path(name).display().to_string(), source };
    let (mut head, mut examined) = (Vec::new(), Examined::default());
    let mut file = open(names, name)?;
    let read = (&mut file).take(MANIFEST_MAGIC.len() as u64).read_to_end(&mut head);
    read.map_err(|cause| error(at_start(cause)))?;
    let whole = Watched { source: io::Cursor::new(head.clone()).chain(file), read_bytes: 0, watch };
    if head != MANIFEST_MAGIC {
        let mut file = FileReader::new(whole, true).map_err(error)?;
        examined.key_count = count_keys(&mut file).map_err(error)?;
        examined.bytes = file.offset();
        return Ok(examined);
    }
    let mut text = Vec::new();
    let read = whole.take(MANIFEST_BYTES_MAX as u64).read_to_end(&mut text);
    let manifest = read.map_err(at_start).and_then(|_| Manifest::decode(&text)).map_err(error)?;
    examined.bytes = text.len() as u64;
    for (number, bytes) in manifest.parts {
        let part = part_name(name, manifest.id, number);
        let source = Watched { source: open(names, &part)?, read_bytes: examined.bytes, watch };
        let frames = FrameReader::new(source, manifest.id, number, bytes);
        let mut items = FileReader::of_part(frames, 0, false);
        let counted = count_keys(&mut items).map_err(|source| {
            let source = items.source_mut().located(source);
            Error::Snapshot { name: names.path(&part).display().to_string(), source }
        });
        examined.key_count += counted?;
        examined.bytes += bytes;
    }
    Ok(examined)
}

fn open(names: &Names, name: &str) -> Result<DiskReader, Error> {
    names.reader(name).map_err(|cause| Error::Snapshot {
        name: names.path(name).display().to_string(),
        source: at_start(cause),
    })
}

fn at_start(cause: io::Error) -> rdb::Error {
    rdb::Error { offset: 0, why: cause.into() }
}

fn count_keys<R: Read>(file: &mut FileReader<R>) -> Result<u64, rdb::Error> {
    let mut key_count = 0;
    loop {
        match file.next_item()? {
            Item::End => return Ok(key_count),
            Item::Key(key) => {
                file.skip_value(key.value_type)?;
                key_count += 1;
            }
            Item::Database(_) | Item::Sizes(..) | Item::Aux(..) | Item::Library(..) => {}
        }
    }
}

/// Reports how many bytes were read.
struct Watched<'a, R> {
    source: R,
    read_bytes: u64,
    watch: &'a mut dyn FnMut(u64),
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        self.read_bytes += count as u64;
        (self.watch)(self.read_bytes);
        Ok(count)
    }
}
