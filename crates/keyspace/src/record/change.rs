//! Changes a record in place: value, expiry, marks and access bits.
//!
//! Changes that fit in its block overwrite it; otherwise the record is recreated, with its expiry and marks.

use std::sync::Arc;

use ds::compact_table::Held;
use ds::dictionary::Dictionary;
use ds::mover::{Mover, WalkPosition};

use super::content::Content;
use super::layout::{COLLECTION, INT, MARKED, NARROW_LENGTHS_AT, Parts, expiry_form};
use super::{Record, RecordRef, Wide, write, write_expiry, write_word};
use crate::data_config::UnixMs;
use crate::marks::Marks;
use crate::queue::List;
use crate::string::{Str, parse_int};
use crate::value::{Value, ValueRef};

/// A hash is compressed only if that saves at least one part in this many of its record's memory.
const SAVED_PART_MIN: usize = 4;

/// A record in its table, for changing it.
pub struct RecordMut<'a>(pub(crate) Held<'a, Record>);

impl<'a> RecordMut<'a> {
    /// The record.
    #[inline]
    pub fn lend(&self) -> RecordRef<'_> {
        self.0.get()
    }

    /// Reborrows it for a shorter time.
    #[inline]
    pub(crate) fn again(&mut self) -> RecordMut<'_> {
        RecordMut(self.0.again())
    }

    /// Ends the mutable borrow.
    #[inline]
    pub fn into_ref(self) -> RecordRef<'a> {
        self.0.into_ref()
    }

    /// The value, borrowed as long as the table. The record becomes wide.
    #[inline]
    pub fn into_value(mut self) -> &'a mut Value {
        self.begin_change();
        if self.lend().wide().is_none() {
            self.0.replace(|record| record.rebuilt(Record::wide));
        }
        // SAFETY: the record is wide, so it begins with its head, and nothing else accesses it during `'a`.
        let wide: &'a mut Wide = unsafe { self.0.raw().cast().as_mut() };
        &mut wide.value
    }

    /// Its value, if the record is wide. Only state that a snapshot does not see may be changed through it.
    fn wide_value(mut self) -> Option<&'a mut Value> {
        self.lend().wide()?;
        // SAFETY: the record is wide, so it begins with its head, and nothing else accesses it during `'a`.
        let wide: &'a mut Wide = unsafe { self.0.raw().cast().as_mut() };
        Some(&mut wide.value)
    }

    /// Its list, if it has one. Only the observed state of a queue may be changed through it, which a snapshot does not see.
    pub(crate) fn list_mut(self) -> Option<&'a mut List> {
        if let Some(Value::List(list)) = self.wide_value() { Some(list) } else { None }
    }

    /// Frees the memory that its collection keeps for learning a dictionary. A snapshot does not see this
    /// change.
    pub(crate) fn stop_learning(&mut self) {
        match self.again().wide_value() {
            Some(Value::Hash(hash)) => hash.stop_learning(),
            Some(Value::ZSet(set)) => set.stop_learning(),
            Some(Value::Str(_) | Value::List(_) | Value::Set(_) | Value::Stream(_) | Value::Sketch(_))
            | None => {}
        }
    }

    /// Moves its memory, and that of its value like [`Value::defragment`]. A snapshot does not see this
    /// change.
    pub(crate) fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        mover.begin_key();
        if mover.wants(self.0.raw().as_ptr().cast()) {
            self.0.replace(Record::moved);
        }
        self.again().wide_value().is_none_or(|value| value.defragment(place, mover))
    }

    /// Replaces the value and returns the old one.
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

    /// Replaces the value by a string, in the same block if possible. Returns the old value if it was not a string.
    #[inline]
    pub fn set_string(&mut self, bytes: &[u8]) -> Option<Value> {
        self.change_marks(|_| Marks::default());
        let content = parse_int(bytes).map_or(Content::Text(bytes), Content::Int);
        if self.write_over(content) { None } else { self.change_string(content, bytes) }
    }

    /// Overwrites the content of a narrow record. Returns false if the block would need another form or size, if only
    /// one of the two contents is a collection, or if the old one is a compressed hash.
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
        // The record owns a reference to its dictionary, which would leak.
        if is_collection(old_len) && record.dictionary().is_some() {
            return false;
        }
        let (word, block) = (record.word(), self.0.raw().cast());
        write_word(block, word.with_text_len(text_len));
        write(block, NARROW_LENGTHS_AT + 1, &[text_len as u8]);
        wanted.content.into_iter().for_each(|(at, _)| content.write(block, at));
        true
    }

    /// Must be called before the value is changed; resets the marks.
    #[inline]
    pub(crate) fn begin_change(&mut self) {
        self.change_marks(Marks::of_changed_value);
    }

    /// Replaces the collection in a narrow record. Returns false if the new one is not small enough.
    #[inline]
    pub(crate) fn put_packed(&mut self, value: ValueRef<'_>) -> bool {
        let Some(content) = Content::of(value) else { return false };
        self.write_over(content) || self.put_elsewhere(content)
    }

    /// Replaces the collection in a narrow record by recreating the record.
    fn put_elsewhere(&mut self, content: Content<'_>) -> bool {
        let record = self.lend();
        let access = record.word().kept();
        let Some(new) = Record::narrow(record.key(), content, access, record.form()) else { return false };
        let new = new.heir_of(record);
        self.0.replace(|_| new);
        true
    }

    /// Replaces the collection in a narrow record by a value, which makes the record wide.
    pub(crate) fn put_wide(&mut self, value: Value) {
        let record = self.lend();
        let access = record.word().kept();
        let new = Record::wide(record.key(), value, access, record.form()).heir_of(record);
        self.0.replace(|_| new);
    }

    /// Compresses its value, a hash of `item_count` items, for which `dictionary` returned `packed`. Returns
    /// false and changes nothing if that would save less than one byte in [`SAVED_PART_MIN`] or, for a
    /// compressed hash, if it would take more. A snapshot does not see this change.
    pub(crate) fn compress(
        &mut self,
        is_big: bool,
        item_count: usize,
        dictionary: &Arc<Dictionary>,
        packed: &[u8],
    ) -> bool {
        let old = self.lend();
        let bytes_max = match old.dictionary() {
            Some(_) => old.memory_bytes(),
            None => old.memory_bytes() / SAVED_PART_MIN * (SAVED_PART_MIN - 1),
        };
        let (key, access, form) = (old.key(), old.word().kept(), old.form());
        let content = Content::of_compressed(is_big, item_count, dictionary, packed);
        let new = content.and_then(|content| Record::narrow(key, content, access, form));
        let Some(new) = new.filter(|new| new.lend().memory_bytes() <= bytes_max) else { return false };
        let new = new.heir_of(old);
        self.0.replace(|_| new);
        true
    }

    /// Slow path of `set_string`: the block has another form or size.
    fn change_string(&mut self, content: Content<'_>, bytes: &[u8]) -> Option<Value> {
        let record = self.lend();
        let stays_wide = content.parts(record.key().len(), record.form()).is_none();
        if stays_wide && let Some(Wide { value: Value::Str(_), .. }) = record.wide() {
            // SAFETY: the record is wide, so it begins with its head, and it is mutably borrowed.
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

    /// Records the access of a writing command; `access` is the current access clock.
    #[inline]
    pub fn set_access(&mut self, access: u32) {
        let word = self.lend().word().with_access(access);
        write_word(self.0.raw().cast(), word);
    }

    /// Records the access of a reading command; `access` is the current access clock.
    #[inline]
    pub fn set_read(&mut self, access: u32) {
        let word = self.lend().word().with_read(access);
        write_word(self.0.raw().cast(), word);
    }

    /// Sets the marks. They take room once they were set.
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

    /// Changes the marks if the record has room for them.
    #[inline]
    fn change_marks(&mut self, change: impl FnOnce(Marks) -> Marks) {
        let record = self.lend();
        if record.form() == MARKED {
            let (marks, at) = (change(record.marks()), record.marks_at());
            write(self.0.raw().cast(), at, &marks.to_bytes());
        }
    }

    /// Sets or removes the expiry. Its room is kept.
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
