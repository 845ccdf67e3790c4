//! A key with its value, in one block of memory: a look-up that found its table entry waits for memory once more, not for
//! the key and for the value.
//!
//! ```text
//!   │ value │ expiry │ access clock, length of the key │ key … │
//! ```

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::{fmt, mem, ptr, slice};

use ds::compact_table::{Block, Held};
use ds::prefetch::prefetch;

use crate::config::UnixMs;
use crate::value::Value;

/// "Never expires" in `Head::expire_ms`.
const NO_EXPIRY: UnixMs = UnixMs::MAX;

/// Bytes of a record's place in the table, with what tables keep free.
const SLOT_BYTES: usize = 10;

/// Bytes that come from memory at once.
const LINE_BYTES: usize = 64;

/// A key with its value.
pub struct Record {
    /// Made by [`Record::new`]; owned.
    block: NonNull<Head>,
}

/// What a record holds beside its key.
struct Head {
    value: Value,
    expire_ms: UnixMs,
    access: u32,
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

    /// The record, lent.
    #[inline]
    pub fn lend(&self) -> RecordRef<'_> {
        RecordRef { block: self.block, lent: PhantomData }
    }

    /// The value alone.
    pub fn into_value(self) -> Value {
        let this = mem::ManuallyDrop::new(self);
        let layout = this.lend().layout();
        // SAFETY: the head is valid and read once; it is not dropped, because the record is not.
        let head = unsafe { this.block.read() };
        // SAFETY: the block came from `alloc` with this layout, and nothing refers to it any more.
        unsafe { dealloc(this.block.as_ptr().cast(), layout) };
        head.value
    }
}

/// Where the key of a record stands: behind its head.
#[inline]
fn key_place(block: NonNull<Head>) -> *mut u8 {
    block.as_ptr().wrapping_add(1).cast()
}

// SAFETY: a record is nothing but the pointer to its block, and lives as long as it owns it.
unsafe impl Block for Record {
    type Ref<'a> = RecordRef<'a>;

    #[inline]
    fn into_raw(self) -> NonNull<()> {
        mem::ManuallyDrop::new(self).block.cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Record { block: raw.cast() }
    }

    #[inline]
    unsafe fn lend<'a>(raw: NonNull<()>) -> RecordRef<'a> {
        RecordRef { block: raw.cast(), lent: PhantomData }
    }

    /// As far as a usual key reaches.
    #[inline]
    fn prefetch(address: *const ()) {
        prefetch(address);
        prefetch(address.wrapping_byte_add(LINE_BYTES));
    }
}

/// A record that is lent.
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    block: NonNull<Head>,
    lent: PhantomData<&'a Record>,
}

impl<'a> RecordRef<'a> {
    #[inline]
    fn head(self) -> &'a Head {
        // SAFETY: the head was written when the record was made, and nobody changes it while it is lent.
        unsafe { self.block.as_ref() }
    }

    fn layout(self) -> Layout {
        Record::layout(self.head().key_len as usize)
    }

    /// The key.
    #[inline]
    pub fn key(self) -> &'a [u8] {
        let key_len = self.head().key_len as usize;
        // SAFETY: the key was written there when the record was made, and never changes.
        unsafe { slice::from_raw_parts(key_place(self.block), key_len) }
    }

    /// The value.
    #[inline]
    pub fn value(self) -> &'a Value {
        &self.head().value
    }

    /// LRU clock in seconds, or LFU minutes and counter, as `maxmemory-policy` says.
    #[inline]
    pub fn access(self) -> u32 {
        self.head().access
    }

    /// When it expires, if ever.
    #[inline]
    pub fn expiry(self) -> Option<UnixMs> {
        let expire_ms = self.head().expire_ms;
        (expire_ms != NO_EXPIRY).then_some(expire_ms)
    }

    /// Whether its time has come.
    #[inline]
    pub fn expired(self, now: UnixMs) -> bool {
        self.head().expire_ms < now
    }

    /// Bytes that key and value take, the record itself and its place in the table included.
    pub fn memory_bytes(self) -> usize {
        SLOT_BYTES + self.layout().size() + self.value().memory_bytes()
    }
}

/// A record in its table, to be changed.
pub struct RecordMut<'a>(pub(crate) Held<'a, Record>);

impl<'a> RecordMut<'a> {
    #[inline]
    fn head(&mut self) -> &mut Head {
        // SAFETY: the head was written when the record was made, and the record is borrowed alone.
        unsafe { self.0.raw().cast().as_mut() }
    }

    /// The record.
    #[inline]
    pub fn lend(&self) -> RecordRef<'_> {
        self.0.get()
    }

    /// The record, not to be changed any more.
    #[inline]
    pub fn into_ref(self) -> RecordRef<'a> {
        self.0.into_ref()
    }

    /// The value.
    #[inline]
    pub fn value(&mut self) -> &mut Value {
        &mut self.head().value
    }

    /// The value, for as long as the table is borrowed.
    #[inline]
    pub fn into_value(mut self) -> &'a mut Value {
        // SAFETY: as in `head`; nobody else gets at the record for `'a`.
        let head: &'a mut Head = unsafe { self.0.raw().cast().as_mut() };
        &mut head.value
    }

    /// Notes an access.
    #[inline]
    pub fn set_access(&mut self, access: u32) {
        self.head().access = access;
    }

    pub(crate) fn set_expiry(&mut self, expiry: Option<UnixMs>) {
        self.head().expire_ms = expiry.map_or(NO_EXPIRY, |expiry| expiry.min(NO_EXPIRY - 1));
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let layout = self.lend().layout();
        // SAFETY: the head is valid, and dropped once, here.
        unsafe { self.block.drop_in_place() };
        // SAFETY: the block came from `alloc` with this layout, and nothing refers to it any more.
        unsafe { dealloc(self.block.as_ptr().cast(), layout) };
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.lend();
        write!(f, "{}: {:?}", record.key().escape_ascii(), record.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::string::Str;

    #[test]
    fn a_record_gives_back_what_it_was_given() {
        for key in [&b""[..], b"k", &[7; 1000]] {
            let record = Record::new(key, Value::Str(Str::new(b"some value that is not short")));
            assert_eq!((record.lend().key(), record.lend().expiry()), (key, None));
            drop(record);
            let record = Record::new(key, Value::Str(Str::new(b"another value that is not short")));
            let Value::Str(string) = record.into_value() else { panic!("it was a string") };
            assert_eq!(&*string.bytes(), b"another value that is not short");
        }
    }
}
