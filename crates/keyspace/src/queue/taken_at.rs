//! Determines the end of a list from which elements are taken, as far as it is known.
//!
//! Pops by clients show it best. A queue whose name says its system is expected to be used as the system does
//! until a client pops. Others are expected to be used as Sidekiq uses its queues, from the tail, until
//! pushes show otherwise: clients that push at the tail would never see the oldest elements taken. A single
//! pop or push at the wrong end, such as one by hand, turns no queue; [`TURNS_AFTER`] of them in a row do.
//!
//! | known by | a pop at the other end | a push at this end |
//! |---|---|---|
//! | nothing, or pushes | decides | counts |
//! | the queue's system | decides | |
//! | takes with leases | counts | counts |
//! | pops | counts | |

use ds::list::End;

/// This many pops at the other end in a row, or pushes at this one, show that elements are taken there from
/// now on.
pub(super) const TURNS_AFTER: u16 = 8;

/// The signs by which an end is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Pushes,
    System,
    /// The pops of [`take`](super::take), which follow the known end and show nothing themselves.
    Takes,
    Pops,
}

/// The end of a queue, and how it is known.
///
/// ```text
///   bits 8 to 10  the signs by which it is known
///   bits 5 to 7   pushes at this end in a row
///   bits 1 to 4   pops at the other end in a row
///   bit  0        the end: 1 is the head
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TakenAt(pub(super) u16);

impl TakenAt {
    const ONE_POP: u16 = 1 << 1;
    const ONE_PUSH: u16 = 1 << 5;
    const BY_SHIFT: u32 = 8;

    /// No sign was seen; the end is the tail.
    pub(super) const UNKNOWN: TakenAt = TakenAt::new(End::Tail, By::Pushes);

    #[inline]
    const fn new(end: End, by: By) -> TakenAt {
        TakenAt(((by as u16) << TakenAt::BY_SHIFT) | matches!(end, End::Head) as u16)
    }

    pub(super) fn by_system(end: End) -> TakenAt {
        TakenAt::new(end, By::System)
    }

    #[inline]
    pub(super) fn by_pops(end: End) -> TakenAt {
        TakenAt::new(end, By::Pops)
    }

    /// The end that a list has shown which was no queue.
    pub(super) fn of_list(shown: Shown) -> TakenAt {
        match (shown.popped(), shown.taken_at()) {
            (Some(end), _) => TakenAt::by_pops(end),
            (None, Some(end)) => TakenAt::new(end, By::Pushes),
            (None, None) => TakenAt(TakenAt::UNKNOWN.0 + shown.pushes() * TakenAt::ONE_PUSH),
        }
    }

    pub(super) fn end(self) -> End {
        if self.0 & 1 == 1 { End::Head } else { End::Tail }
    }

    fn is_by(self, by: By) -> bool {
        self.0 >> TakenAt::BY_SHIFT == by as u16
    }

    fn pops(self) -> u16 {
        (self.0 / TakenAt::ONE_POP) & 0xf
    }

    fn pushes(self) -> u16 {
        (self.0 / TakenAt::ONE_PUSH) & 0x7
    }

    /// Whether pushes show something.
    #[inline]
    pub(super) fn heeds_pushes(self) -> bool {
        !self.is_by(By::Pops) && !self.is_by(By::System)
    }

    /// Whether something shows it, or a few pushes at the wrong end at least do not.
    pub(super) fn is_shown(self) -> bool {
        !self.is_by(By::Pushes) || self.end() == End::Head
    }

    #[cold]
    pub(super) fn after_pop(self, end: End) -> TakenAt {
        let counts = self.is_by(By::Takes) || self.is_by(By::Pops);
        if !counts || end == self.end() || self.pops() + 1 >= TURNS_AFTER {
            TakenAt::by_pops(end)
        } else {
            TakenAt(self.0 + TakenAt::ONE_POP)
        }
    }

    pub(super) fn after_push(self, end: End) -> TakenAt {
        if end != self.end() {
            TakenAt(self.0 - self.pushes() * TakenAt::ONE_PUSH)
        } else if self.pushes() + 1 < TURNS_AFTER {
            TakenAt(self.0 + TakenAt::ONE_PUSH)
        } else {
            TakenAt::new(end.other(), if self.is_by(By::Takes) { By::Takes } else { By::Pushes })
        }
    }

    /// After an element was taken with a lease: if no client has popped, `end` is the end from now on.
    pub(super) fn after_take(self, end: End) -> TakenAt {
        match end == self.end() && (self.is_by(By::Takes) || self.is_by(By::Pops)) {
            true => self,
            false if self.is_by(By::System) => TakenAt::by_pops(end),
            false => TakenAt::new(end, By::Takes),
        }
    }
}

/// How clients use a list that is not known to be a queue.
///
/// ```text
///   bits 2 to 5   pushes at the tail in a row, up to TURNS_AFTER
///   bits 0, 1     the end of the last pop: 0 none, 1 tail, 2 head
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shown(u8);

impl Shown {
    const POPS: u8 = 0b11;
    const ONE_PUSH: u8 = 1 << 2;

    /// The state of a list that was popped at the head.
    pub const POPPED_AT_HEAD: Shown = Shown(2);

    /// The state that a list's mark is.
    #[inline]
    pub(super) fn from_mark(mark: u8) -> Shown {
        Shown(mark)
    }

    /// The mark of the list.
    #[inline]
    pub(super) fn mark(self) -> u8 {
        self.0
    }

    /// Notes a pop.
    #[inline]
    pub(crate) fn pop(&mut self, end: End) {
        self.0 = self.0 & !Self::POPS | if end == End::Head { 2 } else { 1 };
    }

    /// Notes a push.
    #[inline]
    pub(crate) fn push(&mut self, end: End) {
        match end {
            End::Head => self.0 &= Self::POPS,
            End::Tail if self.pushes() < TURNS_AFTER => self.0 += Self::ONE_PUSH,
            End::Tail => {}
        }
    }

    fn pushes(self) -> u16 {
        (self.0 / Self::ONE_PUSH).into()
    }

    /// The end of the last pop.
    pub fn popped(self) -> Option<End> {
        match self.0 & Self::POPS {
            0 => None,
            1 => Some(End::Tail),
            _ => Some(End::Head),
        }
    }

    /// The end from which elements are taken; `None` if nothing shows it.
    pub fn taken_at(self) -> Option<End> {
        self.popped().or((self.pushes() >= TURNS_AFTER).then_some(End::Head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end that is known after signs: `<` and `>` for pops at head and tail, `l` and `r` for pushes
    /// there, `t` for a take.
    fn after(begin: TakenAt, signs: &str) -> End {
        let mut known = begin;
        for sign in signs.chars() {
            known = match sign {
                '<' => known.after_pop(End::Head),
                '>' => known.after_pop(End::Tail),
                'l' if known.heeds_pushes() => known.after_push(End::Head),
                'r' if known.heeds_pushes() => known.after_push(End::Tail),
                't' => known.after_take(known.end()),
                _ => known,
            };
        }
        known.end()
    }

    #[test]
    fn signs_are_heeded_in_their_order() {
        let (system, unknown) = (TakenAt::by_system(End::Head), TakenAt::UNKNOWN);
        for (begin, signs, expected) in [
            (unknown, "", End::Tail),
            (unknown, "<", End::Head),
            (unknown, "rrrrrrr", End::Tail),
            (unknown, "rrrrrrrr", End::Head),
            (unknown, "rrrrlrrrr", End::Tail),
            (unknown, "rrrrrrrrl", End::Head),
            (unknown, "rrrrrrrrllllllll", End::Tail),
            // Pushes count until a client pops.
            (unknown, "rrrrrrrr>", End::Tail),
            (unknown, ">rrrrrrrrrrrr", End::Tail),
            // Against a take there have to be several pops, too.
            (unknown, "trrrrrrr", End::Tail),
            (unknown, "trrrrrrrr", End::Head),
            (unknown, "rrrrrrrrtlllllll", End::Head),
            (unknown, "t<<<<<<<", End::Tail),
            (unknown, "t<l<l<l<l<l<l<l<l", End::Head),
            (unknown, "t<<<<<<<><<<<<<<", End::Tail),
            // The system's way counts until a client pops.
            (system, "rrrrrrrrrr", End::Head),
            (system, "llllllllll", End::Head),
            (system, ">", End::Tail),
            (system, "t>>>>>>>", End::Head),
            (system, "t>>>>>>>>", End::Tail),
        ] {
            assert_eq!(after(begin, signs), expected, "{begin:?} {signs}");
        }
    }

    #[test]
    fn a_list_shows_by_pops_and_else_by_pushes() {
        let mut shown = Shown::default();
        assert_eq!((shown.taken_at(), TakenAt::of_list(shown)), (None, TakenAt::UNKNOWN));
        for pushes in 1..20 {
            shown.push(End::Tail);
            let known = TakenAt::of_list(shown);
            assert_eq!(shown.taken_at(), (pushes >= TURNS_AFTER).then_some(End::Head));
            assert_eq!(after(known, "rr"), if pushes + 2 >= TURNS_AFTER { End::Head } else { End::Tail });
        }
        shown.pop(End::Tail);
        assert_eq!(
            (shown.taken_at(), TakenAt::of_list(shown)),
            (Some(End::Tail), TakenAt::by_pops(End::Tail))
        );
        shown.push(End::Head);
        shown.pop(End::Head);
        assert_eq!(shown, Shown::POPPED_AT_HEAD);
        assert_eq!(TakenAt::of_list(shown), TakenAt::by_pops(End::Head));
    }
}
