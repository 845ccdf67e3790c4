//! The set type.
//!
//! ```text
//!   intset ---- a member that is no integer, few and short ----> listpack
//!      |                                                            |
//!      +---- too many members, or too long a one ---> hashtable <---+
//! ```
//!
//! A set of integers is an [`Intset`], a small set of strings a [`Listpack`], any other a [`BlobTable`] with one
//! allocation per member. The form changes when a member is added, as in Redis 7.2, and never back.
//!
//! A set with members that expire is a set of one of these forms with their times ([`ElementExpiries`]), as long as there
//! are any. So a set without them takes no byte more. The set reads no clock: callers remove due members before they
//! read it.

mod member;

pub use member::Member;

use crate::blob::Blob;
use crate::blob_table::{BlobTable, Keyed};
use crate::element_expiry::{ElementExpiries, Hiding};
use crate::intset::{Intset, IntsetRef, Width, parse_canonical};
use crate::listpack::{Listpack, ListpackRef};
use crate::mover::{Mover, WalkPosition};
use crate::packed::Packed;
use crate::random::reduce;

/// Maximum number of members of an intset, under any configured limits.
const INTSET_ENTRIES_MAX: usize = 1 << 30;

/// When a set leaves its small forms.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// Maximum number of members of an intset.
    pub intset_entries_max: usize,
    /// Maximum number of members of a listpack.
    pub listpack_entries_max: usize,
    /// Maximum length of a listpack's member.
    pub listpack_value_bytes_max: usize,
}

impl SetLimits {
    fn integers_max(&self) -> usize {
        self.intset_entries_max.min(INTSET_ENTRIES_MAX)
    }
}

/// A set, owned.
#[derive(Clone)]
pub struct Set {
    form: Form,
}

#[derive(Clone)]
enum Form {
    Integers(Intset),
    Small(Listpack),
    Big(Box<Big>),
    Expiring(Box<Expiring>),
}

/// A set with members that expire.
#[derive(Clone, Default)]
struct Expiring {
    /// All members, in one of the other forms.
    members: Set,
    /// The times of some of them.
    expiries: ElementExpiries,
}

/// A borrowed set, wherever it is stored.
#[derive(Clone, Copy)]
pub struct SetRef<'a> {
    form: FormRef<'a>,
}

#[derive(Clone, Copy)]
enum FormRef<'a> {
    Integers(IntsetRef<'a>),
    Small(ListpackRef<'a>),
    Big(&'a Big),
    Expiring(&'a Set, Hiding<'a>),
}

/// The records of a large set: its members.
enum Members {}

type Big = BlobTable<Members>;

impl Keyed for Members {
    #[inline]
    fn key(record: &[u8]) -> &[u8] {
        record
    }
}

impl Big {
    fn insert(&mut self, member: &[u8]) -> bool {
        self.put(member, member.len(), || Blob::new(member), |_| true)
    }
}

const ONE_LEVEL: &str = "the members of a set that expire are in a plain set";

/// Width of integers by [`Packed`] form minus one; form 0 is a listpack.
const INTEGERS: [Width; 3] = [Width::Two, Width::Four, Width::Eight];

impl<'a> SetRef<'a> {
    /// The set that [`packed`](Self::packed) returned.
    #[inline]
    pub fn of(packed: Packed<'a>) -> Self {
        let form = match packed.form.checked_sub(1) {
            None => FormRef::Small(ListpackRef::of(packed)),
            Some(width) => FormRef::Integers(IntsetRef::new(packed.bytes, INTEGERS[usize::from(width)])),
        };
        Self { form }
    }

    /// The set as bytes, if it is small.
    #[inline]
    pub fn packed(self) -> Option<Packed<'a>> {
        match self.form {
            FormRef::Integers(integers) => {
                let width = INTEGERS.iter().position(|&width| width == integers.width());
                let form = 1 + width.expect("all widths are there") as u8;
                Some(Packed { form, count: integers.len(), bytes: integers.bytes() })
            }
            FormRef::Small(pack) => Some(pack.packed()),
            FormRef::Big(_) | FormRef::Expiring(..) => None,
        }
    }

    /// Hides the members that expired before the time that `before_ms` returns, if it returns one: they are still there,
    /// but readers do not see them. `before_ms` is only called if members of the set expire.
    #[inline]
    #[must_use]
    pub fn hiding(self, before_ms: impl FnOnce() -> Option<i64>) -> Self {
        if let FormRef::Expiring(members, hiding) = self.form
            && let Some(before_ms) = before_ms()
        {
            return Self { form: FormRef::Expiring(members, hiding.before(before_ms)) };
        }
        self
    }

    /// The set without the times of its members, and what they hide.
    #[inline]
    fn parts(self) -> (SetRef<'a>, Option<Hiding<'a>>) {
        match self.form {
            FormRef::Expiring(members, hiding) => (members.lend(), Some(hiding)),
            FormRef::Integers(_) | FormRef::Small(_) | FormRef::Big(_) => (self, None),
        }
    }

    /// Number of members that are not hidden.
    pub fn len(self) -> usize {
        match self.form {
            FormRef::Integers(integers) => integers.len(),
            FormRef::Small(pack) => pack.len(),
            FormRef::Big(big) => big.len(),
            FormRef::Expiring(members, hiding) => members.lend().len() - hiding.hidden_count(),
        }
    }

    /// True if there is no member.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING reports.
    pub fn encoding(self) -> &'static str {
        match self.form {
            FormRef::Integers(_) => "intset",
            FormRef::Small(_) => "listpack",
            FormRef::Big(_) => "hashtable",
            FormRef::Expiring(members, _) => match members.form {
                Form::Big(_) => "hashtable",
                Form::Integers(_) | Form::Small(_) | Form::Expiring(_) => "listpackex",
            },
        }
    }

    /// True if `member` is in the set.
    pub fn contains(self, member: &[u8]) -> bool {
        match self.form {
            FormRef::Integers(integers) => {
                parse_canonical(member).is_some_and(|number| integers.contains(number))
            }
            FormRef::Small(pack) => pack.iter().any(|item| item == member),
            FormRef::Big(big) => big.find(member).is_some(),
            FormRef::Expiring(members, hiding) => !hiding.hides(member) && members.lend().contains(member),
        }
    }

    /// When `member` expires, in ms; `None` if it does not.
    pub fn expiry(self, member: &[u8]) -> Option<i64> {
        let FormRef::Expiring(_, hiding) = self.form else { return None };
        if hiding.hides(member) { None } else { hiding.all().of(member) }
    }

    /// When the first member expires, in ms; hidden members count.
    #[inline]
    pub fn first_expiry(self) -> Option<i64> {
        if let FormRef::Expiring(_, hiding) = self.form { hiding.all().first_ms() } else { None }
    }

    /// Whether all members expired before `now_ms`.
    #[inline]
    pub fn is_due(self, now_ms: i64) -> bool {
        let FormRef::Expiring(members, hiding) = self.form else { return false };
        hiding.all().are_all_due(members.lend().len(), now_ms)
    }

    /// The members that expire, with the time in ms, earliest first.
    pub fn expiries(self) -> impl Iterator<Item = (&'a [u8], i64)> {
        self.parts().1.into_iter().flat_map(Hiding::shown)
    }

    /// All members: integers in ascending order, those of a listpack in the order in which they were added.
    pub fn iter(self) -> impl Iterator<Item = Member<'a>> {
        let (plain, hiding) = self.parts();
        let (integers, small, big) = match plain.form {
            FormRef::Integers(integers) => (Some(integers.iter().map(Member::integer)), None, None),
            FormRef::Small(pack) => (None, Some(pack.iter().map(Member::bytes)), None),
            FormRef::Big(big) => (None, None, Some(big.iter().map(Member::bytes))),
            FormRef::Expiring(..) => unreachable!("{ONE_LEVEL}"),
        };
        let small_forms = integers.into_iter().flatten().chain(small.into_iter().flatten());
        let all = small_forms.chain(big.into_iter().flatten());
        all.filter(move |member| hiding.is_none_or(|hiding| !hiding.hides(member)))
    }

    /// Calls `visit` for all members in the order of [`iter`](Self::iter), with bytes that begin with the member, and its
    /// length. The bytes after the member are arbitrary, but may be read: that allows a faster copy of small members. No
    /// [`Member`] is created, which would be written to memory in parts and read back as a whole before the parts have arrived.
    pub fn visit_ahead(self, mut visit: impl FnMut(&[u8], usize)) {
        match self.form {
            FormRef::Integers(integers) => integers.iter().for_each(|number| {
                let mut buffer = itoa::Buffer::new();
                let digits = buffer.format(number).as_bytes();
                visit(digits, digits.len());
            }),
            FormRef::Small(pack) => pack.visit_ahead(&mut visit),
            FormRef::Big(big) => big.for_each(|member| visit(member, member.len())),
            FormRef::Expiring(..) => self.iter().for_each(|member| visit(&member, member.len())),
        }
    }

    /// Visits members from `cursor` on with the guarantees of [`CompactTable::scan`](crate::compact_table::CompactTable::scan);
    /// a small set in one go. Returns the next cursor, or 0 at the end.
    pub fn scan(self, cursor: u64, count: usize, visit: &mut dyn FnMut(&[u8])) -> u64 {
        match self.form {
            FormRef::Integers(_) | FormRef::Small(_) => {
                self.iter().for_each(|member| visit(&member));
                0
            }
            FormRef::Big(big) => big.scan(cursor, count, &mut |member| visit(member)),
            FormRef::Expiring(members, hiding) => members.lend().scan(cursor, count, &mut |member| {
                if !hiding.hides(member) {
                    visit(member);
                }
            }),
        }
    }

    /// A random member; all are equally likely.
    pub fn random(self, random: u64, random2: u64) -> Option<Member<'a>> {
        if self.is_empty() {
            return None;
        }
        match self.form {
            FormRef::Integers(integers) => integers.get(reduce(random, integers.len())).map(Member::integer),
            FormRef::Small(pack) => pack.iter().nth(reduce(random, pack.len())).map(Member::bytes),
            FormRef::Big(big) => big.random(random, random2).map(Member::bytes),
            FormRef::Expiring(members, hiding) if hiding.hidden_count() == 0 => {
                members.lend().random(random, random2)
            }
            FormRef::Expiring(..) => self.iter().nth(reduce(random, self.len())),
        }
    }

    /// An owned copy.
    pub fn to_set(self) -> Set {
        match (self.form, self.packed()) {
            (FormRef::Big(big), _) => Set { form: Form::Big(Box::new(big.clone())) },
            (FormRef::Integers(_) | FormRef::Small(_), packed) => Set::unpacked(packed.expect("it is small")),
            (FormRef::Expiring(members, hiding), _) => {
                let expiring = Expiring { members: members.clone(), expiries: hiding.all().clone() };
                Set { form: Form::Expiring(Box::new(expiring)) }
            }
        }
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

    /// A copy of the set that [`SetRef::packed`] returned.
    pub fn unpacked(packed: Packed<'_>) -> Self {
        let form = match packed.form.checked_sub(1) {
            None => Form::Small(Listpack::unpacked(packed)),
            Some(width) => Form::Integers(Intset::on(packed.to_vec(), INTEGERS[usize::from(width)])),
        };
        Self { form }
    }

    /// Borrows the set.
    #[inline]
    pub fn lend(&self) -> SetRef<'_> {
        let form = match &self.form {
            Form::Integers(integers) => FormRef::Integers(integers.lend()),
            Form::Small(pack) => FormRef::Small(pack.lend()),
            Form::Big(big) => FormRef::Big(big),
            Form::Expiring(expiring) => {
                FormRef::Expiring(&expiring.members, Hiding::none(&expiring.expiries))
            }
        };
        SetRef { form }
    }

    /// Announces that `count` members will be added, starting with `first`, as SADD does: if the small form may not
    /// have that many, the set is converted right away, even if some of them turn out to be equal.
    pub fn expect(&mut self, first: &[u8], count: usize, limits: &SetLimits) {
        match &self.form {
            Form::Integers(integers) if integers.lend().is_empty() => {
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
            Form::Integers(_) | Form::Small(_) | Form::Big(_) | Form::Expiring(_) => {}
        }
    }

    /// Sets when `member`, which must exist, expires.
    pub fn set_expiry(&mut self, member: &[u8], at_ms: i64) {
        debug_assert!(self.lend().contains(member));
        if !matches!(self.form, Form::Expiring(_)) {
            let expiring = Expiring { members: std::mem::take(self), ..Expiring::default() };
            self.form = Form::Expiring(Box::new(expiring));
        }
        let Form::Expiring(expiring) = &mut self.form else { unreachable!("the lines above made it expire") };
        expiring.expiries.set(member, at_ms);
    }

    /// Removes the expiry of `member`. Returns false if it had none.
    pub fn persist(&mut self, member: &[u8]) -> bool {
        let Form::Expiring(expiring) = &mut self.form else { return false };
        let had = expiring.expiries.remove(member);
        self.drop_times();
        had
    }

    /// Removes up to `count_max` members that expired before `now_ms`, and returns them.
    pub fn take_due(&mut self, now_ms: i64, count_max: usize) -> Vec<Box<[u8]>> {
        let Form::Expiring(expiring) = &mut self.form else { return Vec::new() };
        let mut taken = Vec::new();
        while taken.len() < count_max
            && let Some(member) = expiring.expiries.pop_due(now_ms)
        {
            expiring.members.remove(&member);
            taken.push(member);
        }
        self.drop_times();
        taken
    }

    /// Makes it a plain set if no member expires any more.
    fn drop_times(&mut self) {
        if let Form::Expiring(expiring) = &mut self.form
            && expiring.expiries.is_empty()
        {
            *self = std::mem::take(&mut expiring.members);
        }
    }

    /// Adds a member; if it is there already, its expiry stays. Returns true if it is new.
    pub fn insert(&mut self, member: &[u8], limits: &SetLimits) -> bool {
        if let Form::Big(big) = &mut self.form {
            return big.insert(member);
        }
        if let Form::Integers(integers) = &mut self.form {
            if let Some(number) = parse_canonical(member) {
                let is_new = integers.insert(number);
                if is_new && integers.lend().len() > limits.integers_max() {
                    self.convert();
                }
                return is_new;
            }
            if let Some(pack) = pack_integers(integers, limits) {
                self.form = Form::Small(pack);
            }
        }
        if let Form::Small(pack) = &mut self.form {
            if pack.lend().iter().any(|item| item == member) {
                return false;
            }
            if pack.lend().len() < limits.listpack_entries_max
                && member.len() <= limits.listpack_value_bytes_max
                && pack.has_room_for(member.len())
            {
                pack.push(member);
                return true;
            }
        }
        if let Form::Expiring(expiring) = &mut self.form {
            return expiring.members.insert(member, limits);
        }
        self.convert().insert(member)
    }

    /// Converts the set to the big form, if it has another. No member may expire.
    fn convert(&mut self) -> &mut Big {
        if !matches!(self.form, Form::Big(_)) {
            let mut big = Big::new();
            for member in self.lend().iter() {
                big.insert(&member);
            }
            self.form = Form::Big(big);
        }
        match &mut self.form {
            Form::Big(big) => big,
            Form::Integers(_) | Form::Small(_) | Form::Expiring(_) => {
                unreachable!("the lines above made it big")
            }
        }
    }

    /// Removes a member. Returns true if it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.form {
            Form::Integers(integers) => parse_canonical(member).is_some_and(|number| integers.remove(number)),
            Form::Small(pack) => {
                let found = pack.lend().ranges().find(|range| pack.lend().item(range.clone()) == member);
                if let Some(range) = found.clone() {
                    pack.remove(range.clone(), range, 1);
                }
                found.is_some()
            }
            Form::Big(big) => big.remove(member),
            Form::Expiring(expiring) => {
                expiring.expiries.remove(member);
                let was_there = expiring.members.remove(member);
                self.drop_times();
                was_there
            }
        }
    }

    /// Removes and returns a random member; all are equally likely.
    pub fn pop_random(&mut self, random: u64, random2: u64) -> Option<Vec<u8>> {
        let member = self.lend().random(random, random2)?.to_vec();
        self.remove(&member);
        Some(member)
    }

    /// Moves its memory from `place` on as long as the mover has time. Returns true at the end, with `place` reset to
    /// the beginning. The times of its members are not moved.
    pub fn defragment(&mut self, place: &mut WalkPosition, mover: &mut dyn Mover) -> bool {
        match &mut self.form {
            Form::Integers(integers) => integers.relocate(mover),
            Form::Small(pack) => pack.relocate(mover),
            Form::Big(big) => return big.defragment(place, mover),
            Form::Expiring(expiring) => return expiring.members.defragment(place, mover),
        }
        true
    }

    /// Drops a bounded part of the contents. Returns false when nothing is left. Frees a big set in slices.
    pub fn free_slice(&mut self) -> bool {
        if let Form::Expiring(expiring) = &mut self.form {
            *self = std::mem::take(&mut expiring.members);
        }
        match &mut self.form {
            Form::Integers(integers) => *integers = Intset::new(),
            Form::Small(pack) => *pack = Listpack::new(),
            Form::Big(big) => big.free_slice(),
            Form::Expiring(_) => unreachable!("{ONE_LEVEL}"),
        }
        !self.lend().is_empty()
    }

    /// Bytes that the set has allocated, as requested; the allocator's overhead is not counted.
    pub fn memory_bytes(&self) -> usize {
        match &self.form {
            Form::Integers(integers) => integers.memory_bytes(),
            Form::Small(pack) => pack.memory_bytes(),
            Form::Big(big) => big.memory_bytes(),
            Form::Expiring(expiring) => {
                size_of::<Expiring>() + expiring.members.memory_bytes() + expiring.expiries.memory_bytes()
            }
        }
    }

    /// Panics if the set is inconsistent; for tests.
    pub fn debug_validate(&self) {
        match &self.form {
            Form::Integers(integers) => integers.debug_validate(),
            Form::Small(pack) => pack.debug_validate(),
            Form::Big(big) => big.debug_validate(),
            Form::Expiring(expiring) => {
                let Expiring { members, expiries } = &**expiring;
                assert!(!expiries.is_empty() && !matches!(members.form, Form::Expiring(_)), "{ONE_LEVEL}");
                assert!(expiries.iter().all(|(member, _)| members.lend().contains(member)));
                expiries.debug_validate();
                members.debug_validate();
            }
        }
    }
}

/// Converts a set of integers, to which another kind of member will be added, to a listpack; `None` if the limits do not allow it.
fn pack_integers(integers: &Intset, limits: &SetLimits) -> Option<Listpack> {
    let members = integers.lend();
    let ends = [0, members.len().saturating_sub(1)].map(|index| members.get(index).map(Member::integer));
    let longest = ends.iter().flatten().map(|member| member.len()).max().unwrap_or(0);
    if members.len() >= limits.listpack_entries_max || longest > limits.listpack_value_bytes_max {
        return None;
    }
    let mut pack = Listpack::new();
    for number in members.iter() {
        let member = Member::integer(number);
        if !pack.has_room_for(member.len()) {
            return None;
        }
        pack.push(&member);
    }
    Some(pack)
}
