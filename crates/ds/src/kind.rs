//! The kinds of values: what `TYPE` answers and what files tell apart, whatever the encoding.

/// What kind of value a key holds; `TYPE` answers its name.
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
    /// The name that `TYPE` answers and `SCAN … TYPE` takes.
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

    /// Redis' number of the type, which `DEBUG DIGEST` mixes in.
    pub fn number(self) -> u32 {
        match self {
            Kind::Str => 0,
            Kind::List => 1,
            Kind::Set => 2,
            Kind::ZSet => 3,
            Kind::Hash => 4,
            // 5 are the types of modules.
            Kind::Stream => 6,
        }
    }
}
