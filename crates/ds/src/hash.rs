//! The hash type: fields with values.
//!
//! A small hash is one [`Listpack`] of alternating fields and values, in the order in which fields were added. When it has
//! too many entries or too long an item, it becomes a table of records (`hash_big.rs`), for good.
//!
//! Fields may expire ([`ElementExpiries`]). The hash reads no clock: callers remove due fields before they read it.

use crate::dictionary::PackingFigures;
use crate::element_expiry::{ElementExpiries, Hiding};
use crate::hash_big::Big;
pub use crate::hash_big::FieldValue;
use crate::listpack::{Listpack, ListpackRef, push_prefix};
use crate::mover::{Mover, WalkPosition};
use crate::packed::Packed;
use crate::random::reduce;

/// When a hash leaves its small form.
#[derive(Clone, Copy, Debug)]
pub struct CollectionLimits {
    /// Maximum number of entries in the small form.
    pub entries_max: usize,
    /// Maximum length of an item, field or value, in the small form.
    pub value_bytes_max: usize,
    /// Bytes of the records at which a big hash packs its values; 0 disables packing.
    pub pack_bytes_min: usize,
}

/// A hash, owned.
#[derive(Clone)]
pub struct Hash {
    form: Form,
    /// Created when a field first gets an expiry.
    expiries: Option<Box<ElementExpiries>>,
}

#[derive(Clone)]
enum Form {
    Small(Listpack),
    Big(Big),
}

/// A borrowed hash, wherever it is stored.
#[derive(Clone, Copy)]
pub struct HashRef<'a> {
    form: FormRef<'a>,
    expiries: Option<Hiding<'a>>,
}

#[derive(Clone, Copy)]
enum FormRef<'a> {
    Small(ListpackRef<'a>),
    Big(&'a Big),
}

/// The pairs of a small hash.
fn pairs<'a>(pack: ListpackRef<'a>) -> impl Iterator<Item = (&'a [u8], FieldValue<'a>)> {
    let mut items = pack.iter();
    std::iter::from_fn(move || Some((items.next()?, items.next()?.into())))
}

/// The ranges of a field and its value in a small hash.
fn find_pair(
    pack: ListpackRef<'_>,
    field: &[u8],
) -> Option<(std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut ranges = pack.ranges();
    while let (Some(at), Some(value_at)) = (ranges.next(), ranges.next()) {
        if pack.item(at.clone()) == field {
            return Some((at, value_at));
        }
    }
    None
}

impl<'a> HashRef<'a> {
    /// The hash that [`packed`](Self::packed) returned.
    #[inline]
    pub fn of(packed: Packed<'a>) -> Self {
        Self { form: FormRef::Small(ListpackRef::of(packed)), expiries: None }
    }

    /// Hides the fields that expired before the time that `before_ms` returns, if it returns one: they are still there,
    /// but readers do not see them. `before_ms` is only called if fields of the hash expire.
    #[inline]
    #[must_use]
    pub fn hiding(mut self, before_ms: impl FnOnce() -> Option<i64>) -> Self {
        if let Some(expiries) = &mut self.expiries
            && let Some(before_ms) = before_ms()
        {
            *expiries = expiries.before(before_ms);
        }
        self
    }

    #[inline]
    fn hides(self, field: &[u8]) -> bool {
        self.expiries.is_some_and(|expiries| expiries.hides(field))
    }

    /// Number of fields that are not hidden.
    pub fn len(self) -> usize {
        self.whole_len() - self.expiries.map_or(0, Hiding::hidden_count)
    }

    fn whole_len(self) -> usize {
        match self.form {
            FormRef::Small(pack) => pack.len() / 2,
            FormRef::Big(big) => big.len(),
        }
    }

    /// True if there is no field.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING reports.
    pub fn encoding(self) -> &'static str {
        match self.form {
            FormRef::Small(_) if self.expiries.is_some() => "listpackex",
            FormRef::Small(_) => "listpack",
            FormRef::Big(_) => "hashtable",
        }
    }

    /// The value of `field`.
    pub fn get(self, field: &[u8]) -> Option<FieldValue<'a>> {
        if self.hides(field) {
            return None;
        }
        match self.form {
            FormRef::Small(pack) => find_pair(pack, field).map(|(_, value_at)| pack.item(value_at).into()),
            FormRef::Big(big) => big.get(field),
        }
    }

    /// True if there is such a field.
    pub fn contains(self, field: &[u8]) -> bool {
        self.get(field).is_some()
    }

    /// When `field` expires, in ms; `None` if it does not.
    pub fn expiry(self, field: &[u8]) -> Option<i64> {
        if self.hides(field) { None } else { self.expiries?.all().of(field) }
    }

    /// When the first field expires, in ms; hidden fields count.
    pub fn first_expiry(self) -> Option<i64> {
        self.expiries?.all().first_ms()
    }

    /// Whether all fields expired before `now_ms`.
    #[inline]
    pub fn is_due(self, now_ms: i64) -> bool {
        self.expiries.is_some_and(|expiries| expiries.all().are_all_due(self.whole_len(), now_ms))
    }

    /// The fields that expire, with the time in ms, earliest first.
    pub fn expiries(self) -> impl Iterator<Item = (&'a [u8], i64)> {
        self.expiries.into_iter().flat_map(Hiding::shown)
    }

    /// All fields with their values. In a small hash they have the order in which they were added.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], FieldValue<'a>)> {
        let (small, big) = match self.form {
            FormRef::Small(pack) => (Some(pairs(pack)), None),
            FormRef::Big(big) => (None, Some(big.iter())),
        };
        small
            .into_iter()
            .flatten()
            .chain(big.into_iter().flatten())
            .filter(move |(field, _)| !self.hides(field))
    }

    /// Calls `visit` for each field and then its value, with bytes that begin with the item, and the item's length. The
    /// bytes after the item are arbitrary, but may be read: that allows a faster copy of small items.
    pub fn visit_ahead(self, mut visit: impl FnMut(&[u8], usize)) {
        match self.form {
            _ if self.expiries.is_some() => self.iter().for_each(|(field, value)| {
                visit(field, field.len());
                visit(&value.bytes(), value.len());
            }),
            FormRef::Small(pack) => pack.visit_ahead(&mut visit),
            FormRef::Big(big) => big.for_each(|field, value| {
                visit(field, field.len());
                visit(&value.bytes(), value.len());
            }),
        }
    }

    /// Visits fields from `cursor` on with the guarantees of [`CompactTable::scan`](crate::compact_table::CompactTable::scan);
    /// a small hash in one go. Returns the next cursor, or 0 at the end.
    pub fn scan(self, cursor: u64, count: usize, visit: &mut dyn FnMut(&'a [u8], FieldValue<'a>)) -> u64 {
        let visit = &mut |field: &'a [u8], value: FieldValue<'a>| {
            if !self.hides(field) {
                visit(field, value);
            }
        };
        match self.form {
            FormRef::Small(pack) => {
                pairs(pack).for_each(|(field, value)| visit(field, value));
                0
            }
            FormRef::Big(big) => big.scan(cursor, count, visit),
        }
    }

    /// A random field with its value; all are equally likely.
    pub fn random(self, random: u64, random2: u64) -> Option<(&'a [u8], FieldValue<'a>)> {
        let len = self.len();
        if len < self.whole_len() {
            return if len == 0 { None } else { self.iter().nth(reduce(random, len)) };
        }
        match self.form {
            FormRef::Small(pack) if pack.is_empty() => None,
            FormRef::Small(pack) => pairs(pack).nth(reduce(random, pack.len() / 2)),
            FormRef::Big(big) => big.random(random, random2),
        }
    }

    /// The hash as bytes, if it is small and no field expires.
    #[inline]
    pub fn packed(self) -> Option<Packed<'a>> {
        match self.form {
            FormRef::Small(pack) if self.expiries.is_none() => Some(pack.packed()),
            FormRef::Small(_) | FormRef::Big(_) => None,
        }
    }

    /// Figures of the packing of its values; `None` without a dictionary.
    pub fn packing(self) -> Option<PackingFigures> {
        if let FormRef::Big(big) = self.form { big.packing() } else { None }
    }

    /// Appends the listpack of these fields and values to `buffer`.
    pub(crate) fn run_of<'b>(
        pairs: impl Iterator<Item = (&'a [u8], FieldValue<'a>)>,
        buffer: &'b mut Vec<u8>,
    ) -> Packed<'b> {
        let (start, mut count) = (buffer.len(), 0);
        for item in pairs.flat_map(|(field, value)| [field.into(), value]) {
            push_prefix(buffer, item.len());
            buffer.extend_from_slice(&item.bytes());
            count += 1;
        }
        Packed { form: 0, count, bytes: &buffer[start..] }
    }

    /// An owned copy in the big form. No field may expire.
    pub(crate) fn to_big_hash(self) -> Hash {
        debug_assert!(self.expiries.is_none());
        let mut big = Big::new();
        for (field, value) in self.iter() {
            big.set(field, &value.bytes(), 0);
        }
        Hash { form: Form::Big(big), expiries: None }
    }

    /// An owned copy.
    pub fn to_hash(self) -> Hash {
        let form = match self.form {
            FormRef::Small(pack) => Form::Small(Listpack::unpacked(pack.packed())),
            FormRef::Big(big) => Form::Big(big.clone()),
        };
        Hash { form, expiries: self.expiries.map(|expiries| Box::new(expiries.all().clone())) }
    }
}

impl Default for Hash {
    fn default() -> Self {
        Self::new()
    }
}

impl Hash {
    /// An empty hash; allocates nothing.
    pub const fn new() -> Self {
        Self { form: Form::Small(Listpack::new()), expiries: None }
    }

    /// Borrows the hash.
    #[inline]
    pub fn lend(&self) -> HashRef<'_> {
        let form = match &self.form {
            Form::Small(pack) => FormRef::Small(pack.lend()),
            Form::Big(big) => FormRef::Big(big),
        };
        HashRef { form, expiries: self.expiries.as_deref().map(Hiding::none) }
    }

    /// A copy of the hash that [`HashRef::packed`] returned.
    pub fn unpacked(packed: Packed<'_>) -> Self {
        Self { form: Form::Small(Listpack::unpacked(packed)), expiries: None }
    }

    /// Announces that `count` fields will be set at once, as HSET does: if the small form may not have that many, the
    /// hash is converted right away, even if some of the fields turn out to be equal.
    pub fn expect(&mut self, count: usize, limits: &CollectionLimits) {
        if count > limits.entries_max {
            self.convert();
        }
    }

    /// Sets when `field`, which must exist, expires.
    pub fn set_expiry(&mut self, field: &[u8], at_ms: i64) {
        debug_assert!(self.lend().contains(field));
        self.expiries.get_or_insert_default().set(field, at_ms);
    }

    /// Removes the expiry of `field`. Returns false if it had none.
    #[inline]
    pub fn persist(&mut self, field: &[u8]) -> bool {
        self.expiries.as_mut().is_some_and(|expiries| expiries.remove(field))
    }

    /// Removes up to `count_max` fields that expired before `now_ms`, and returns them.
    pub fn take_due(&mut self, now_ms: i64, count_max: usize) -> Vec<Box<[u8]>> {
        let mut taken = Vec::new();
        while taken.len() < count_max
            && let Some(field) = self.expiries.as_mut().and_then(|expiries| expiries.pop_due(now_ms))
        {
            self.remove(&field);
            taken.push(field);
        }
        taken
    }

    /// Sets a field and removes its expiry. Returns true if it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: &CollectionLimits) -> bool {
        self.persist(field);
        self.set_keeping_expiry(field, value, limits)
    }

    /// Sets a field and keeps its expiry. Returns true if it is new.
    pub fn set_keeping_expiry(&mut self, field: &[u8], value: &[u8], limits: &CollectionLimits) -> bool {
        if let Form::Big(big) = &mut self.form {
            return big.set(field, value, limits.pack_bytes_min);
        }
        if let Form::Small(pack) = &mut self.form {
            let found = find_pair(pack.lend(), field);
            let is_new = found.is_none();
            let entries = pack.lend().len() / 2 + usize::from(is_new);
            let item_bytes_max = field.len().max(value.len());
            if entries <= limits.entries_max
                && item_bytes_max <= limits.value_bytes_max
                && pack.has_room_for(field.len().saturating_add(value.len()))
            {
                match found {
                    Some((_, value_at)) => pack.replace(value_at, value),
                    None => {
                        pack.push(field);
                        pack.push(value);
                    }
                }
                return is_new;
            }
        }
        self.convert().set(field, value, limits.pack_bytes_min)
    }

    /// Converts the hash to the big form, if it is small.
    fn convert(&mut self) -> &mut Big {
        if let Form::Small(pack) = &self.form {
            let mut big = Big::new();
            for (field, value) in pairs(pack.lend()) {
                big.set(field, &value.bytes(), 0);
            }
            self.form = Form::Big(big);
        }
        match &mut self.form {
            Form::Big(big) => big,
            Form::Small(_) => unreachable!("the lines above made it big"),
        }
    }

    /// Removes a field. Returns true if it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        self.persist(field);
        match &mut self.form {
            Form::Small(pack) => {
                let found = find_pair(pack.lend(), field);
                if let Some((at, value_at)) = found.clone() {
                    pack.remove(at, value_at, 2);
                }
                found.is_some()
            }
            Form::Big(big) => big.remove(field),
        }
    }

    /// Frees the samples that it has collected for its dictionary. It collects them again when fields are set.
    pub fn stop_learning(&mut self) {
        if let Form::Big(big) = &mut self.form {
            big.stop_learning();
        }
    }

    /// Moves its memory from `place` on as long as the mover has time. Returns true at the end, with `place` reset to
    /// the beginning. The expiries are not moved.
    pub fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        match &mut self.form {
            Form::Small(pack) => pack.relocate(mover),
            Form::Big(big) => return big.defragment(place, mover),
        }
        true
    }

    /// Drops a bounded part of the contents. Returns false when nothing is left. Frees a big hash in slices.
    pub fn free_slice(&mut self) -> bool {
        self.expiries = None;
        match &mut self.form {
            Form::Small(pack) => *pack = Listpack::new(),
            Form::Big(big) => big.free_slice(),
        }
        !self.lend().is_empty()
    }

    /// Bytes that the hash has allocated, as requested; the allocator's overhead is not counted.
    pub fn memory_bytes(&self) -> usize {
        let of_expiries = self
            .expiries
            .as_ref()
            .map_or(0, |expiries| size_of::<ElementExpiries>() + expiries.memory_bytes());
        let of_form = match &self.form {
            Form::Small(pack) => pack.memory_bytes(),
            Form::Big(big) => big.memory_bytes(),
        };
        of_form + of_expiries
    }

    /// Panics if the hash is inconsistent; for tests.
    pub fn debug_validate(&self) {
        self.expiries.iter().for_each(|expiries| expiries.debug_validate());
        assert!(self.lend().expiries().all(|(field, _)| self.lend().contains(field)));
        match &self.form {
            Form::Small(pack) => {
                pack.debug_validate();
                assert_eq!(pack.lend().len() % 2, 0);
            }
            Form::Big(big) => big.debug_validate(),
        }
    }
}
