//! The value of a key: one of the types.

use std::sync::Arc;

use ds::Kind;
use ds::hash::{Hash, HashRef};
use ds::hash_compressed::CompressedHash;
use ds::mover::{Mover, WalkPosition, move_box, move_slice, move_vec};
use ds::packed::Packed;
use ds::prefetch::prefetch;
use ds::set::{Set, SetRef};
use ds::stream::Stream;
use ds::zset::{ZSet, ZSetRef};
use sketches::{Block, Bloom, CountMin, Cuckoo, Sketch, TDigest, TopK};

use crate::UnixMs;
use crate::changing::Changing;
use crate::queue::List;
use crate::record::{Record, RecordMut};
use crate::string::{Str, StrRef};

/// A value. All but strings are boxed, so that a record stays small.
#[derive(Clone)]
pub enum Value {
    /// A string.
    Str(Str),
    /// A list; never empty in the keyspace.
    List(Box<List>),
    /// A set; never empty in the keyspace.
    Set(Box<Set>),
    /// A sorted set; never empty in the keyspace.
    ZSet(Box<ZSet>),
    /// A hash; never empty in the keyspace.
    Hash(Box<Hash>),
    /// A stream, with entries or without.
    Stream(Box<Stream>),
    /// A sketch of any kind, with items or without.
    Sketch(Box<Sketch>),
}

// `Short` is as long as possible without making this larger.
const _: () = assert!(size_of::<Value>() == 24);
// A set without members that expire takes no more for those that have some.
const _: () = assert!(size_of::<Set>() == 40);

impl Value {
    /// The value, borrowed.
    #[inline]
    pub fn lend(&self) -> ValueRef<'_> {
        match self {
            Value::Str(string) => ValueRef::Str(string.lend()),
            Value::List(list) => ValueRef::List(list),
            Value::Set(set) => ValueRef::Set(set.lend()),
            Value::ZSet(zset) => ValueRef::ZSet(zset.lend()),
            Value::Hash(hash) => ValueRef::Hash(hash.lend()),
            Value::Stream(stream) => ValueRef::Stream(stream),
            Value::Sketch(sketch) => ValueRef::Sketch(sketch),
        }
    }

    /// Number of elements; 1 for a string and a sketch; for a stream this includes pending entries of its groups.
    pub fn len(&self) -> usize {
        self.lend().len()
    }

    /// Whether it is a collection without elements, which must leave the keyspace.
    pub fn is_empty(&self) -> bool {
        self.lend().is_empty()
    }

    /// Frees a bounded part of it. Returns false when nothing is left. Frees a large value in slices.
    pub fn free_slice(&mut self) -> bool {
        match self {
            Value::Str(_) => false,
            Value::List(list) => list.free_slice(),
            Value::Set(set) => set.free_slice(),
            Value::ZSet(zset) => zset.free_slice(),
            Value::Hash(hash) => hash.free_slice(),
            Value::Stream(stream) => stream.free_slice(),
            Value::Sketch(sketch) => sketch.free_slice(),
        }
    }

    /// Moves its memory, beginning at `place`, as long as the mover has time. Returns true at the end, with
    /// `place` reset to the beginning.
    pub(crate) fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        match self {
            Value::Str(string) => {
                string.relocate(mover);
                true
            }
            Value::List(list) => {
                move_box(list, mover);
                list.defragment(place, mover)
            }
            Value::Set(set) => {
                move_box(set, mover);
                set.defragment(place, mover)
            }
            Value::ZSet(zset) => {
                move_box(zset, mover);
                zset.defragment(place, mover)
            }
            Value::Hash(hash) => {
                move_box(hash, mover);
                hash.defragment(place, mover)
            }
            Value::Stream(stream) => {
                move_box(stream, mover);
                stream.defragment(place, mover)
            }
            Value::Sketch(sketch) => {
                move_box(sketch, mover);
                sketch.visit_blocks(&mut |block| match block {
                    Block::Array(array) => move_vec(array, mover),
                    Block::Item(item) => move_slice(item, mover),
                    Block::Centroids(centroids) => move_vec(centroids, mover),
                });
                true
            }
        }
    }

    /// Prefetches the first block allocated for it.
    #[inline]
    pub(crate) fn prefetch(&self) {
        match self {
            Value::Str(Str::Int(_) | Str::Short(_)) => {}
            Value::Str(Str::Plain(block)) => prefetch(block.as_ptr()),
            Value::Str(Str::Shared(shared)) => prefetch(Arc::as_ptr(shared)),
            Value::List(list) => prefetch(&**list),
            Value::Set(set) => prefetch(&**set),
            Value::ZSet(zset) => prefetch(&**zset),
            Value::Hash(hash) => prefetch(&**hash),
            Value::Stream(stream) => prefetch(&**stream),
            Value::Sketch(sketch) => prefetch(&**sketch),
        }
    }

    /// Memory allocated in addition to the record, in bytes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Value::Str(string) => string.memory_bytes(),
            Value::List(list) => size_of::<List>() + list.memory_bytes(),
            Value::Set(set) => size_of::<Set>() + set.memory_bytes(),
            Value::ZSet(zset) => size_of::<ZSet>() + zset.memory_bytes(),
            Value::Hash(hash) => size_of::<Hash>() + hash.memory_bytes(),
            Value::Stream(stream) => size_of::<Stream>() + stream.memory_bytes(),
            Value::Sketch(sketch) => size_of::<Sketch>() + sketch.memory_bytes(),
        }
    }
}

/// A borrowed value, regardless of where it is stored.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    /// A string.
    Str(StrRef<'a>),
    /// A list.
    List(&'a List),
    /// A set.
    Set(SetRef<'a>),
    /// A sorted set.
    ZSet(ZSetRef<'a>),
    /// A hash.
    Hash(HashRef<'a>),
    /// A [compressed](crate::compression) hash; [`expanded`](ValueRef::expanded) makes it like any other.
    Compressed(CompressedHash<'a>),
    /// A stream.
    Stream(&'a Stream),
    /// A sketch.
    Sketch(&'a Sketch),
}

/// Tags of [`Packed`] collections, below [`PACKED_TAGS`]. Only sets have several forms, and hashes the compressed ones.
const PACKED_HASH: u8 = 0;
/// A compressed hash of the small form, and of the big form.
pub(crate) const COMPRESSED_SMALL: u8 = 1;
pub(crate) const COMPRESSED_BIG: u8 = 2;
const PACKED_SET: u8 = 4;
const PACKED_ZSET: u8 = 8;
/// Maximum number of forms of a type; they are the lowest part of its tags.
pub(crate) const PACKED_FORMS: u8 = 4;
/// Number of tags.
pub(crate) const PACKED_TAGS: u8 = 16;

impl<'a> ValueRef<'a> {
    /// The collection as bytes, with a tag that identifies its type and form, if it is small.
    #[inline]
    pub(crate) fn packed(self) -> Option<(u8, Packed<'a>)> {
        match self {
            ValueRef::Hash(hash) => Some((PACKED_HASH, hash.packed()?)),
            ValueRef::ZSet(zset) => Some((PACKED_ZSET, zset.packed()?)),
            ValueRef::Set(set) => set.packed().map(|packed| (PACKED_SET + packed.form, packed)),
            ValueRef::Str(_)
            | ValueRef::List(_)
            | ValueRef::Stream(_)
            | ValueRef::Sketch(_)
            | ValueRef::Compressed(_) => None,
        }
    }

    /// The readable value: a compressed hash is expanded into the beginning of `buffer`, which never shrinks; any other
    /// is returned as it is.
    #[inline]
    #[must_use]
    pub fn expanded(self, buffer: &'a mut Vec<u8>) -> Self {
        if let ValueRef::Compressed(hash) = self { ValueRef::Hash(hash.expand(buffer)) } else { self }
    }

    /// Hides the fields of a hash, or the members of a set, that expired before the time that `before_ms` returns, if it
    /// returns one.
    #[must_use]
    pub fn hiding(self, before_ms: impl FnOnce() -> Option<UnixMs>) -> Self {
        match self {
            ValueRef::Hash(hash) => ValueRef::Hash(hash.hiding(before_ms)),
            ValueRef::Set(set) => ValueRef::Set(set.hiding(before_ms)),
            ValueRef::Str(_) | ValueRef::List(_) | ValueRef::ZSet(_) => self,
            ValueRef::Compressed(_) | ValueRef::Stream(_) => self,
        }
    }

    /// The collection that [`packed`](Self::packed) returned with this tag.
    #[inline]
    pub(crate) fn of_packed(tag: u8, packed: Packed<'a>) -> Self {
        match tag {
            PACKED_HASH => ValueRef::Hash(HashRef::of(packed)),
            PACKED_ZSET => ValueRef::ZSet(ZSetRef::of(packed)),
            _ => ValueRef::Set(SetRef::of(packed)),
        }
    }
}

impl ValueRef<'_> {
    /// Its type.
    pub fn kind(self) -> Kind {
        match self {
            ValueRef::Str(_) => Kind::Str,
            ValueRef::List(_) => Kind::List,
            ValueRef::Set(_) => Kind::Set,
            ValueRef::ZSet(_) => Kind::ZSet,
            ValueRef::Hash(_) | ValueRef::Compressed(_) => Kind::Hash,
            ValueRef::Stream(_) => Kind::Stream,
            ValueRef::Sketch(sketch) => kind_of(sketch),
        }
    }

    /// The name that `OBJECT ENCODING` reports.
    pub fn encoding(self) -> &'static str {
        match self {
            ValueRef::Str(string) => string.encoding(),
            ValueRef::List(list) => list.encoding(),
            ValueRef::Set(set) => set.encoding(),
            ValueRef::ZSet(zset) => zset.encoding(),
            ValueRef::Hash(hash) => hash.encoding(),
            ValueRef::Compressed(hash) => hash.encoding(),
            ValueRef::Stream(_) => "stream",
            ValueRef::Sketch(_) => "raw",
        }
    }

    /// Number of elements; 1 for a string and a sketch.
    pub fn len(self) -> usize {
        match self {
            ValueRef::Str(_) => 1,
            ValueRef::List(list) => list.len(),
            ValueRef::Set(set) => set.len(),
            ValueRef::ZSet(zset) => zset.len(),
            ValueRef::Hash(hash) => hash.len(),
            ValueRef::Compressed(hash) => hash.len(),
            ValueRef::Stream(stream) => stream.element_count(),
            ValueRef::Sketch(_) => 1,
        }
    }

    /// Whether it is a collection without elements, which must leave the keyspace.
    pub fn is_empty(self) -> bool {
        self.len() == 0 && self.kind() != Kind::Stream
    }

    /// Whether it is a hash or a set whose elements have all expired before `now`.
    #[inline]
    pub fn is_due(self, now: i64) -> bool {
        match self {
            ValueRef::Hash(hash) => hash.is_due(now),
            ValueRef::Set(set) => set.is_due(now),
            ValueRef::Str(_) | ValueRef::List(_) | ValueRef::ZSet(_) => false,
            ValueRef::Compressed(_) | ValueRef::Stream(_) => false,
        }
    }

    /// When the first field of a hash, or member of a set, expires, if one does.
    pub fn first_element_expiry(self) -> Option<i64> {
        match self {
            ValueRef::Hash(hash) => hash.first_expiry(),
            ValueRef::Set(set) => set.first_expiry(),
            ValueRef::Str(_) | ValueRef::List(_) | ValueRef::ZSet(_) => None,
            ValueRef::Compressed(_) | ValueRef::Stream(_) => None,
        }
    }

    /// An owned copy.
    pub fn to_value(self) -> Value {
        match self {
            ValueRef::Str(string) => Value::Str(string.to_str()),
            ValueRef::List(list) => Value::List(Box::new(list.clone())),
            ValueRef::Set(set) => Value::Set(Box::new(set.to_set())),
            ValueRef::ZSet(zset) => Value::ZSet(Box::new(zset.to_zset())),
            ValueRef::Hash(hash) => Value::Hash(Box::new(hash.to_hash())),
            ValueRef::Compressed(hash) => Value::Hash(Box::new(hash.to_hash())),
            ValueRef::Stream(stream) => Value::Stream(Box::new(stream.clone())),
            ValueRef::Sketch(sketch) => Value::Sketch(Box::new(sketch.clone())),
        }
    }
}

fn kind_of(sketch: &Sketch) -> Kind {
    match sketch {
        Sketch::Bloom(_) => Kind::Bloom,
        Sketch::Cuckoo(_) => Kind::Cuckoo,
        Sketch::CountMin(_) => Kind::CountMin,
        Sketch::TopK(_) => Kind::TopK,
        Sketch::TDigest(_) => Kind::TDigest,
    }
}

impl std::fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} elements", self.kind().name(), self.len())
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lend().fmt(f)
    }
}

/// The type of a value, for typed look-ups.
pub trait Type: Sized {
    /// A borrowed value of this type.
    type Ref<'a>: Copy;
    /// A value of this type, for changing it.
    type Mut<'a>;
    /// Whether clients may wait for what is added to a value that exists: until a list has several elements, or for a
    /// member of a sorted set that is due earlier.
    const IS_AWAITED_TO_GROW: bool = false;
    /// The value as this type; `None` if it has another. A compressed hash must be expanded first.
    fn of(value: ValueRef<'_>) -> Option<Self::Ref<'_>>;
    /// Prepares a value for [`of`](Self::of): [expands](ValueRef::expanded) a compressed hash, if this type
    /// is the hash.
    #[inline]
    fn expanded<'a>(value: ValueRef<'a>, _buffer: &'a mut Vec<u8>) -> ValueRef<'a> {
        value
    }
    /// Like [`of`](Self::of), without the parts that expired before the time that `hidden_before` returns, if it
    /// returns one. `hidden_before` is only called for types whose parts can expire.
    #[inline]
    fn shown(value: ValueRef<'_>, _hidden_before: impl FnOnce() -> Option<UnixMs>) -> Option<Self::Ref<'_>> {
        Self::of(value)
    }
    /// The value of a record as this type, for changing it.
    fn of_mut(record: RecordMut<'_>) -> Option<Self::Mut<'_>>;
    /// Sets the time of the change, in milliseconds of the monotonic clock. Only lists use it.
    #[inline]
    fn at<'a>(value: Self::Mut<'a>, _steady_ms: UnixMs) -> Self::Mut<'a> {
        value
    }
}

/// A type that is always read in place, so several values can be read at once.
pub trait InPlace: Type {}

impl InPlace for Str {}
impl InPlace for List {}
impl InPlace for Set {}
impl InPlace for ZSet {}
impl InPlace for Stream {}
impl InPlace for Bloom {}
impl InPlace for Cuckoo {}
impl InPlace for CountMin {}
impl InPlace for TopK {}
impl InPlace for TDigest {}

macro_rules! boxed_type {
    ($($name:ident $(, $set_time:ident)?);*) => {$(
        impl Type for $name {
            type Ref<'a> = &'a $name;
            type Mut<'a> = &'a mut $name;
            #[inline]
            fn of(value: ValueRef<'_>) -> Option<&$name> {
                if let ValueRef::$name(inner) = value { Some(inner) } else { None }
            }
            #[inline]
            fn of_mut(record: RecordMut<'_>) -> Option<&mut Self> {
                if !record.lend().is_wide() {
                    return None;
                }
                if let Value::$name(inner) = record.into_value() { Some(inner) } else { None }
            }
            $(
                const IS_AWAITED_TO_GROW: bool = true;
                #[inline]
                fn at<'a>(value: Self::Mut<'a>, steady_ms: UnixMs) -> Self::Mut<'a> {
                    value.$set_time(steady_ms as u64);
                    value
                }
            )?
        }

        impl Creatable for $name {
            fn create(key: &[u8]) -> Record {
                Record::new(key, Value::$name(Box::new($name::new())))
            }
        }
    )*};
}
boxed_type!(List, set_time; Stream);

macro_rules! sketch_type {
    ($($name:ident),*) => {$(
        impl Type for $name {
            type Ref<'a> = &'a $name;
            type Mut<'a> = &'a mut $name;
            #[inline]
            fn of(value: ValueRef<'_>) -> Option<&$name> {
                if let ValueRef::Sketch(Sketch::$name(inner)) = value { Some(inner) } else { None }
            }
            #[inline]
            fn of_mut(record: RecordMut<'_>) -> Option<&mut Self> {
                if !record.lend().is_wide() {
                    return None;
                }
                let Value::Sketch(sketch) = record.into_value() else { return None };
                if let Sketch::$name(inner) = &mut **sketch { Some(inner) } else { None }
            }
        }
    )*};
}
sketch_type!(Bloom, Cuckoo, CountMin, TopK, TDigest);

/// A type that has an empty value, so that a change can create it.
pub trait Creatable: Type {
    /// A record with a new empty value.
    fn create(key: &[u8]) -> Record;
}

impl Type for Str {
    type Ref<'a> = StrRef<'a>;
    type Mut<'a> = &'a mut Str;
    #[inline]
    fn of(value: ValueRef<'_>) -> Option<StrRef<'_>> {
        if let ValueRef::Str(string) = value { Some(string) } else { None }
    }
    #[inline]
    fn of_mut(record: RecordMut<'_>) -> Option<&mut Self> {
        if record.lend().is_small() {
            return None;
        }
        if let Value::Str(string) = record.into_value() { Some(string) } else { None }
    }
}

impl Creatable for Str {
    fn create(key: &[u8]) -> Record {
        Record::new_wide(key, Value::Str(Str::text(b"")))
    }
}

/// A collection that is stored in its record while it is small.
pub trait Packable: Creatable + Default {
    /// The collection, borrowed as a value.
    fn lend_value(&self) -> ValueRef<'_>;
    /// Whether packed bytes with this tag are of this type.
    fn has_tag(tag: u8) -> bool;
    /// Decodes a packed collection.
    fn unpacked(packed: Packed<'_>) -> Self;
    /// The collection as a value.
    fn into_value(self) -> Value;
    /// The collection in a value, if it is of this type.
    fn of_value(value: Value) -> Option<Self>;
    /// The collection in a value, mutable, if it is of this type.
    fn of_value_mut(value: &mut Value) -> Option<&mut Self>;
}

macro_rules! packable_type {
    ($($name:ident, $lent:ident, $first_tag:ident $(, hides $hides:ident)? $(, expands $expands:ident)?);*) => {$(
        impl Packable for $name {
            #[inline]
            fn has_tag(tag: u8) -> bool {
                tag - tag % PACKED_FORMS == $first_tag
            }

            #[inline]
            fn lend_value(&self) -> ValueRef<'_> {
                ValueRef::$name(self.lend())
            }
            #[inline]
            fn unpacked(packed: Packed<'_>) -> Self {
                $name::unpacked(packed)
            }
            fn into_value(self) -> Value {
                Value::$name(Box::new(self))
            }
            fn of_value(value: Value) -> Option<Self> {
                if let Value::$name(inner) = value { Some(*inner) } else { None }
            }
            #[inline]
            fn of_value_mut(value: &mut Value) -> Option<&mut Self> {
                if let Value::$name(inner) = value { Some(inner) } else { None }
            }
        }

        impl Type for $name {
            type Ref<'a> = $lent<'a>;
            type Mut<'a> = Changing<'a, $name>;
            const IS_AWAITED_TO_GROW: bool = matches!(Kind::$name, Kind::ZSet);
            #[inline]
            fn of(value: ValueRef<'_>) -> Option<$lent<'_>> {
                if let ValueRef::$name(inner) = value { Some(inner) } else { None }
            }
            #[inline]
            fn of_mut(record: RecordMut<'_>) -> Option<Changing<'_, Self>> {
                Changing::of(record)
            }
            $(
                #[inline]
                fn shown(
                    value: ValueRef<'_>,
                    hidden_before: impl FnOnce() -> Option<UnixMs>,
                ) -> Option<$lent<'_>> {
                    Some(Self::of(value)?.$hides(hidden_before))
                }
            )?
            $(
                #[inline]
                fn expanded<'a>(value: ValueRef<'a>, buffer: &'a mut Vec<u8>) -> ValueRef<'a> {
                    value.$expands(buffer)
                }
            )?
        }

        impl Creatable for $name {
            fn create(key: &[u8]) -> Record {
                Record::new_small::<$name>(key)
            }
        }
    )*};
}
packable_type!(
    Set, SetRef, PACKED_SET, hides hiding;
    ZSet, ZSetRef, PACKED_ZSET;
    Hash, HashRef, PACKED_HASH, hides hiding, expands expanded
);
