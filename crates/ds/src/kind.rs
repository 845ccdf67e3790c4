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
    /// `MBbloom--`: a Bloom filter. The names of sketches are those of RedisBloom's types, which files have, too.
    Bloom,
    /// `MBbloomCF`: a cuckoo filter.
    Cuckoo,
    /// `CMSk-TYPE`: a count-min sketch.
    CountMin,
    /// `TopK-TYPE`: the most frequent items.
    TopK,
    /// `TDIS-TYPE`: a t-digest.
    TDigest,
}

impl Kind {
    /// The kinds of sketches.
    pub const SKETCHES: [Kind; 5] = [Kind::Bloom, Kind::Cuckoo, Kind::CountMin, Kind::TopK, Kind::TDigest];

    /// The name that `TYPE` reports and `SCAN … TYPE` accepts.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Str => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::ZSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
            Kind::Bloom => "MBbloom--",
            Kind::Cuckoo => "MBbloomCF",
            Kind::CountMin => "CMSk-TYPE",
            Kind::TopK => "TopK-TYPE",
            Kind::TDigest => "TDIS-TYPE",
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
            // The type of modules' values.
            Kind::Bloom | Kind::Cuckoo | Kind::CountMin | Kind::TopK | Kind::TDigest => 5,
            Kind::Stream => 6,
        }
    }
}
