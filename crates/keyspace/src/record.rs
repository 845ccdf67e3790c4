//! A key with its value, in one block of memory: a look-up that found its table entry waits for memory once more, not for
//! the key and for the value.
//!
//! ```text
//!   │ value │ expiry │ access clock, length of the key │ key … │
//! ```

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::{fmt, mem, ptr, slice};

use ds::prefetch::prefetch;

use crate::config::UnixMs;
use crate::value::Value;

/// "Never expires" in [`Head::expire_ms`].
const NO_EXPIRY: UnixMs = UnixMs::MAX;

/// Bytes that come from memory at once.
const LINE_BYTES: usize = 64;

/// A key with its value.
pub struct Record {
    /// Made by [`Record::new`]; owned.
    block: NonNull<Head>,
}

/// What a record holds beside its key.
#[derive(Debug)]
pub struct Head {
    /// The value.
    pub value: Value,
    expire_ms: UnixMs,
    /// LRU clock in seconds, or LFU minutes and counter, as `maxmemory-policy` says.
    pub access: u32,
    key_len: u32,
}

// SAFETY: a record owns its block, and nothing in it is tied to a thread.
unsafe impl Send for Record {}
// SAFETY: as above; `&Record` only reads.
unsafe impl Sync for Record {}

impl Record {
    /// The key `key`, at most 4 GiB long, with `value`; it never expires.
    pub(crate) fn new(key: &[u8], value: Value) -> Self {
        let key_len = u32::try_from(key.len()).expect("no request is that long");
        let layout = Record::layout(key.len());
        // SAFETY: the layout is not empty.
        let block = unsafe { alloc(layout) }.cast::<Head>();
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        // SAFETY: the block has room for a head, and its alignment.
        unsafe { block.write(Head { value, expire_ms: NO_EXPIRY, access: 0, key_len }) };
        // SAFETY: the block has room for the key behind the head.
        unsafe { ptr::copy_nonoverlapping(key.as_ptr(), key_place(block), key.len()) };
        Record { block }
    }

    fn layout(key_len: usize) -> Layout {
        let bytes = size_of::<Head>() + key_len;
        Layout::from_size_align(bytes, align_of::<Head>()).expect("the length of a key is bounded")
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        // SAFETY: the key was written there when the record was made, and never changes.
        unsafe { slice::from_raw_parts(key_place(self.block), self.key_len as usize) }
    }

    /// Asks for its memory, as far as a usual key reaches.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(self.block.as_ptr());
        prefetch(self.block.as_ptr().wrapping_byte_add(LINE_BYTES));
    }

    /// The value alone.
    pub fn into_value(self) -> Value {
        let this = mem::ManuallyDrop::new(self);
        let layout = Record::layout(this.key_len as usize);
        // SAFETY: the head is valid and read once; it is not dropped, because the record is not.
        let head = unsafe { this.block.read() };
        // SAFETY: the block came from `alloc` with this layout, and nothing refers to it any more.
        unsafe { dealloc(this.block.as_ptr().cast(), layout) };
        head.value
    }

    /// Bytes that key and value take, the record itself and its place in the table included.
    pub fn memory_bytes(&self) -> usize {
        let place = size_of::<Record>() + size_of::<u64>();
        place + Record::layout(self.key_len as usize).size() + self.value.memory_bytes()
    }
}

/// Where the key of a record stands: behind its head.
#[inline]
fn key_place(block: NonNull<Head>) -> *mut u8 {
    block.as_ptr().wrapping_add(1).cast()
}

impl Head {
    /// When it expires, if ever.
    pub fn expiry(&self) -> Option<UnixMs> {
        (self.expire_ms != NO_EXPIRY).then_some(self.expire_ms)
    }

    /// Whether its time has come, or that of all fields of its hash.
    #[inline]
    pub fn expired(&self, now: UnixMs) -> bool {
        self.expire_ms < now || self.value.is_due(now)
    }

    pub(crate) fn set_expiry(&mut self, expiry: Option<UnixMs>) {
        self.expire_ms = expiry.map_or(NO_EXPIRY, |expiry| expiry.min(NO_EXPIRY - 1));
    }
}

impl Deref for Record {
    type Target = Head;

    #[inline]
    fn deref(&self) -> &Head {
        // SAFETY: the head was written when the record was made.
        unsafe { self.block.as_ref() }
    }
}

impl DerefMut for Record {
    #[inline]
    fn deref_mut(&mut self) -> &mut Head {
        // SAFETY: as above, and the record is borrowed alone.
        unsafe { self.block.as_mut() }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let layout = Record::layout(self.key_len as usize);
        // SAFETY: the head is valid, and dropped once, here.
        unsafe { self.block.drop_in_place() };
        // SAFETY: the block came from `alloc` with this layout, and nothing refers to it any more.
        unsafe { dealloc(self.block.as_ptr().cast(), layout) };
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Record").field(&self.key().escape_ascii().to_string()).field(&**self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::string::Str;

    #[test]
    fn a_record_gives_back_what_it_was_given() {
        for key in [&b""[..], b"k", &[7; 1000]] {
            let mut record = Record::new(key, Value::Str(Str::new(b"some value that is not short")));
            assert_eq!((record.key(), record.expiry()), (key, None));
            record.set_expiry(Some(UnixMs::MAX));
            assert_eq!(record.expiry(), Some(UnixMs::MAX - 1));
            drop(record);
            let record = Record::new(key, Value::Str(Str::new(b"another value that is not short")));
            let Value::Str(string) = record.into_value() else { panic!("it was a string") };
            assert_eq!(&*string.bytes(), b"another value that is not short");
        }
    }
}
