//! A collection that is being changed.
//!
//! A large collection is changed in place. A small one is stored as bytes in its record: it is decoded from
//! these, and encoded again when the `Changing` is dropped. So is a compressed hash, which is stored
//! uncompressed afterwards.

use std::mem;
use std::ops::{Deref, DerefMut};

use crate::record::RecordMut;
use crate::value::{COMPRESSED_BIG, COMPRESSED_SMALL, Packable};

/// A collection that is being changed; dropping it writes it back to its record.
pub struct Changing<'a, T: Packable> {
    place: ChangeTarget<'a, T>,
}

enum ChangeTarget<'a, T> {
    Own(&'a mut T),
    Record(RecordMut<'a>, T),
}

impl<'a, T: Packable> Changing<'a, T> {
    /// The collection of a record; `None` if the value has another type.
    #[inline]
    pub(crate) fn of(mut record: RecordMut<'a>) -> Option<Self> {
        let place = match record.lend().small() {
            Some((COMPRESSED_SMALL | COMPRESSED_BIG, _)) => {
                let collection = T::of_value(record.lend().value().to_value())?;
                record.begin_change();
                ChangeTarget::Record(record, collection)
            }
            Some((tag, packed)) if T::has_tag(tag) => {
                let collection = T::unpacked(packed);
                record.begin_change();
                ChangeTarget::Record(record, collection)
            }
            None if record.lend().is_wide() => ChangeTarget::Own(T::of_value_mut(record.into_value())?),
            Some(_) | None => return None,
        };
        Some(Changing { place })
    }
}

impl<T: Packable> Deref for Changing<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.place {
            ChangeTarget::Own(collection) => collection,
            ChangeTarget::Record(_, collection) => collection,
        }
    }
}

impl<T: Packable> DerefMut for Changing<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.place {
            ChangeTarget::Own(collection) => collection,
            ChangeTarget::Record(_, collection) => collection,
        }
    }
}

impl<T: Packable> Drop for Changing<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let ChangeTarget::Record(record, collection) = &mut self.place
            && !record.put_packed(collection.lend_value())
        {
            record.put_wide(mem::take(collection).into_value());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use ds::hash::{CollectionLimits, Hash};
    use ds::hashing::Seed;
    use ds::random::Random;
    use ds::set::{Set, SetLimits};
    use ds::zset::{ZSet, ZSetLimits};

    use super::*;
    use crate::db::Db;
    use crate::marks::Marks;
    use crate::string::Str;
    use crate::value::{Type, Value, ValueRef};
    use ds::Kind;

    const LIMITS: CollectionLimits =
        CollectionLimits { entries_max: 128, value_bytes_max: 64, pack_bytes_min: 0 };
    const ALL_MARKS: Marks =
        Marks { flags: 7, cas: u64::MAX, is_stale: true, was_token_sent: true, is_blessed: true };

    fn changing<'a, T: Packable + Type<Mut<'a> = Changing<'a, T>>>(
        db: &'a mut Db,
        key: &[u8],
    ) -> Changing<'a, T> {
        let (record, _) = db.find_or_insert(7, key, |key, _| T::create(key));
        T::of_mut(record).expect("it has this type")
    }

    fn hash_at(db: &Db, key: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let ValueRef::Hash(hash) = db.find(7, key).expect("it is there").value() else {
            panic!("it is a hash")
        };
        hash.iter().map(|(field, value)| (field.to_vec(), value.bytes().into_owned())).collect()
    }

    #[test]
    fn a_hash_behaves_like_a_map_wherever_it_lies() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let key = vec![b'k'; [1, 10, 255, 256, 300][seed as usize % 5]];
            let mut db = Db::new(Arc::new(Seed::new(1)));
            let mut model = BTreeMap::new();
            drop(changing::<Hash>(&mut db, &key));
            let value_len_max = [8, 64, 70][seed as usize % 3];
            let (mut was_inside, mut was_outside) = (false, false);
            for step in 0..300 {
                let field = format!("field{}", random.below(1 + step / 2)).into_bytes();
                let value = vec![b'v'; random.below(value_len_max) as usize];
                match random.below(8) {
                    0..5 => {
                        let is_new = model.insert(field.clone(), value.clone()).is_none();
                        assert_eq!(changing::<Hash>(&mut db, &key).set(&field, &value, &LIMITS), is_new);
                    }
                    5 => {
                        let is_gone = model.remove(&field).is_some();
                        assert_eq!(changing::<Hash>(&mut db, &key).remove(&field), is_gone);
                    }
                    6 => assert!(db.set_expiry(7, &key, (step % 2 == 0).then_some(step as i64))),
                    _ => db.find_mut(7, &key).expect("it is there").set_marks(ALL_MARKS),
                }
                assert_eq!(hash_at(&db, &key), model, "seed {seed}, step {step}");
                let record = db.find(7, &key).expect("it is there");
                assert_eq!(record.key(), key);
                let is_inside = record.small().is_some();
                was_inside |= is_inside;
                was_outside |= !is_inside;
            }
            assert_eq!((was_inside, was_outside), (key.len() < 256, key.len() > 255 || value_len_max > 8));
        }
    }

    #[test]
    fn expiry_and_marks_outlive_a_change_as_they_should() {
        let mut db = Db::new(Arc::new(Seed::new(1)));
        changing::<Hash>(&mut db, b"key").set(b"field", b"value", &LIMITS);
        db.set_expiry(7, b"key", Some(1_800_000_000_000));
        db.find_mut(7, b"key").expect("it is there").set_marks(ALL_MARKS);
        db.find_mut(7, b"key").expect("it is there").set_read(77);
        for len in [5, 1, 40, 64, 70] {
            changing::<Hash>(&mut db, b"key").set(b"field", &vec![b'v'; len], &LIMITS);
            let record = db.find(7, b"key").expect("it is there");
            assert_eq!(
                (record.expiry(), record.access(), record.was_read()),
                (Some(1_800_000_000_000), 77, true)
            );
            assert_eq!(record.marks(), Marks { flags: 7, is_blessed: true, ..Marks::default() });
            assert_eq!(record.small().is_some(), len <= 64);
        }
    }

    #[test]
    fn every_type_comes_back_from_its_record() {
        let mut db = Db::new(Arc::new(Seed::new(1)));
        let set_limits =
            SetLimits { intset_entries_max: 512, listpack_entries_max: 128, listpack_value_bytes_max: 64 };
        let zset_limits = ZSetLimits { entries_max: 128, value_bytes_max: 64, pack_bytes_min: 0 };
        for (key, members, encoding) in [
            (b"16", ["1", "-5", "300"], "intset"),
            (b"32", ["1", "-5", "70000"], "intset"),
            (b"64", ["1", "-5", "7000000000000"], "intset"),
            (b"st", ["1", "a", ""], "listpack"),
        ] {
            for member in members {
                changing::<Set>(&mut db, key).insert(member.as_bytes(), &set_limits);
            }
            let record = db.find(7, key).expect("it is there");
            let ValueRef::Set(set) = record.value() else { panic!("it is a set") };
            assert!(record.small().is_some() && members.iter().all(|member| set.contains(member.as_bytes())));
            assert_eq!((set.encoding(), set.len(), record.value().to_value().len()), (encoding, 3, 3));
        }
        for score in [2.5, -1.0, 0.0] {
            changing::<ZSet>(&mut db, b"zset").insert(format!("{score}").as_bytes(), score, &zset_limits);
        }
        let record = db.find(7, b"zset").expect("it is there");
        let ValueRef::ZSet(zset) = record.value() else { panic!("it is a sorted set") };
        assert!(record.small().is_some() && zset.iter().map(|(_, score)| score).eq([-1.0, 0.0, 2.5]));
        assert!(Hash::of_mut(db.find_mut(7, b"zset").expect("it is there")).is_none());
    }

    #[test]
    fn a_string_takes_the_place_of_a_small_collection_and_the_other_way_round() {
        let mut db = Db::new(Arc::new(Seed::new(1)));
        changing::<Hash>(&mut db, b"key").set(b"f", b"v", &LIMITS);
        // Texts with which the record keeps its length, and a longer one.
        for text in [&b"123456"[..], b"sixbyt", &[b'x'; 500]] {
            let mut record = db.find_mut(7, b"key").expect("it is there");
            let old = record.set_string(text).expect("it was no string");
            assert_eq!((old.lend().kind(), old.len()), (Kind::Hash, 1));
            let replaced = record.replace_value(old);
            assert!(matches!(replaced, Value::Str(string) if *string.bytes() == *text));
            assert!(record.lend().small().is_some());
        }
        assert!(matches!(db.remove(7, b"key").map(|record| record.into_value()), Some(Value::Hash(_))));
        db.insert(7, b"key", Value::Str(Str::new(b"text")));
        assert!(Hash::of_mut(db.find_mut(7, b"key").expect("it is there")).is_none());
    }

    #[test]
    fn what_a_small_hash_takes() {
        for (fields, bytes) in [(1, 10 + 40), (5, 10 + 104), (20, 10 + 360), (100, 10 + 1720)] {
            let mut db = Db::new(Arc::new(Seed::new(1)));
            for number in 0..fields {
                let field = format!("field{number:02}");
                changing::<Hash>(&mut db, b"key:000001").set(field.as_bytes(), b"eight by", &LIMITS);
            }
            let record = db.find(7, b"key:000001").expect("it is there");
            assert_eq!(record.memory_bytes(), bytes, "{fields}");
        }
    }
}
