//! Pops that are less of a sign than others of the end from which a queue's elements are taken.
//!
//! Each pop of a list that is a queue is one ([`Figures::taken_at`](super::Figures::taken_at)). Here what is known of that end is put
//! back after them.

use super::list::List;
use super::seen::Book;
use super::taken_at::TakenAt;
use ds::list::End;

/// Removes and returns the element at the end from which this queue's elements are taken. That is no sign of which end it is,
/// unless nobody has popped yet.
pub fn take(list: &mut List, end: End) -> Option<Vec<u8>> {
    let (known, shown) = (known(list), list.shown());
    let element = list.pop(end);
    put_back(list, known.map(|known| known.after_take(end)));
    list.set_shown(shown);
    element
}

/// Removes `count` elements at one end after `visit` has read them in place. Together they are one sign that elements are
/// taken there.
#[inline]
pub fn pop_several_with(list: &mut List, end: End, count: usize, mut visit: impl FnMut(&[u8])) {
    if count > 0 {
        list.pop_with(end, &mut visit);
    }
    if count > 1 {
        let known = known(list);
        (1..count).for_each(|_| _ = list.pop_with(end, &mut visit));
        put_back(list, known);
    }
}

/// What is known of the end; `None` if the list is no queue.
fn known(list: &List) -> Option<TakenAt> {
    Some(book(list)?.figures().get_taken_at())
}

fn put_back(list: &List, known: Option<TakenAt>) {
    if let Some((known, book)) = known.zip(book(list)) {
        book.figures().put_taken_at(known);
    }
}

fn book(list: &List) -> Option<&Book> {
    list.seen()?.book()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::taken_at::TURNS_AFTER;
    use super::super::{Figures, Seen, Shown};
    use super::*;

    /// A queue that was popped at this end.
    fn queue_popped_at(end: End) -> (List, Arc<Figures>) {
        let (mut list, mut seen) = (List::new(), Seen::default());
        let figures = Arc::new(Figures::new(b"queue:a", 1, 0, 0));
        seen.open(Book::new(Arc::clone(&figures)), 0, Shown::default());
        list.set_seen(Some(seen));
        (0..100).for_each(|_| list.push(End::Head, b"job"));
        list.pop(end);
        (list, figures)
    }

    #[test]
    fn what_one_command_pops_turns_no_queue() {
        let (mut list, figures) = queue_popped_at(End::Tail);
        pop_several_with(&mut list, End::Head, 50, |_| ());
        assert_eq!(figures.taken_at(), End::Tail);
        for _ in 1..TURNS_AFTER {
            pop_several_with(&mut list, End::Head, 2, |_| ());
        }
        assert_eq!(figures.taken_at(), End::Head);
    }

    #[test]
    fn takes_neither_turn_a_queue_nor_keep_it_from_being_turned() {
        let (mut list, figures) = queue_popped_at(End::Tail);
        for _ in 0..TURNS_AFTER {
            assert_eq!(figures.taken_at(), End::Tail);
            take(&mut list, End::Tail);
            list.pop(End::Head);
        }
        assert_eq!(figures.taken_at(), End::Head);
    }
}
