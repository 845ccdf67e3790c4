//! A key with its value, in one block of memory: after finding the table entry, a look-up waits for memory
//! only once more, not twice.
//!
//! ```text
//! narrow  │ word │ lengths, low bits: key, text │ expiry │ marks │ key … │ text …, integer, or head and bytes of a collection │
//! wide    │ word │ length of key │ value                 │ key … │ expiry │ marks            │
//!
//! word: access clock, 24 bits │ was read, 1 │ length of the text, high bits, 4 │ narrow, 1 │ form of expiry and marks, 2
//! ```
//!
//! A compressed hash is also a collection; its bytes begin with the address of its dictionary, and the record
//! owns a reference to that (`compression.rs`).
//!
//! A string or a small collection with a short key makes a narrow record if both fit in
//! [`NARROW_BYTES_MAX`](layout::NARROW_BYTES_MAX). A string becomes wide when it is changed in part, a
//! collection when it has grown. The expiry takes room once one was set, and so do the marks (`marks.rs`). A
//! change of the value resets the marks as they prescribe, so no mark outlives the value that it describes.
//!
//! Here: ownership of the block, and reading. Not here: where the parts are (`record/layout.rs`), how a narrow record
//! stores its value (`record/content.rs`), and changing it (`record/change.rs`).

mod change;
mod content;
mod layout;
#[cfg(test)]
mod tests;

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::{fmt, mem, ptr, slice};

use ds::compact_table::Block;
use ds::dictionary::Dictionary;
use ds::hash_compressed::CompressedHash;
use ds::packed::Packed;
use ds::prefetch::prefetch;

pub use change::RecordMut;

use content::Content;
use layout::{
    ACCESS_MASK, ALIGN, COLLECTION, DICTIONARY_BYTES, EXPIRY_BYTES, HEAD_BYTES, INT, MARKED,
    NARROW_LENGTHS_AT, NO_EXPIRY, Parts, WIDE_HEAD_BYTES, Word,
};

use crate::data_config::UnixMs;
use crate::marks::{MARKS_BYTES, Marks};
use crate::queue::{List, Seen};
use crate::string::StrRef;
use crate::value::{COMPRESSED_BIG, COMPRESSED_SMALL, PACKED_FORMS, PACKED_TAGS, Packable, Value, ValueRef};

/// Maximum difference between the clocks of threads, in seconds.
const AHEAD_S_MAX: u32 = 3600;
/// Bytes of a record's entry in the table, including the part that tables leave free.
const SLOT_BYTES: usize = 10;

/// Records with longer keys, or with lists of more memory, are not kept when they become empty.
const SPARE_KEY_BYTES_MAX: usize = 64;
const SPARE_LIST_BYTES_MAX: usize = 1280;

/// Size of a cache line.
const LINE_BYTES: usize = 64;

/// A key with its value.
pub struct Record {
    /// Created by [`Record::narrow`] or [`Record::wide`]; owned.
    block: NonNull<u8>,
}

/// The head of a wide record.
#[repr(C)]
struct Wide {
    word: Word,
    key_len: u32,
    value: Value,
}

// The layout relies on this.
const _: () = assert!(size_of::<Wide>() == WIDE_HEAD_BYTES && align_of::<Wide>() == ALIGN);

// SAFETY: a record owns its block, and only its value may be tied to a thread.
unsafe impl Send for Record where Value: Send {}
// SAFETY: see above; `&Record` only reads.
unsafe impl Sync for Record where Value: Sync {}

impl Record {
    /// A record of `key`, at most 4 GiB long, with `value`. It does not expire.
    pub fn new(key: &[u8], value: Value) -> Self {
        Record::made(key, value, 0, 0)
    }

    /// A record with an empty collection.
    pub(crate) fn new_small<T: Packable>(key: &[u8]) -> Self {
        let empty = T::default();
        let narrow = Content::of(empty.lend_value()).and_then(|content| Record::narrow(key, content, 0, 0));
        narrow.unwrap_or_else(|| Record::wide(key, empty.into_value(), 0, 0))
    }

    /// A record with an empty collection that is always changed in place. It takes more memory than a narrow
    /// one, and is for collections that change often.
    pub fn new_in_place<T: Packable>(key: &[u8]) -> Self {
        Record::wide(key, T::default().into_value(), 0, 0)
    }

    /// A wide record, whose value can be changed in place.
    pub(crate) fn new_wide(key: &[u8], value: Value) -> Self {
        Record::wide(key, value, 0, 0)
    }

    fn made(key: &[u8], value: Value, access: u32, form: usize) -> Self {
        let narrow = Content::of(value.lend()).and_then(|content| Record::narrow(key, content, access, form));
        narrow.unwrap_or_else(|| Record::wide(key, value, access, form))
    }

    /// A narrow record; `None` if the key or content is too long.
    fn narrow(key: &[u8], content: Content<'_>, access: u32, form: usize) -> Option<Self> {
        let parts = content.parts(key.len(), form)?;
        let (content_at, text_len) = parts.content?;
        let block = allocate(parts.layout);
        write_word(block, Word::new(true, form, access).with_text_len(text_len));
        write(block, NARROW_LENGTHS_AT, &[key.len() as u8, text_len as u8]);
        write(block, parts.key.0, key);
        content.write(block, content_at);
        Some(Record::without_expiry(block))
    }

    fn wide(key: &[u8], value: Value, access: u32, form: usize) -> Self {
        let key_len = u32::try_from(key.len()).expect("no request is that long");
        let parts = Parts::wide(form, key.len());
        let block = allocate(parts.layout);
        let word = Word::new(false, form, access);
        // SAFETY: the block has the alignment and the room for the head.
        unsafe { block.cast::<Wide>().write(Wide { word, key_len, value }) };
        write(block, parts.key.0, key);
        Record::without_expiry(block)
    }

    fn without_expiry(block: NonNull<u8>) -> Self {
        let record = Record { block };
        let form = record.lend().form();
        let expiry_at = record.lend().parts().expiry_at;
        write(block, expiry_at, &NO_EXPIRY[form].to_le_bytes()[..EXPIRY_BYTES[form]]);
        if form == MARKED {
            write(block, expiry_at + EXPIRY_BYTES[form], &Marks::default().to_bytes());
        }
        record
    }

    /// Borrows the record.
    #[inline]
    pub fn lend(&self) -> RecordRef<'_> {
        RecordRef { block: self.block, lent: PhantomData }
    }

    /// Prepares an emptied record for reuse under its key, if it is worth keeping: its list must be empty and small,
    /// and it must never have had an expiry. Otherwise returns the record unchanged as an error.
    pub fn emptied(self) -> Result<Record, Record> {
        let record = self.lend();
        let is_spare = record.form() == 0
            && record.key().len() <= SPARE_KEY_BYTES_MAX
            && matches!(record.value(), ValueRef::List(list) if list.is_empty() && list.memory_bytes() <= SPARE_LIST_BYTES_MAX + list.seen().map_or(0, Seen::memory_bytes));
        if !is_spare {
            return Err(self);
        }
        write_word(self.block, Word::new(false, 0, 0));
        Ok(self)
    }

    /// Its list, if it has one. Only the observed state of a queue may be changed through it.
    pub(crate) fn list_mut(&mut self) -> Option<&mut List> {
        self.lend().wide()?;
        // SAFETY: the record is wide, so it begins with its head, and it is mutably borrowed.
        let wide: &mut Wide = unsafe { self.block.cast().as_mut() };
        if let Value::List(list) = &mut wide.value { Some(list) } else { None }
    }

    /// Extracts the value if it is stored outside the record. Frees the rest.
    pub fn into_distant_value(self) -> Option<Value> {
        self.lend().is_wide().then(|| self.into_value())
    }

    /// Extracts the value and frees the rest.
    pub fn into_value(self) -> Value {
        self.take_apart(|_, value| value)
    }

    /// Calls `then` with the borrowed record and its value, and frees the block.
    fn take_apart<R>(self, then: impl FnOnce(RecordRef<'_>, Value) -> R) -> R {
        let this = mem::ManuallyDrop::new(self);
        let record = this.lend();
        let layout = record.parts().layout;
        let value = match record.wide() {
            None => record.value().to_value(),
            // SAFETY: the value is valid and read once; it is not dropped, because the record is not.
            Some(wide) => unsafe { ptr::read(&raw const wide.value) },
        };
        let result = then(record, value);
        this.lend().drop_dictionary();
        // SAFETY: the block came from `alloc` with this layout, and nothing refers to it any more.
        unsafe { dealloc(this.block.as_ptr(), layout) };
        result
    }

    /// Replaces the record with the result of `make` for its key, value, access clock and form. Keeps expiry
    /// and marks.
    fn rebuilt(self, make: impl FnOnce(&[u8], Value, u32, usize) -> Record) -> Record {
        self.take_apart(|old, value| make(old.key(), value, old.word().kept(), old.form()).heir_of(old))
    }

    /// Copies expiry and marks of `old`; the record must have room for them.
    fn heir_of(mut self, old: RecordRef<'_>) -> Record {
        self.write_expiry(old.expiry());
        if self.lend().form() == MARKED {
            write(self.block, self.lend().marks_at(), &old.marks().to_bytes());
        }
        self
    }

    /// Moves the record to a new block.
    fn moved(self) -> Record {
        let this = mem::ManuallyDrop::new(self);
        let layout = this.lend().parts().layout;
        let block = allocate(layout);
        // SAFETY: both blocks have this layout, and nothing else refers to the new one.
        unsafe { ptr::copy_nonoverlapping(this.block.as_ptr(), block.as_ptr(), layout.size()) };
        // SAFETY: the block came from `alloc` with this layout. Its contents live on in the other one, and it is not dropped.
        unsafe { dealloc(this.block.as_ptr(), layout) };
        Record { block }
    }

    /// Writes the expiry; the record must have room for it.
    fn write_expiry(&mut self, expiry: Option<UnixMs>) {
        write_expiry(self.lend().parts().expiry_at, self.lend().form(), self.block, expiry);
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no record is empty.
    let block = unsafe { alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Writes the word of a block that is new or mutably borrowed.
#[inline]
fn write_word(block: NonNull<u8>, word: Word) {
    // SAFETY: every block has the alignment and room for the word; only this file and `change.rs` call it.
    unsafe { block.cast::<Word>().write(word) };
}

/// Writes to a block that is new or mutably borrowed, and has room for the bytes at this offset.
#[inline]
fn write(block: NonNull<u8>, at: usize, bytes: &[u8]) {
    // SAFETY: the contract above guarantees it; only this file and those in its folder call the function.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), block.as_ptr().wrapping_add(at), bytes.len()) };
}

/// Writes an owned reference to a dictionary; same contract as [`write()`].
fn write_dictionary(block: NonNull<u8>, at: usize, dictionary: Arc<Dictionary>) {
    let place = block.as_ptr().wrapping_add(at).cast::<*const Dictionary>();
    // SAFETY: the contract above guarantees it.
    unsafe { place.write_unaligned(Arc::into_raw(dictionary)) };
}

#[inline]
fn write_expiry(at: usize, form: usize, block: NonNull<u8>, expiry: Option<UnixMs>) {
    let expiry = expiry.map_or(NO_EXPIRY[form], |expiry| expiry.min(UnixMs::MAX - 1));
    write(block, at, &expiry.to_le_bytes()[..EXPIRY_BYTES[form]]);
}

// SAFETY: a record consists of the pointer to its block, which stays valid as long as the record owns it.
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

    /// Prefetches as much as a usual key needs.
    #[inline]
    fn prefetch(address: *const ()) {
        prefetch(address);
        prefetch(address.wrapping_byte_add(LINE_BYTES));
    }
}

/// A borrowed record.
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    block: NonNull<u8>,
    lent: PhantomData<&'a Record>,
}

impl<'a> RecordRef<'a> {
    #[inline]
    fn word(self) -> Word {
        // SAFETY: every record begins with its word, which does not change while it is borrowed.
        unsafe { self.block.cast::<Word>().read() }
    }

    #[inline]
    fn form(self) -> usize {
        self.word().form()
    }

    /// The head, if the record is wide.
    #[inline]
    fn wide(self) -> Option<&'a Wide> {
        // SAFETY: a wide record begins with its head, which does not change while it is borrowed.
        (!self.word().is_narrow()).then(|| unsafe { self.block.cast().as_ref() })
    }

    /// A range of the block.
    #[inline]
    fn bytes(self, at: usize, len: usize) -> &'a [u8] {
        // SAFETY: callers only ask for ranges from `parts`, which were written when the record was created.
        unsafe { slice::from_raw_parts(self.block.as_ptr().wrapping_add(at), len) }
    }

    #[inline]
    fn parts(self) -> Parts {
        match self.wide() {
            Some(wide) => Parts::wide(self.form(), wide.key_len as usize),
            None => {
                let key_len = self.bytes(NARROW_LENGTHS_AT, 1)[0];
                Parts::narrow(self.form(), usize::from(key_len), self.text_len())
            }
        }
    }

    /// The length of a narrow record's text, or the number that replaces it for other content.
    #[inline]
    fn text_len(self) -> u16 {
        self.word().text_len(self.bytes(NARROW_LENGTHS_AT + 1, 1)[0])
    }

    /// The key.
    #[inline]
    pub fn key(self) -> &'a [u8] {
        let (at, len) = self.parts().key;
        self.bytes(at, len)
    }

    /// The value.
    #[inline]
    pub fn value(self) -> ValueRef<'a> {
        if let Some(wide) = self.wide() {
            return wide.value.lend();
        }
        ValueRef::Str(match self.parts().content {
            Some((at, INT..)) => {
                let mut bytes = [0; size_of::<i64>()];
                bytes.copy_from_slice(self.bytes(at, size_of::<i64>()));
                StrRef::Int(i64::from_le_bytes(bytes))
            }
            Some((at, text_len @ ..COLLECTION)) => StrRef::Text(self.bytes(at, usize::from(text_len))),
            Some((at, text_len)) => {
                let (tag, packed) = self.collection(at, text_len);
                return match tag {
                    COMPRESSED_SMALL | COMPRESSED_BIG => self.compressed(tag, at, packed),
                    _ => ValueRef::of_packed(tag, packed),
                };
            }
            None => unreachable!("only wide records have none"),
        })
    }

    /// Whether it is a wide record.
    #[inline]
    pub(crate) fn is_wide(self) -> bool {
        !self.word().is_narrow()
    }

    /// Whether it is a narrow record with a collection.
    #[inline]
    pub(crate) fn is_small(self) -> bool {
        !self.is_wide() && (COLLECTION..INT).contains(&self.text_len())
    }

    /// The collection of a narrow record as bytes, with a tag that identifies its type and form.
    #[inline]
    pub(crate) fn small(self) -> Option<(u8, Packed<'a>)> {
        match self.parts().content {
            Some((at, text_len @ COLLECTION..INT)) => Some(self.collection(at, text_len)),
            _ => None,
        }
    }

    #[inline]
    fn collection(self, at: usize, text_len: u16) -> (u8, Packed<'a>) {
        let (head, bytes) = self.bytes(at, usize::from(text_len - COLLECTION)).split_at(HEAD_BYTES);
        let head = u16::from_le_bytes([head[0], head[1]]);
        let (tag, count) = ((head % u16::from(PACKED_TAGS)) as u8, head / u16::from(PACKED_TAGS));
        (tag, Packed { form: tag % PACKED_FORMS, count: usize::from(count), bytes })
    }

    /// The compressed hash at this offset.
    fn compressed(self, tag: u8, at: usize, packed: Packed<'a>) -> ValueRef<'a> {
        // SAFETY: the record owns a reference to its dictionary as long as it lives.
        let dictionary = unsafe { &*self.dictionary_at(at) };
        let (is_big, bytes) = (tag == COMPRESSED_BIG, &packed.bytes[DICTIONARY_BYTES..]);
        ValueRef::Compressed(CompressedHash { is_big, item_count: packed.count, bytes, dictionary })
    }

    /// The dictionary of the compressed hash at this offset.
    fn dictionary_at(self, at: usize) -> *const Dictionary {
        let place = self.block.as_ptr().wrapping_add(at + HEAD_BYTES).cast::<*const Dictionary>();
        // SAFETY: it was written when the record was created.
        unsafe { place.read_unaligned() }
    }

    /// The dictionary of its value, if that is a compressed hash.
    #[inline]
    pub(crate) fn dictionary(self) -> Option<*const Dictionary> {
        let (at, text_len) = self.parts().content?;
        let is_compressed = (COLLECTION..INT).contains(&text_len)
            && matches!(self.collection(at, text_len).0, COMPRESSED_SMALL | COMPRESSED_BIG);
        is_compressed.then(|| self.dictionary_at(at))
    }

    /// Drops its reference to its dictionary, if it has one. The record must not be used any more.
    #[inline]
    fn drop_dictionary(self) {
        if let Some(dictionary) = self.dictionary() {
            // SAFETY: the record was created with this reference, which is dropped once, with the record.
            drop(unsafe { Arc::from_raw(dictionary) });
        }
    }

    /// Prefetches the memory of the value outside the record.
    #[inline]
    pub(crate) fn prefetch_value(self) {
        if let Some(wide) = self.wide() {
            wide.value.prefetch();
        }
    }

    /// Its 24 access bits; see [`access`](crate::access).
    #[inline]
    pub fn access(self) -> u32 {
        self.word().access()
    }

    /// Seconds since the last access, if the access clock counts seconds and is now `clock`. 0 if the access was
    /// recorded by a thread whose clock is ahead.
    pub fn idle_seconds(self, clock: u32) -> u32 {
        let idle = clock.wrapping_sub(self.access()) & ACCESS_MASK;
        if idle < ACCESS_MASK - AHEAD_S_MAX { idle } else { 0 }
    }

    /// When it expires; `None` if it does not.
    #[inline]
    pub fn expiry(self) -> Option<UnixMs> {
        let form = self.form();
        if form == 0 {
            return None;
        }
        let mut bytes = [0; 8];
        bytes[..EXPIRY_BYTES[form]].copy_from_slice(self.bytes(self.parts().expiry_at, EXPIRY_BYTES[form]));
        let expiry = UnixMs::from_le_bytes(bytes);
        (expiry != NO_EXPIRY[form]).then_some(expiry)
    }

    /// Whether a reading command has accessed it since its value was set.
    #[inline]
    pub fn was_read(self) -> bool {
        self.word().was_read()
    }

    /// Offset of the marks, in a record with room for them.
    #[inline]
    fn marks_at(self) -> usize {
        self.parts().expiry_at + EXPIRY_BYTES[MARKED]
    }

    /// Its marks.
    #[inline]
    pub fn marks(self) -> Marks {
        if self.form() != MARKED {
            return Marks::default();
        }
        let mut bytes = [0; MARKS_BYTES];
        bytes.copy_from_slice(self.bytes(self.marks_at(), MARKS_BYTES));
        Marks::from_bytes(bytes)
    }

    /// Whether it has expired, or all elements of its hash or set have.
    #[inline(always)]
    pub fn expired(self, now: UnixMs) -> bool {
        self.expiry().is_some_and(|expiry| expiry < now) || self.value().is_due(now)
    }

    /// Bytes that key and value take, including the record itself and its table entry.
    pub fn memory_bytes(self) -> usize {
        let elsewhere = self.wide().map_or(0, |wide| wide.value.memory_bytes());
        SLOT_BYTES + self.parts().layout.size() + elsewhere
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let layout = self.lend().parts().layout;
        if self.lend().wide().is_some() {
            // SAFETY: a wide record begins with its head, which is dropped once, here.
            unsafe { self.block.cast::<Wide>().drop_in_place() };
        } else {
            self.lend().drop_dictionary();
        }
        // SAFETY: the block came from `alloc` with this layout, and nothing refers to it any more.
        unsafe { dealloc(self.block.as_ptr(), layout) };
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.lend();
        write!(f, "{}: {:?}", record.key().escape_ascii(), record.value())
    }
}
