//! The kinds of values, independent of their encoding: what `TYPE` reports and files distinguish.

/// The kind of a key's value; `TYPE` reports its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `string`
    Str,
    /// `list`
    List,
    /// `set`
    Set,
    /// `zset`
    ZSet,
    /// `hash`
    Hash,
    /// `stream`
    Stream,
}

impl Kind {
    /// The name that `TYPE` reports and `SCAN … TYPE` accepts.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Str => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::ZSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }

    /// Redis' number of the type, which is part of `DEBUG DIGEST`.
    pub fn number(self) -> u32 {
        match self {
            Kind::Str => 0,
            Kind::List => 1,
            Kind::Set => 2,
            Kind::ZSet => 3,
            Kind::Hash => 4,
            // 5 is the type of modules' values.
            Kind::Stream => 6,
        }
    }
}
