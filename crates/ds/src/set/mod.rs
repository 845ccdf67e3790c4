//! The set type.
//!
//! ```text
//!   intset ---- a member that is no integer, few and short ----> listpack
//!      |                                                            |
//!      +---- too many members, or too long a one ---> hashtable <---+
//! ```
//!
//! A set of integers is an [`Intset`], a small set of strings a [`Listpack`], any other a [`CompactTable`] with
//! one allocation per member. Forms change when a member is added, as in Redis 7.2, and never back.

mod member;

pub use member::Member;

use crate::blob::Blob;
use crate::compact_table::CompactTable;
use crate::hashing::ObjectSeed;
use crate::intset::{Intset, parse_canonical};
use crate::listpack::Listpack;
use crate::mover::{Mover, Place, move_box};
use crate::random::reduce;

/// No intset grows past this, whatever the limits in force are.
const INTSET_ENTRIES_MAX: usize = 1 << 30;

/// When a set leaves its small forms.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// The most members of an intset.
    pub intset_entries_max: usize,
    /// The most members of a listpack.
    pub listpack_entries_max: usize,
    /// The longest member of a listpack.
    pub listpack_value_bytes_max: usize,
}

impl SetLimits {
    fn integers_max(&self) -> usize {
        self.intset_entries_max.min(INTSET_ENTRIES_MAX)
    }
}

/// A set; see the head of this file.
#[derive(Clone)]
pub struct Set {
    form: Form,
}

#[derive(Clone)]
enum Form {
    Integers(Intset),
    Small(Listpack),
    Big(Box<Big>),
}

struct Big {
    table: CompactTable<Blob>,
    seed: ObjectSeed,
    member_bytes: usize,
}

impl Clone for Big {
    fn clone(&self) -> Self {
        Self { table: self.table.cloned_by(Blob::new), ..*self }
    }
}

impl Big {
    fn new() -> Box<Self> {
        Box::new(Self { table: CompactTable::new(), seed: ObjectSeed::next(), member_bytes: 0 })
    }

    fn insert(&mut self, member: &[u8]) -> bool {
        let seed = self.seed;
        let (_, is_new) = self.table.find_or_insert_with(
            seed.hash(member),
            |found| found == member,
            || Blob::new(member),
            |found| seed.hash(found),
        );
        self.member_bytes += if is_new { Blob::memory_bytes(member.len()) } else { 0 };
        is_new
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let removed = self.table.remove(self.seed.hash(member), |found| found == member);
        self.member_bytes -= removed.as_ref().map_or(0, |member| Blob::memory_bytes(member.len()));
        removed.is_some()
    }
}

impl Default for Set {
    fn default() -> Self {
        Self::new()
    }
}

impl Set {
    /// An empty set; allocates nothing.
    pub const fn new() -> Self {
        Self { form: Form::Integers(Intset::new()) }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Integers(integers) => integers.len(),
            Form::Small(pack) => pack.len(),
            Form::Big(big) => big.table.len(),
        }
    }

    /// True if there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING reports.
    pub fn encoding(&self) -> &'static str {
        match self.form {
            Form::Integers(_) => "intset",
            Form::Small(_) => "listpack",
            Form::Big(_) => "hashtable",
        }
    }

    /// True if `member` is in the set.
    pub fn contains(&self, member: &[u8]) -> bool {
        match &self.form {
            Form::Integers(integers) => {
                parse_canonical(member).is_some_and(|number| integers.contains(number))
            }
            Form::Small(pack) => pack.iter().any(|item| item == member),
            Form::Big(big) => big.table.find(big.seed.hash(member), |found| found == member).is_some(),
        }
    }

    /// Says that `count` members will be added, the first of them `first`, as SADD does before it begins:
    /// more than a small form may have convert the set right away, even if some of them turn out to be
    /// equal.
    pub fn expect(&mut self, first: &[u8], count: usize, limits: &SetLimits) {
        match &self.form {
            Form::Integers(integers) if integers.is_empty() => {
                if parse_canonical(first).is_some() && count <= limits.intset_entries_max {
                    return;
                }
                if count <= limits.listpack_entries_max {
                    self.form = Form::Small(Listpack::new());
                } else {
                    self.convert();
                }
            }
            Form::Integers(_) if count > limits.intset_entries_max => {
                self.convert();
            }
            Form::Small(_) if count > limits.listpack_entries_max => {
                self.convert();
            }
            Form::Integers(_) | Form::Small(_) | Form::Big(_) => {}
        }
    }

    /// Adds a member; true if it is new.
    pub fn insert(&mut self, member: &[u8], limits: &SetLimits) -> bool {
        if let Form::Integers(integers) = &mut self.form {
            if let Some(number) = parse_canonical(member) {
                let is_new = integers.insert(number);
                if is_new && integers.len() > limits.integers_max() {
                    self.convert();
                }
                return is_new;
            }
            if let Some(pack) = pack_integers(integers, limits) {
                self.form = Form::Small(pack);
            }
        }
        if let Form::Small(pack) = &mut self.form {
            if pack.iter().any(|item| item == member) {
                return false;
            }
            if pack.len() < limits.listpack_entries_max
                && member.len() <= limits.listpack_value_bytes_max
                && pack.has_room_for(member.len())
            {
                pack.push(member);
                return true;
            }
        }
        self.convert().insert(member)
    }

    /// The big form, to which the set is brought if it has another.
    fn convert(&mut self) -> &mut Big {
        if !matches!(self.form, Form::Big(_)) {
            let mut big = Big::new();
            for member in self.iter() {
                big.insert(&member);
            }
            self.form = Form::Big(big);
        }
        match &mut self.form {
            Form::Big(big) => big,
            Form::Integers(_) | Form::Small(_) => unreachable!("the lines above made it big"),
        }
    }

    /// Removes a member; true if it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.form {
            Form::Integers(integers) => parse_canonical(member).is_some_and(|number| integers.remove(number)),
            Form::Small(pack) => {
                let found = pack.ranges().find(|range| pack.item(range.clone()) == member);
                if let Some(range) = found.clone() {
                    pack.remove(range.clone(), range, 1);
                }
                found.is_some()
            }
            Form::Big(big) => big.remove(member),
        }
    }

    /// All members: integers ascending, a listpack in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = Member<'_>> {
        let (integers, small, big) = match &self.form {
            Form::Integers(integers) => (Some(integers.iter().map(Member::integer)), None, None),
            Form::Small(pack) => (None, Some(pack.iter().map(Member::bytes)), None),
            Form::Big(big) => (None, None, Some(big.table.iter().map(Member::bytes))),
        };
        let small_forms = integers.into_iter().flatten().chain(small.into_iter().flatten());
        small_forms.chain(big.into_iter().flatten())
    }

    /// Visits members from `cursor` on with the promises of [`CompactTable::scan`]; a small set in one go. Returns
    /// the next cursor, 0 at the end.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> u64 {
        match &self.form {
            Form::Integers(_) | Form::Small(_) => {
                self.iter().for_each(|member| visit(&member));
                0
            }
            Form::Big(big) => big.table.scan(cursor, count, &mut |member| visit(member)),
        }
    }

    /// A random member, each equally likely.
    pub fn random(&self, random: u64, random2: u64) -> Option<Member<'_>> {
        if self.is_empty() {
            return None;
        }
        match &self.form {
            Form::Integers(integers) => integers.get(reduce(random, integers.len())).map(Member::integer),
            Form::Small(pack) => pack.iter().nth(reduce(random, pack.len())).map(Member::bytes),
            Form::Big(big) => big.table.random(random, random2).map(Member::bytes),
        }
    }

    /// Takes a random member out, each equally likely.
    pub fn pop_random(&mut self, random: u64, random2: u64) -> Option<Vec<u8>> {
        let member = self.random(random, random2)?.to_vec();
        self.remove(&member);
        Some(member)
    }

    /// Moves its memory from `place` on, as long as the mover has time; true at the end, where `place` is as at the beginning.
    pub fn defragment(&mut self, place: &mut Place, mover: &mut dyn Mover) -> bool {
        match &mut self.form {
            Form::Integers(integers) => integers.relocate(mover),
            Form::Small(pack) => pack.relocate(mover),
            Form::Big(big) => {
                move_box(big, mover);
                return big.table.defragment(place, mover, &mut Blob::relocate);
            }
        }
        true
    }

    /// Drops a bounded piece of the contents; false when nothing is left. Frees a big set in slices.
    pub fn free_slice(&mut self) -> bool {
        match &mut self.form {
            Form::Integers(integers) => *integers = Intset::new(),
            Form::Small(pack) => *pack = Listpack::new(),
            Form::Big(big) => {
                let piece = big.table.drain_segment().unwrap_or_default();
                big.member_bytes -=
                    piece.iter().map(|member| Blob::memory_bytes(member.len())).sum::<usize>();
            }
        }
        !self.is_empty()
    }

    /// Bytes the set has allocated, as asked for; what the allocator adds is not counted.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Integers(integers) => integers.memory_bytes(),
            Form::Small(pack) => pack.memory_bytes(),
            Form::Big(big) => size_of::<Big>() + big.table.memory_bytes() + big.member_bytes,
        }
    }

    /// Panics if the set contradicts itself; for tests.
    pub fn debug_validate(&self) {
        match &self.form {
            Form::Integers(integers) => integers.debug_validate(),
            Form::Small(pack) => pack.debug_validate(),
            Form::Big(big) => {
                big.table.debug_validate(|member| big.seed.hash(member));
                let bytes = big.table.iter().map(|member| Blob::memory_bytes(member.len())).sum::<usize>();
                assert_eq!(bytes, big.member_bytes);
            }
        }
    }
}

/// The listpack of a set of integers that is about to get a member of another kind, if the limits allow it.
fn pack_integers(integers: &Intset, limits: &SetLimits) -> Option<Listpack> {
    let ends = [0, integers.len().saturating_sub(1)].map(|index| integers.get(index).map(Member::integer));
    let longest = ends.iter().flatten().map(|member| member.len()).max().unwrap_or(0);
    if integers.len() >= limits.listpack_entries_max || longest > limits.listpack_value_bytes_max {
        return None;
    }
    let mut pack = Listpack::new();
    for number in integers.iter() {
        let member = Member::integer(number);
        if !pack.has_room_for(member.len()) {
            return None;
        }
        pack.push(&member);
    }
    Some(pack)
}
