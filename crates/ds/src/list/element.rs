//! An element of a list as callers get it: bytes in the list, or in an expanded copy of a compressed node.

use std::fmt;
use std::ops::{Deref, Range};
use std::rc::Rc;

/// An element, which dereferences to bytes.
#[derive(Clone)]
pub struct Element<'a> {
    place: ElementBytes<'a>,
}

#[derive(Clone)]
enum ElementBytes<'a> {
    Lent(&'a [u8]),
    /// In a copy of a node, which its elements share.
    Copied(Rc<Vec<u8>>, Range<u32>),
}

impl<'a> Element<'a> {
    #[inline]
    pub(super) fn lent(bytes: &'a [u8]) -> Self {
        Self { place: ElementBytes::Lent(bytes) }
    }

    pub(super) fn copied(node: &Rc<Vec<u8>>, range: Range<usize>) -> Self {
        Self { place: ElementBytes::Copied(node.clone(), range.start as u32..range.end as u32) }
    }
}

impl Deref for Element<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.place {
            ElementBytes::Lent(bytes) => bytes,
            ElementBytes::Copied(node, range) => &node[range.start as usize..range.end as usize],
        }
    }
}

impl AsRef<[u8]> for Element<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq<[u8]> for Element<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl fmt::Debug for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
