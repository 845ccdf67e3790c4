//! Strings that hold whole collections: listpacks, ziplists, zipmaps and intsets.
//!
//! All are read from the beginning, and each step is checked to stay within the bytes. Counts and backward
//! links, which are not needed, are checked as well: strings that redis-server calls damaged are refused.

mod intset;
pub(crate) mod listpack;
mod ziplist;
mod zipmap;

pub(crate) use intset::integers;
use listpack::Listpack;
use ziplist::Ziplist;
use zipmap::Zipmap;

/// One element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element<'a> {
    /// Bytes.
    Text(&'a [u8]),
    /// An integer. It stands for its decimal text.
    Int(i64),
}

impl<'a> Element<'a> {
    /// The bytes of the element. `text` is a buffer for those of an integer.
    pub(crate) fn bytes<'b>(self, text: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Element::Text(bytes) => bytes,
            Element::Int(number) => text.format(number).as_bytes(),
        }
    }
}

/// Elements packed into a string. Errors say what is wrong with it.
pub(crate) enum Packed<'a> {
    Listpack(Listpack<'a>),
    Ziplist(Ziplist<'a>),
    /// Fields and values in turn.
    Zipmap(Zipmap<'a>),
}

impl<'a> Packed<'a> {
    pub(crate) fn listpack(bytes: &'a [u8]) -> Result<Self, &'static str> {
        Listpack::new(bytes).map(Packed::Listpack).ok_or("a listpack is damaged")
    }

    pub(crate) fn ziplist(bytes: &'a [u8]) -> Result<Self, &'static str> {
        Ziplist::new(bytes).map(Packed::Ziplist).ok_or("a ziplist is damaged")
    }

    pub(crate) fn zipmap(bytes: &'a [u8]) -> Result<Self, &'static str> {
        Zipmap::new(bytes).map(Packed::Zipmap).ok_or("a zipmap is damaged")
    }

    /// The next element; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Element<'a>>, &'static str> {
        match self {
            Packed::Listpack(listpack) => listpack.next().ok_or("a listpack is damaged"),
            Packed::Ziplist(ziplist) => ziplist.next().ok_or("a ziplist is damaged"),
            Packed::Zipmap(zipmap) => zipmap.next().ok_or("a zipmap is damaged"),
        }
    }

    /// The next two elements.
    pub(crate) fn next_pair(&mut self) -> Result<Option<(Element<'a>, Element<'a>)>, &'static str> {
        let Some(first) = self.next()? else { return Ok(None) };
        let second = self.next()?.ok_or("an element without its pair")?;
        Ok(Some((first, second)))
    }
}

/// Takes `N` bytes off the front.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*bytes)
}

/// Takes `count` bytes off the front.
fn take_slice<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(bytes)
}

/// A signed integer of three bytes, little-endian.
fn i24(bytes: [u8; 3]) -> i64 {
    i64::from(i32::from_le_bytes([0, bytes[0], bytes[1], bytes[2]]) >> 8)
}
