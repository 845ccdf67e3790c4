//! Moving memory out of blocks that are to become free: each structure walks over its blocks of memory, asks a
//! [`Mover`] about each, and replaces those that are to move.
//!
//! A large structure does so in slices, and keeps its [`WalkPosition`] in between. If it changes meanwhile, the walk may skip
//! something or visit it twice; nothing worse happens.
//!
//! Not here: which blocks are to move; the allocator knows that. Large trees of the standard library are never moved.

use std::collections::{BTreeMap, VecDeque};
use std::mem::{self, ManuallyDrop};
use std::ptr;

use crate::random::Random;

/// Maximum number of entries of a map that is rebuilt.
const MAP_ENTRIES_MAX: usize = 64;

/// Decides which blocks are moved, and for how long.
pub trait Mover {
    /// Whether the block of memory that contains this address is to be moved.
    fn wants(&mut self, block: *const u8) -> bool;

    /// Whether there is time for more; called every few blocks.
    fn has_time(&mut self) -> bool;

    /// The following calls concern one key and its value.
    fn begin_key(&mut self) {}
}

/// Decides randomly, for tests and the simulation.
impl Mover for Random {
    fn wants(&mut self, _: *const u8) -> bool {
        self.below(2) == 0
    }

    fn has_time(&mut self) -> bool {
        self.below(4) > 0
    }
}

/// Position at which a walk continues. The structure defines the meaning of the numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalkPosition {
    /// A part of the structure.
    pub part: usize,
    /// A position in the part.
    pub item: usize,
}

/// Moves the memory of a box if the mover asks for it.
pub fn move_box<T>(boxed: &mut Box<T>, mover: &mut dyn Mover) {
    if !mover.wants((&raw const **boxed).cast()) {
        return;
    }
    let mut moved = Box::<T>::new_uninit();
    // SAFETY: both have this type, and nothing else refers to the new one.
    unsafe { ptr::copy_nonoverlapping(&raw const **boxed, moved.as_mut_ptr(), 1) };
    // SAFETY: it has just been written.
    let old = mem::replace(boxed, unsafe { moved.assume_init() });
    // SAFETY: the box holds a value of the same layout. The value itself has moved to the new box and is not dropped here.
    drop(unsafe { Box::from_raw(Box::into_raw(old).cast::<ManuallyDrop<T>>()) });
}

/// Moves the memory of a slice if the mover asks for it.
pub fn move_slice<T>(slice: &mut Box<[T]>, mover: &mut dyn Mover) {
    if !slice.is_empty() && mover.wants(slice.as_ptr().cast()) {
        let mut moved = Vec::with_capacity(slice.len());
        moved.append(&mut mem::take(slice).into_vec());
        *slice = moved.into_boxed_slice();
    }
}

/// Moves the memory of a vector, whose capacity stays, if the mover asks for it.
pub fn move_vec<T>(vec: &mut Vec<T>, mover: &mut dyn Mover) {
    if vec.capacity() > 0 && mover.wants(vec.as_ptr().cast()) {
        let mut moved = Vec::with_capacity(vec.capacity());
        moved.append(vec);
        *vec = moved;
    }
}

/// Rebuilds a map with few entries if the mover asks for it; a map with more is not moved.
pub fn move_small_map<K: Ord, V>(map: &mut BTreeMap<K, V>, mover: &mut dyn Mover) {
    // The keys lie in the blocks of the map.
    if map.len() <= MAP_ENTRIES_MAX && map.keys().any(|key| mover.wants(ptr::from_ref(key).cast())) {
        *map = mem::take(map).into_iter().collect();
    }
}

/// Moves the memory of a deque if the mover asks for it.
pub fn move_deque<T>(deque: &mut VecDeque<T>, mover: &mut dyn Mover) {
    // Any address within a block will do.
    if deque.capacity() > 0 && mover.wants(deque.as_slices().0.as_ptr().cast()) {
        let mut moved = VecDeque::with_capacity(deque.capacity());
        moved.append(deque);
        *deque = moved;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves everything, or nothing.
    struct Always(bool);

    impl Mover for Always {
        fn wants(&mut self, _: *const u8) -> bool {
            self.0
        }

        fn has_time(&mut self) -> bool {
            true
        }
    }

    #[test]
    fn what_moves_stays_what_it_is_and_nothing_is_dropped_twice() {
        for moves in [false, true] {
            let mover = &mut Always(moves);
            let text = || "text".to_owned();
            let (mut boxed, mut slice, mut vec) =
                (Box::new(text()), Box::from([text(), text()]), vec![text()]);
            let (mut deque, mut map) = (VecDeque::from([text(), text()]), BTreeMap::from([(5, text())]));
            deque.rotate_left(1);
            vec.reserve(10);
            let places = (&raw const *boxed, vec.as_ptr(), vec.capacity());
            move_box(&mut boxed, mover);
            move_slice(&mut slice, mover);
            move_vec(&mut vec, mover);
            move_deque(&mut deque, mover);
            move_small_map(&mut map, mover);
            assert_eq!((&*boxed, &*slice, &vec[..]), (&text(), &[text(), text()][..], &[text()][..]));
            assert_eq!((deque.len(), &deque[1], map.get(&5)), (2, &text(), Some(&text())));
            assert_eq!(vec.capacity(), places.2);
            assert_eq!((&raw const *boxed != places.0, vec.as_ptr() != places.1), (moves, moves));
            let mut empty = (Vec::<u8>::new(), VecDeque::<u8>::new(), Box::<[u8]>::default());
            move_vec(&mut empty.0, mover);
            move_deque(&mut empty.1, mover);
            move_slice(&mut empty.2, mover);
        }
    }
}
