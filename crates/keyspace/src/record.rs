//! A key with its value, in one block of memory: a look-up that found its table entry waits for memory once more, not for
//! the key and for the value.
//!
//! ```text
//!   │ value │ access clock, form of the expiry │ length of the key │ key … │ expiry, if it ever had one │
//! ```

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::{fmt, mem, ptr, slice};

use ds::compact_table::{Block, Held};
use ds::prefetch::prefetch;

use crate::config::UnixMs;
use crate::value::Value;

/// Bytes of the expiry by its form: none, one of the next 8,900 years, any.
const EXPIRY_BYTES: [usize; 3] = [0, 6, 8];
/// "Never expires" by the form of the expiry.
const NO_EXPIRY: [UnixMs; 3] = [UnixMs::MAX, (1 << 48) - 1, UnixMs::MAX];

/// Bits of the access clock; above them stands the form of the expiry.
const ACCESS_BITS: u32 = 30;
const ACCESS_MASK: u32 = (1 << ACCESS_BITS) - 1;

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
    access: u32,
    key_len: u32,
}

impl Head {
    #[inline]
    fn expiry_form(&self) -> usize {
        (self.access >> ACCESS_BITS) as usize
    }
}

/// The form that has room for this expiry.
fn expiry_form(expiry: Option<UnixMs>) -> usize {
    expiry.map_or(0, |expiry| if (0..NO_EXPIRY[1]).contains(&expiry) { 1 } else { 2 })
}

// SAFETY: a record owns its block, and nothing in it is tied to a thread.
unsafe impl Send for Record {}
// SAFETY: as above; `&Record` only reads.
unsafe impl Sync for Record {}

impl Record {
    /// The key `key`, at most 4 GiB long, with `value`; it never expires.
    pub(crate) fn new(key: &[u8], value: Value) -> Self {
        Record::with_room(key, value, 0, 0)
    }

    /// The same with an access clock, and room for an expiry of this form.
    fn with_room(key: &[u8], value: Value, access: u32, expiry_form: usize) -> Self {
        let key_len = u32::try_from(key.len()).expect("no request is that long");
        let layout = Record::layout(key.len(), expiry_form);
        // SAFETY: the layout is not empty.
        let block = unsafe { alloc(layout) }.cast::<Head>();
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        let access = access & ACCESS_MASK | (expiry_form as u32) << ACCESS_BITS;
        // SAFETY: the block has room for a head, and its alignment.
        unsafe { block.write(Head { value, access, key_len }) };
        // SAFETY: the block has room for the key behind the head.
        unsafe { ptr::copy_nonoverlapping(key.as_ptr(), key_place(block), key.len()) };
        let record = Record { block };
        let never = NO_EXPIRY[expiry_form].to_le_bytes();
        // SAFETY: the block has room for an expiry of this form behind the key.
        unsafe {
            ptr::copy_nonoverlapping(never.as_ptr(), record.lend().expiry_place(), EXPIRY_BYTES[expiry_form])
        };
        record
    }

    fn layout(key_len: usize, expiry_form: usize) -> Layout {
        let bytes = size_of::<Head>() + key_len + EXPIRY_BYTES[expiry_form];
        Layout::from_size_align(bytes, align_of::<Head>()).expect("the length of a key is bounded")
    }

    /// The record, lent.
    #[inline]
    pub fn lend(&self) -> RecordRef<'_> {
        RecordRef { block: self.block, lent: PhantomData }
    }

    /// The value alone.
    pub fn into_value(self) -> Value {
        self.take_apart(|_, head| head.value)
    }

    /// Gives key and head to `then`, and frees the block.
    fn take_apart<R>(self, then: impl FnOnce(&[u8], Head) -> R) -> R {
        let this = mem::ManuallyDrop::new(self);
        let layout = this.lend().layout();
        // SAFETY: the head is valid and read once; it is not dropped, because the record is not.
        let head = unsafe { this.block.read() };
        let result = then(this.lend().key(), head);
        // SAFETY: the block came from `alloc` with this layout, and nothing refers to it any more.
        unsafe { dealloc(this.block.as_ptr().cast(), layout) };
        result
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
        Record::layout(self.head().key_len as usize, self.head().expiry_form())
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

    /// LRU clock in seconds, or LFU minutes and counter, as `maxmemory-policy` says; its lower 30 bits.
    #[inline]
    pub fn access(self) -> u32 {
        self.head().access & ACCESS_MASK
    }

    /// Seconds since the last access, if the access clock counts seconds and says `clock` now. None if the access
    /// was noted by a thread whose clock is ahead.
    pub fn idle_seconds(self, clock: u32) -> u32 {
        let idle = clock.wrapping_sub(self.access()) & ACCESS_MASK;
        if idle <= ACCESS_MASK / 2 { idle } else { 0 }
    }

    /// When it expires, if ever.
    #[inline]
    pub fn expiry(self) -> Option<UnixMs> {
        let form = self.head().expiry_form();
        if form == 0 {
            return None;
        }
        let mut bytes = [0; 8];
        // SAFETY: the expiry was written there when its form was chosen.
        unsafe { ptr::copy_nonoverlapping(self.expiry_place(), bytes.as_mut_ptr(), EXPIRY_BYTES[form]) };
        let expiry = UnixMs::from_le_bytes(bytes);
        (expiry != NO_EXPIRY[form]).then_some(expiry)
    }

    /// Where the expiry stands: behind the key.
    #[inline]
    fn expiry_place(self) -> *mut u8 {
        key_place(self.block).wrapping_add(self.head().key_len as usize)
    }

    /// Whether its time has come, or that of all fields of its hash.
    #[inline]
    pub fn expired(self, now: UnixMs) -> bool {
        self.expiry().is_some_and(|expiry| expiry < now) || self.value().is_due(now)
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

    /// Notes an access: the access clock as it is now.
    #[inline]
    pub fn set_access(&mut self, access: u32) {
        let head = self.head();
        head.access = access & ACCESS_MASK | head.access & !ACCESS_MASK;
    }

    /// Sets the expiry, or takes it away: its room stays.
    pub(crate) fn set_expiry(&mut self, expiry: Option<UnixMs>) {
        let form = expiry_form(expiry);
        if form > self.head().expiry_form() {
            self.0.replace(|record| {
                record.take_apart(|key, head| Record::with_room(key, head.value, head.access, form))
            });
        }
        let form = self.head().expiry_form();
        let place = self.lend().expiry_place();
        let expiry = expiry.map_or(NO_EXPIRY[form], |expiry| expiry.min(UnixMs::MAX - 1));
        // SAFETY: the block has room for an expiry of its form, and the record is borrowed alone.
        unsafe { ptr::copy_nonoverlapping(expiry.to_le_bytes().as_ptr(), place, EXPIRY_BYTES[form]) };
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
    use std::sync::Arc;

    use ds::hashing::Seed;

    use super::*;
    use crate::db::Db;
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

    #[test]
    fn an_expiry_takes_room_once_there_is_one() {
        let mut db = Db::new(Arc::new(Seed::new(1)));
        db.insert(7, b"key", Value::Str(Str::new(b"some value that is not short"))).set_access(u32::MAX);
        let bytes = |db: &Db| db.find(7, b"key").expect("it is there").memory_bytes();
        let without = bytes(&db);
        for (expiry, read, room) in [
            (None, None, 0),
            (Some(0), Some(0), 6),
            (Some(1_800_000_000_000), Some(1_800_000_000_000), 6),
            (None, None, 6),
            (Some((1 << 48) - 2), Some((1 << 48) - 2), 6),
            (Some((1 << 48) - 1), Some((1 << 48) - 1), 8),
            (Some(-1), Some(-1), 8),
            (Some(5), Some(5), 8),
            (None, None, 8),
            (Some(UnixMs::MAX), Some(UnixMs::MAX - 1), 8),
        ] {
            assert!(db.set_expiry(7, b"key", expiry));
            assert_eq!(bytes(&db) - without, room, "{expiry:?}");
            let record = db.find(7, b"key").expect("it is there");
            assert_eq!((record.expiry(), record.access()), (read, ACCESS_MASK));
            assert_eq!(record.expired(6), read.is_some_and(|read| read < 6));
            let Value::Str(string) = record.value() else { panic!("it was a string") };
            assert_eq!(&*string.bytes(), b"some value that is not short");
            assert_eq!(db.volatile_len(), usize::from(expiry.is_some()));
        }
    }

    #[test]
    fn idle_seconds_are_counted_round_the_clock() {
        let mut db = Db::new(Arc::new(Seed::new(1)));
        for (noted, now, idle) in
            [(5, 9, 4), (ACCESS_MASK, ACCESS_MASK + 3, 3), (1_800_000_000, 1_800_000_060, 60), (10, 9, 0)]
        {
            db.find_or_insert(7, b"key", || Value::Str(Str::Int(1))).0.set_access(noted);
            assert_eq!(db.find(7, b"key").expect("it is there").idle_seconds(now), idle);
        }
    }
}
