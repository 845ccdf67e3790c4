//! Skips a value: finds its end without decoding it.

use std::io::Read;

use crate::error::Error;
use crate::format::*;
use crate::reader::Reader;

/// Skips a value of type `value_type`.
pub(crate) fn skip_value<R: Read>(reader: &mut Reader<R>, value_type: ValueType) -> Result<(), Error> {
    use ValueType::*;
    match value_type {
        Str | HashZipmap | ListZiplist | SetIntset | SetListpack | ZSetZiplist | ZSetListpack
        | HashZiplist | HashListpack => reader.skip_string(),
        List | Set | ListQuicklist => each(reader, Reader::skip_string),
        Hash => each(reader, |reader| strings(reader, 2)),
        ZSetText => each(reader, |reader| {
            reader.skip_string()?;
            match reader.byte()? {
                SCORE_NAN | SCORE_INFINITY | SCORE_NEGATIVE_INFINITY => Ok(()),
                length => reader.skip(length.into()),
            }
        }),
        ZSet => each(reader, |reader| {
            reader.skip_string()?;
            reader.skip(8)
        }),
        ListQuicklist2 => each(reader, |reader| {
            reader.length()?;
            reader.skip_string()
        }),
        HashExpiring => {
            reader.skip(8)?;
            each(reader, |reader| {
                reader.length()?;
                strings(reader, 2)
            })
        }
        HashExpiringEach => each(reader, |reader| {
            strings(reader, 2)?;
            reader.skip(8)
        }),
        HashExpiringListpack => {
            reader.skip(8)?;
            reader.skip_string()
        }
        Stream | Stream2 | Stream3 | Stream4 | Stream5 => stream(reader, value_type),
        Module => {
            reader.length()?;
            skip_module_fields(reader)
        }
    }
}

/// Reads a count, and calls `skip` that many times.
fn each<R: Read>(
    reader: &mut Reader<R>,
    mut skip: impl FnMut(&mut Reader<R>) -> Result<(), Error>,
) -> Result<(), Error> {
    let count = reader.length()?;
    (0..count).try_for_each(|_| skip(reader))
}

fn strings<R: Read>(reader: &mut Reader<R>, count: u32) -> Result<(), Error> {
    (0..count).try_for_each(|_| reader.skip_string())
}

fn lengths<R: Read>(reader: &mut Reader<R>, count: u32) -> Result<(), Error> {
    (0..count).try_for_each(|_| reader.length().map(|_| ()))
}

fn stream<R: Read>(reader: &mut Reader<R>, value_type: ValueType) -> Result<(), Error> {
    let has_counts = value_type != ValueType::Stream;
    each(reader, |reader| strings(reader, 2))?;
    // How many entries there are, and the last id; the first one, the last deleted one, how many were added.
    lengths(reader, if has_counts { 8 } else { 3 })?;
    each(reader, |reader| {
        reader.skip_string()?;
        // The last id, and how many entries were read.
        lengths(reader, if has_counts { 3 } else { 2 })?;
        each(reader, |reader| {
            // An id and a time.
            reader.skip(24)?;
            lengths(reader, 1)
        })?;
        each(reader, |reader| {
            reader.skip_string()?;
            // One time or two.
            reader.skip(if crate::stream::has_active_times(value_type) { 16 } else { 8 })?;
            each(reader, |reader| reader.skip(16))
        })?;
        match value_type {
            ValueType::Stream5 => each(reader, |reader| reader.skip(16)),
            _ => Ok(()),
        }
    })?;
    match value_type {
        ValueType::Stream4 | ValueType::Stream5 => producers(reader),
        _ => Ok(()),
    }
}

/// Skips the last messages of a stream's producers, by which Redis recognizes repeated messages.
fn producers<R: Read>(reader: &mut Reader<R>) -> Result<(), Error> {
    // For how long and how many are known.
    lengths(reader, 2)?;
    each(reader, |reader| {
        reader.skip_string()?;
        each(reader, |reader| {
            reader.skip_string()?;
            lengths(reader, 2)
        })
    })?;
    // How many there were, and how many came twice.
    lengths(reader, 2)
}

/// Skips the fields of a module's value.
pub(crate) fn skip_module_fields<R: Read>(reader: &mut Reader<R>) -> Result<(), Error> {
    loop {
        let offset = reader.offset();
        match reader.length()? {
            MODULE_EOF => return Ok(()),
            MODULE_SINT | MODULE_UINT => _ = reader.length()?,
            MODULE_FLOAT => _ = reader.array::<4>()?,
            MODULE_DOUBLE => _ = reader.array::<8>()?,
            MODULE_STRING => reader.skip_string()?,
            _ => return reader.corrupt(offset, "unknown field of a module"),
        }
    }
}
