//! A key with its value, in one block of memory: a look-up that found its table entry waits for memory once more, not for
//! the key and for the value.
//!
//! ```text
//! narrow  │ word │ lengths, low bits: key, text │ expiry │ marks │ key … │ text …, integer, or head and bytes of a collection │
//! wide    │ word │ length of key │ value                 │ key … │ expiry │ marks            │
//!
//! word: access clock, 24 bits │ was read, 1 │ length of the text, high bits, 4 │ narrow, 1 │ form of expiry and marks, 2
//! ```
//!
//! A string or a small collection whose key is short makes a narrow record if both fit into [`NARROW_BYTES_MAX`]. A string becomes
//! wide when it is to be changed otherwise than as a whole, a collection when it has grown. The expiry takes room once there was one, and so do the marks (`marks.rs`). Whoever changes
//! the value takes marks back, as they prescribe: so none outlives the value that it is about.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::{fmt, mem, ptr, slice};

use ds::compact_table::{Block, Held};
use ds::mover::{Mover, Place};
use ds::packed::Packed;
use ds::prefetch::prefetch;

use crate::config::UnixMs;
use crate::marks::{MARKS_BYTES, Marks};
use crate::string::{Str, StrRef, parse_int};
use crate::value::{PACKED_FORMS, PACKED_TAGS, Packable, Value, ValueRef};

/// Bytes of the expiry by its form: none, one of the next 8,900 years, any, any with marks behind it.
const EXPIRY_BYTES: [usize; 4] = [0, 6, 8, 8];
/// The form that has room for marks.
const MARKED: usize = 3;
/// Bytes of the expiry and of what is behind it, by form.
const TAIL_BYTES: [usize; 4] = [0, 6, 8, 8 + MARKS_BYTES];
/// "Never expires" by the form of the expiry.
const NO_EXPIRY: [UnixMs; 4] = [UnixMs::MAX, (1 << 48) - 1, UnixMs::MAX, UnixMs::MAX];
/// The lowest bit of the form of the expiry in the word.
const FORM_BIT: u32 = 30;

const NARROW: u32 = 1 << 29;
/// Where the high bits of the length of a narrow record's text begin in the word.
const TEXT_BIT: u32 = 25;
/// A reading command has found it since its value was set.
const WAS_READ: u32 = 1 << 24;
const ACCESS_MASK: u32 = WAS_READ - 1;
/// What a record takes along when it is made anew.
const KEPT_MASK: u32 = ACCESS_MASK | WAS_READ;
/// Threads' clocks differ by fewer seconds than this.
const AHEAD_S_MAX: u32 = 3600;

/// Where the fields of a narrow record begin.
const NARROW_LENGTHS_AT: usize = size_of::<u32>();
const NARROW_HEAD_BYTES: usize = NARROW_LENGTHS_AT + 2;
/// Bytes of a narrow record at most: the largest that the allocator has a fine size for.
const NARROW_BYTES_MAX: usize = 2048;
/// Bytes of a narrow record's key at most.
const KEY_BYTES_MAX: usize = u8::MAX as usize;
/// In place of the length of a text: it is an integer.
const INT: u16 = (1 << 12) - 1;
/// The same: it is a collection, whose length with its head is added to this.
const COLLECTION: u16 = NARROW_BYTES_MAX as u16 + 1;
/// The head of a collection: its tag, 4 bits, and above them the number of its items.
const HEAD_BYTES: usize = size_of::<u16>();
/// Items of a collection in a narrow record at most.
const ITEMS_MAX: usize = u16::MAX as usize / PACKED_TAGS as usize;

/// All records are aligned to this and have a multiple of it, as the allocator has it.
const ALIGN: usize = align_of::<Wide>();

/// Bytes of a record's place in the table, with what tables keep free.
const SLOT_BYTES: usize = 10;

/// Bytes that come from memory at once.
const LINE_BYTES: usize = 64;

/// A key with its value.
pub struct Record {
    /// Made by [`Record::narrow`] or [`Record::wide`]; owned.
    block: NonNull<u8>,
}

/// The head of a wide record.
#[repr(C)]
struct Wide {
    word: u32,
    key_len: u32,
    value: Value,
}

/// Where the parts of a record lie.
struct Parts {
    layout: Layout,
    key: (usize, usize),
    expiry_at: usize,
    /// Of a narrow record: where its content begins, and the length of a text or what is in place of it.
    content: Option<(usize, u16)>,
}

impl Parts {
    #[inline]
    fn narrow(form: usize, key_len: usize, text_len: u16) -> Self {
        let key_at = NARROW_HEAD_BYTES + TAIL_BYTES[form];
        let content_at = key_at + key_len;
        let content_bytes = match text_len {
            ..COLLECTION => usize::from(text_len),
            COLLECTION..INT => usize::from(text_len - COLLECTION),
            INT.. => size_of::<i64>(),
        };
        Parts {
            layout: layout((content_at + content_bytes).next_multiple_of(ALIGN)),
            key: (key_at, key_len),
            expiry_at: NARROW_HEAD_BYTES,
            content: Some((content_at, text_len)),
        }
    }

    #[inline]
    fn wide(form: usize, key_len: usize) -> Self {
        let expiry_at = size_of::<Wide>() + key_len;
        Parts {
            layout: layout(expiry_at + TAIL_BYTES[form]),
            key: (size_of::<Wide>(), key_len),
            expiry_at,
            content: None,
        }
    }
}

#[inline]
fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, ALIGN).expect("the length of a key is bounded")
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
    pub fn new(key: &[u8], value: Value) -> Self {
        Record::made(key, value, 0, 0)
    }

    /// The same with a collection that is empty.
    pub(crate) fn new_small<T: Packable>(key: &[u8]) -> Self {
        let empty = T::default();
        let narrow = Content::of(empty.lend_value()).and_then(|content| Record::narrow(key, content, 0, 0));
        narrow.unwrap_or_else(|| Record::wide(key, empty.into_value(), 0, 0))
    }

    /// The same in a form that can be changed at once.
    pub(crate) fn new_wide(key: &[u8], value: Value) -> Self {
        Record::wide(key, value, 0, 0)
    }

    fn made(key: &[u8], value: Value, access: u32, form: usize) -> Self {
        let narrow = Content::of(value.lend()).and_then(|content| Record::narrow(key, content, access, form));
        narrow.unwrap_or_else(|| Record::wide(key, value, access, form))
    }

    /// A narrow record, if that is possible.
    fn narrow(key: &[u8], content: Content<'_>, access: u32, form: usize) -> Option<Self> {
        let parts = narrow_parts(key.len(), content, form)?;
        let (content_at, text_len) = parts.content?;
        let block = allocate(parts.layout);
        let word = access & KEPT_MASK | NARROW | (form as u32) << FORM_BIT;
        write_word(block, with_text_len(word, text_len));
        write(block, NARROW_LENGTHS_AT, &[key.len() as u8, text_len as u8]);
        write(block, parts.key.0, key);
        content.write(block, content_at);
        Some(Record::without_expiry(block))
    }

    fn wide(key: &[u8], value: Value, access: u32, form: usize) -> Self {
        let key_len = u32::try_from(key.len()).expect("no request is that long");
        let parts = Parts::wide(form, key.len());
        let block = allocate(parts.layout);
        let word = access & KEPT_MASK | (form as u32) << FORM_BIT;
        // SAFETY: the block has the alignment and room for the head.
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

    /// The record, lent.
    #[inline]
    pub fn lend(&self) -> RecordRef<'_> {
        RecordRef { block: self.block, lent: PhantomData }
    }

    /// The value alone.
    pub fn into_value(self) -> Value {
        self.take_apart(|_, value| value)
    }

    /// Gives what was lent of it and its value to `then`, and frees the block.
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
        // SAFETY: the block came from `alloc` with this layout, and nothing refers to it any more.
        unsafe { dealloc(this.block.as_ptr(), layout) };
        result
    }

    /// What `make` makes of key, value, access clock and form, with expiry and marks as they were.
    fn rebuilt(self, make: impl FnOnce(&[u8], Value, u32, usize) -> Record) -> Record {
        self.take_apart(|old, value| make(old.key(), value, old.word() & KEPT_MASK, old.form()).heir_of(old))
    }

    /// The record with expiry and marks of `old`, for which there is room.
    fn heir_of(mut self, old: RecordRef<'_>) -> Record {
        self.write_expiry(old.expiry());
        if self.lend().form() == MARKED {
            write(self.block, self.lend().marks_at(), &old.marks().to_bytes());
        }
        self
    }

    /// The same record in another block.
    fn moved(self) -> Record {
        let this = mem::ManuallyDrop::new(self);
        let layout = this.lend().parts().layout;
        let block = allocate(layout);
        // SAFETY: both blocks have this layout, and the new one is nobody else's.
        unsafe { ptr::copy_nonoverlapping(this.block.as_ptr(), block.as_ptr(), layout.size()) };
        // SAFETY: the block came from `alloc` with this layout. Its contents live on in the other one, and it is not dropped.
        unsafe { dealloc(this.block.as_ptr(), layout) };
        Record { block }
    }

    /// Writes the expiry, for which there is room.
    fn write_expiry(&mut self, expiry: Option<UnixMs>) {
        write_expiry(self.lend().parts().expiry_at, self.lend().form(), self.block, expiry);
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no record is empty.
    let block = unsafe { alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

/// What a narrow record can have as its value.
#[derive(Clone, Copy)]
enum Content<'a> {
    Int(i64),
    Text(&'a [u8]),
    /// With the head.
    Collection(u16, &'a [u8]),
}

impl<'a> Content<'a> {
    #[inline]
    fn of(value: ValueRef<'a>) -> Option<Self> {
        if let ValueRef::Str(string) = value {
            return Content::of_string(string);
        }
        let (tag, packed) = value.packed()?;
        let is_short = packed.count <= ITEMS_MAX;
        is_short.then(|| {
            Content::Collection(packed.count as u16 * u16::from(PACKED_TAGS) + u16::from(tag), packed.bytes)
        })
    }

    #[inline]
    fn of_string(string: StrRef<'a>) -> Option<Self> {
        match string {
            StrRef::Int(number) => Some(Content::Int(number)),
            StrRef::Text(text) => Some(Content::Text(text)),
            StrRef::Shared(_) => None,
        }
    }

    /// The length of the text, or what is in place of it; `None` if it is too long.
    #[inline]
    fn text_len(self) -> Option<u16> {
        match self {
            Content::Int(_) => Some(INT),
            Content::Text(text) => (text.len() <= NARROW_BYTES_MAX).then_some(text.len() as u16),
            Content::Collection(_, bytes) => {
                let len = HEAD_BYTES + bytes.len();
                (len < usize::from(INT - COLLECTION)).then_some(COLLECTION + len as u16)
            }
        }
    }

    /// Writes it to a block that is borrowed alone, or new, and has room for it there.
    #[inline]
    fn write(self, block: NonNull<u8>, at: usize) {
        match self {
            Content::Int(number) => write(block, at, &number.to_le_bytes()),
            Content::Text(text) => write(block, at, text),
            Content::Collection(head, bytes) => {
                write(block, at, &head.to_le_bytes());
                write(block, at + HEAD_BYTES, bytes);
            }
        }
    }
}

/// The parts of a narrow record with this content, if that is possible.
#[inline]
fn narrow_parts(key_len: usize, content: Content<'_>, form: usize) -> Option<Parts> {
    let parts = Parts::narrow(form, key_len, content.text_len()?);
    (key_len <= KEY_BYTES_MAX && parts.layout.size() <= NARROW_BYTES_MAX).then_some(parts)
}

/// The word of a record whose text has another length.
#[inline]
fn with_text_len(word: u32, text_len: u16) -> u32 {
    word & !(0xf << TEXT_BIT) | u32::from(text_len >> 8) << TEXT_BIT
}

/// Writes the word of a block that is borrowed alone, or new.
#[inline]
fn write_word(block: NonNull<u8>, word: u32) {
    // SAFETY: every block has the alignment and room for the word; only this file calls it.
    unsafe { block.cast::<u32>().write(word) };
}

/// Writes to a block that is borrowed alone, or new, and has room for it there.
#[inline]
fn write(block: NonNull<u8>, at: usize, bytes: &[u8]) {
    // SAFETY: by what is said above; only this file calls it.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), block.as_ptr().wrapping_add(at), bytes.len()) };
}

#[inline]
fn write_expiry(at: usize, form: usize, block: NonNull<u8>, expiry: Option<UnixMs>) {
    let expiry = expiry.map_or(NO_EXPIRY[form], |expiry| expiry.min(UnixMs::MAX - 1));
    write(block, at, &expiry.to_le_bytes()[..EXPIRY_BYTES[form]]);
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
    block: NonNull<u8>,
    lent: PhantomData<&'a Record>,
}

impl<'a> RecordRef<'a> {
    #[inline]
    fn word(self) -> u32 {
        // SAFETY: every record begins with its word, and nobody changes it while it is lent.
        unsafe { self.block.cast::<u32>().read() }
    }

    #[inline]
    fn form(self) -> usize {
        (self.word() >> FORM_BIT) as usize
    }

    /// The head, if the record is wide.
    #[inline]
    fn wide(self) -> Option<&'a Wide> {
        // SAFETY: a wide record begins with its head, and nobody changes it while it is lent.
        (self.word() & NARROW == 0).then(|| unsafe { self.block.cast().as_ref() })
    }

    /// Bytes of the block.
    #[inline]
    fn bytes(self, at: usize, len: usize) -> &'a [u8] {
        // SAFETY: only what `parts` says is asked for, which was written when the record was made.
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

    /// The length of a narrow record's text, or what is in place of it.
    #[inline]
    fn text_len(self) -> u16 {
        let high_bits = (self.word() >> TEXT_BIT & 0xf) as u16;
        high_bits << 8 | u16::from(self.bytes(NARROW_LENGTHS_AT + 1, 1)[0])
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
                return ValueRef::of_packed(tag, packed);
            }
            None => unreachable!("only wide records have none"),
        })
    }

    /// Whether it is a wide record.
    #[inline]
    pub(crate) fn is_wide(self) -> bool {
        self.word() & NARROW == 0
    }

    /// Whether it is a narrow record with a collection.
    #[inline]
    pub(crate) fn is_small(self) -> bool {
        !self.is_wide() && (COLLECTION..INT).contains(&self.text_len())
    }

    /// The collection of a narrow record, if it has one, as bytes with a tag that says what it is.
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

    /// Asks for what the value keeps elsewhere.
    #[inline]
    pub(crate) fn prefetch_value(self) {
        if let Some(wide) = self.wide() {
            wide.value.prefetch();
        }
    }

    /// What it remembers of its accesses: 24 bits; see [`access`](crate::access).
    #[inline]
    pub fn access(self) -> u32 {
        self.word() & ACCESS_MASK
    }

    /// Seconds since the last access, if the access clock counts seconds and says `clock` now. None if the access
    /// was noted by a thread whose clock is ahead.
    pub fn idle_seconds(self, clock: u32) -> u32 {
        let idle = clock.wrapping_sub(self.access()) & ACCESS_MASK;
        if idle < ACCESS_MASK - AHEAD_S_MAX { idle } else { 0 }
    }

    /// When it expires, if ever.
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

    /// Whether a reading command has found it since its value was set.
    #[inline]
    pub fn was_read(self) -> bool {
        self.word() & WAS_READ != 0
    }

    /// Where the marks are, if there is room for them.
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

    /// Whether its time has come, or that of all fields of its hash.
    #[inline]
    pub fn expired(self, now: UnixMs) -> bool {
        self.expiry().is_some_and(|expiry| expiry < now) || self.value().is_due(now)
    }

    /// Bytes that key and value take, the record itself and its place in the table included.
    pub fn memory_bytes(self) -> usize {
        let elsewhere = self.wide().map_or(0, |wide| wide.value.memory_bytes());
        SLOT_BYTES + self.parts().layout.size() + elsewhere
    }
}

/// A record in its table, to be changed.
pub struct RecordMut<'a>(pub(crate) Held<'a, Record>);

impl<'a> RecordMut<'a> {
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

    /// The value, for as long as the table is borrowed.
    #[inline]
    pub fn into_value(mut self) -> &'a mut Value {
        self.begin_change();
        if self.lend().wide().is_none() {
            self.0.replace(|record| record.rebuilt(Record::wide));
        }
        // SAFETY: the record is wide and begins with its head, and nobody else gets at it for `'a`.
        let wide: &'a mut Wide = unsafe { self.0.raw().cast().as_mut() };
        &mut wide.value
    }

    /// Moves its memory, and that of its value as [`Value::defragment`] does. To a snapshot that is no change.
    pub(crate) fn defragment(&mut self, place: &mut Place, mover: &mut dyn Mover) -> bool {
        mover.begin_key();
        if mover.wants(self.0.raw().as_ptr().cast()) {
            self.0.replace(Record::moved);
        }
        if self.lend().wide().is_none() {
            return true;
        }
        // SAFETY: the record is wide and begins with its head, and it is borrowed alone.
        let wide: &mut Wide = unsafe { self.0.raw().cast().as_mut() };
        wide.value.defragment(place, mover)
    }

    /// Puts `value` in place of the value, which it returns.
    pub fn replace_value(&mut self, value: Value) -> Value {
        self.change_marks(|_| Marks::default());
        let mut old = None;
        self.0.replace(|record| {
            record.rebuilt(|key, replaced, access, form| {
                old = Some(replaced);
                Record::made(key, value, access, form)
            })
        });
        old.expect("every record has a value")
    }

    /// Puts a string in place of the value, in the same block if it can. Returns the old value if that was something
    /// else.
    #[inline]
    pub fn set_string(&mut self, bytes: &[u8]) -> Option<Value> {
        self.change_marks(|_| Marks::default());
        let content = parse_int(bytes).map_or(Content::Text(bytes), Content::Int);
        if self.write_over(content) { None } else { self.change_string(content, bytes) }
    }

    /// Writes content over that of a narrow record; false if its block has another form or size, or one of the two is a
    /// collection and the other a string.
    #[inline]
    fn write_over(&mut self, content: Content<'_>) -> bool {
        let record = self.lend();
        let parts = record.parts();
        let (Some((_, old_len)), Some(text_len)) = (parts.content, content.text_len()) else { return false };
        let wanted = Parts::narrow(record.form(), parts.key.1, text_len);
        let is_collection = |text_len: u16| (COLLECTION..INT).contains(&text_len);
        if wanted.layout != parts.layout || is_collection(text_len) != is_collection(old_len) {
            return false;
        }
        let (word, block) = (record.word(), self.0.raw().cast());
        write_word(block, with_text_len(word, text_len));
        write(block, NARROW_LENGTHS_AT + 1, &[text_len as u8]);
        wanted.content.into_iter().for_each(|(at, _)| content.write(block, at));
        true
    }

    /// The value is about to be changed.
    #[inline]
    pub(crate) fn begin_change(&mut self) {
        self.change_marks(Marks::of_changed_value);
    }

    /// Puts a collection in place of the one in a narrow record; false if it is not small enough.
    #[inline]
    pub(crate) fn put_packed(&mut self, value: ValueRef<'_>) -> bool {
        let Some(content) = Content::of(value) else { return false };
        self.write_over(content) || self.put_elsewhere(content)
    }

    /// The same where the block has another size.
    fn put_elsewhere(&mut self, content: Content<'_>) -> bool {
        let record = self.lend();
        let access = record.word() & KEPT_MASK;
        let Some(new) = Record::narrow(record.key(), content, access, record.form()) else { return false };
        let new = new.heir_of(record);
        self.0.replace(|_| new);
        true
    }

    /// Puts a value in place of a collection in a narrow record.
    pub(crate) fn put_wide(&mut self, value: Value) {
        let record = self.lend();
        let access = record.word() & KEPT_MASK;
        let new = Record::wide(record.key(), value, access, record.form()).heir_of(record);
        self.0.replace(|_| new);
    }

    /// The same where the block has another form or size.
    fn change_string(&mut self, content: Content<'_>, bytes: &[u8]) -> Option<Value> {
        let record = self.lend();
        let stays_wide = narrow_parts(record.key().len(), content, record.form()).is_none();
        if stays_wide && let Some(Wide { value: Value::Str(_), .. }) = record.wide() {
            // SAFETY: the record is wide and begins with its head, and it is borrowed alone.
            let wide: &mut Wide = unsafe { self.0.raw().cast().as_mut() };
            if let Value::Str(old) = &mut wide.value {
                old.assign(bytes);
            }
            return None;
        }
        let mut old = None;
        self.0.replace(|record| {
            record.rebuilt(|key, replaced, access, form| {
                old = Some(replaced).filter(|value| !matches!(value, Value::Str(_)));
                let narrow = Record::narrow(key, content, access, form);
                narrow.unwrap_or_else(|| Record::wide(key, Value::Str(Str::new(bytes)), access, form))
            })
        });
        old
    }

    /// Notes the access of a writing command: the access clock as it is now.
    #[inline]
    pub fn set_access(&mut self, access: u32) {
        let word = access & ACCESS_MASK | self.lend().word() & !KEPT_MASK;
        write_word(self.0.raw().cast(), word);
    }

    /// The same for a reading command.
    #[inline]
    pub fn set_read(&mut self, access: u32) {
        let word = access & ACCESS_MASK | WAS_READ | self.lend().word() & !ACCESS_MASK;
        write_word(self.0.raw().cast(), word);
    }

    /// Sets the marks; they take room from the first time on.
    pub fn set_marks(&mut self, marks: Marks) {
        if self.lend().form() != MARKED {
            if marks == Marks::default() {
                return;
            }
            self.0.replace(|record| {
                record.rebuilt(|key, value, access, _| Record::made(key, value, access, MARKED))
            });
        }
        self.change_marks(|_| marks);
    }

    /// Changes the marks, where there is room for them.
    #[inline]
    fn change_marks(&mut self, change: impl FnOnce(Marks) -> Marks) {
        let record = self.lend();
        if record.form() == MARKED {
            let (marks, at) = (change(record.marks()), record.marks_at());
            write(self.0.raw().cast(), at, &marks.to_bytes());
        }
    }

    /// Sets the expiry, or takes it away: its room stays.
    pub(crate) fn set_expiry(&mut self, expiry: Option<UnixMs>) {
        let form = expiry_form(expiry);
        if form > self.lend().form() {
            self.0.replace(|record| {
                record.rebuilt(|key, value, access, _| Record::made(key, value, access, form))
            });
        }
        let (at, form) = (self.lend().parts().expiry_at, self.lend().form());
        write_expiry(at, form, self.0.raw().cast(), expiry);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let layout = self.lend().parts().layout;
        if self.lend().wide().is_some() {
            // SAFETY: a wide record begins with its head, which is dropped once, here.
            unsafe { self.block.cast::<Wide>().drop_in_place() };
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

#[cfg(test)]
mod tests;
