//! The numbers of the format.

use ds::Kind;

use crate::error::Why;
use crate::{VALKEY_VERSION_MAX, VERSION_MAX};

/// Numbers of types and opcodes differ between Redis and Valkey since Redis 7.4 and Valkey 9.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Family {
    /// Redis, and Valkey up to version 11.
    #[default]
    Redis,
    /// Valkey from version 80 on.
    Valkey,
}

impl Family {
    /// The family and the version of a file with this head, if it can be read.
    pub(crate) fn of_head(head: &[u8; 9]) -> Result<(Family, u32), Why> {
        let (family, digits, max) = match (head.strip_prefix(MAGIC), head.strip_prefix(VALKEY_MAGIC)) {
            (Some(digits), _) => (Family::Redis, digits, VERSION_MAX),
            (_, Some(digits)) => (Family::Valkey, digits, VALKEY_VERSION_MAX),
            (None, None) => return Err(Why::Version),
        };
        let version =
            str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        match version.and_then(|text| text.parse().ok()) {
            Some(version @ 1..) if version <= max => Ok((family, version)),
            Some(version @ 1..) => {
                let of = if family == Family::Valkey { " of Valkey" } else { "" };
                Err(Why::NewerVersion { version, of, max })
            }
            _ => Err(Why::Version),
        }
    }
}

/// The format of a value, by the byte before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ValueType {
    /// A string.
    Str = 0,
    /// Elements one by one.
    List = 1,
    /// Members one by one.
    Set = 2,
    /// Members with scores as texts.
    ZSetText = 3,
    /// Fields and values one by one.
    Hash = 4,
    /// A value of a module, with the module's name and the fields of the value: a sketch.
    Module = 7,
    /// Members with scores of 8 bytes.
    ZSet = 5,
    /// Fields and values in a zipmap.
    HashZipmap = 9,
    /// Elements in a ziplist.
    ListZiplist = 10,
    /// Integers in an intset.
    SetIntset = 11,
    /// Members and scores in a ziplist.
    ZSetZiplist = 12,
    /// Fields and values in a ziplist.
    HashZiplist = 13,
    /// Elements in several ziplists.
    ListQuicklist = 14,
    /// A stream with few counters.
    Stream = 15,
    /// Fields and values in a listpack.
    HashListpack = 16,
    /// Members and scores in a listpack.
    ZSetListpack = 17,
    /// Elements in several listpacks, large ones by themselves.
    ListQuicklist2 = 18,
    /// A stream.
    Stream2 = 19,
    /// Members in a listpack.
    SetListpack = 20,
    /// A stream with the time of each consumer's last activity.
    Stream3 = 21,
    /// Fields, values, and when they expire, one by one, as Valkey writes them.
    HashExpiringEach = 22,
    /// Fields and values, and when they expire, one by one.
    HashExpiring = 24,
    /// Fields and values, and when they expire, in a listpack.
    HashExpiringListpack = 25,
    /// A stream with the last messages of its producers.
    Stream4 = 26,
    /// A stream with the last messages of its producers, and with pending entries that have no consumer.
    Stream5 = 27,
}

impl ValueType {
    /// The type with this number in the family.
    pub fn from_code(code: u8, family: Family) -> Result<ValueType, Why> {
        use ValueType::*;
        let known = [
            Str,
            List,
            Set,
            ZSetText,
            Hash,
            Module,
            ZSet,
            HashZipmap,
            ListZiplist,
            SetIntset,
            ZSetZiplist,
            HashZiplist,
            ListQuicklist,
            Stream,
            HashListpack,
            ZSetListpack,
            ListQuicklist2,
            Stream2,
            SetListpack,
            Stream3,
        ];
        let own: &[ValueType] = match family {
            Family::Redis => &[HashExpiring, HashExpiringListpack, Stream4, Stream5],
            Family::Valkey => &[HashExpiringEach],
        };
        known.iter().chain(own).copied().find(|known| *known as u8 == code).ok_or_else(|| {
            let what = match code {
                6 => "values of modules before Redis 4.0 cannot be read",
                22 | 23 if family == Family::Redis => {
                    "hashes with fields that expire, of a release candidate of Redis 7.4, cannot be read"
                }
                28 if family == Family::Redis => "arrays are not supported",
                29..=32 if family == Family::Redis => "hashes that share their fields' names cannot be read",
                33 if family == Family::Redis => "rate limiters are not supported",
                _ => "unknown type of value",
            };
            Why::Unsupported { code, what, key: None }
        })
    }

    /// The kind of value; `None` if the value itself says so.
    pub fn kind(self) -> Option<Kind> {
        use ValueType::*;
        Some(match self {
            Module => return None,
            Str => Kind::Str,
            List | ListZiplist | ListQuicklist | ListQuicklist2 => Kind::List,
            Set | SetIntset | SetListpack => Kind::Set,
            ZSetText | ZSet | ZSetZiplist | ZSetListpack => Kind::ZSet,
            Hash | HashZipmap | HashZiplist | HashListpack | HashExpiring | HashExpiringEach
            | HashExpiringListpack => Kind::Hash,
            Stream | Stream2 | Stream3 | Stream4 | Stream5 => Kind::Stream,
        })
    }
}

/// The beginning of a file; three or four digits of the version follow.
pub(crate) const MAGIC: &[u8; 5] = b"REDIS";
const VALKEY_MAGIC: &[u8; 6] = b"VALKEY";
/// The first version with a checksum at the end.
pub(crate) const VERSION_OF_CHECKSUM: u32 = 5;

/// The top two bits of a length, which say how long it is; and the bytes of the two longer ones.
pub(crate) const LENGTH_6_BITS: u8 = 0b00;
pub(crate) const LENGTH_14_BITS: u8 = 0b01;
pub(crate) const LENGTH_32_BITS: u8 = 0x80;
pub(crate) const LENGTH_64_BITS: u8 = 0x81;
/// The top two bits of a special string. The other bits say which kind.
pub(crate) const SPECIAL: u8 = 0b11;
pub(crate) const SPECIAL_I8: u8 = 0;
pub(crate) const SPECIAL_I16: u8 = 1;
pub(crate) const SPECIAL_I32: u8 = 2;
pub(crate) const SPECIAL_LZF: u8 = 3;

/// Length bytes of text scores that stand for special values.
pub(crate) const SCORE_NAN: u8 = 253;
pub(crate) const SCORE_INFINITY: u8 = 254;
pub(crate) const SCORE_NEGATIVE_INFINITY: u8 = 255;

/// Fields of hashes must expire before this time.
pub(crate) const TIME_END: u64 = 1 << 48;

/// The formats of a node in a [`ValueType::ListQuicklist2`].
pub(crate) const NODE_PLAIN: u64 = 1;
pub(crate) const NODE_LISTPACK: u64 = 2;

/// In Valkey: about slots that are being moved.
pub(crate) const OP_KEY_META: u8 = 243;
pub(crate) const OP_SLOT_INFO: u8 = 244;
pub(crate) const OP_FUNCTION2: u8 = 245;
pub(crate) const OP_FUNCTION_PRE_GA: u8 = 246;
pub(crate) const OP_MODULE_AUX: u8 = 247;
pub(crate) const OP_IDLE: u8 = 248;
pub(crate) const OP_FREQ: u8 = 249;
pub(crate) const OP_AUX: u8 = 250;
pub(crate) const OP_RESIZEDB: u8 = 251;
pub(crate) const OP_EXPIRETIME_MS: u8 = 252;
pub(crate) const OP_EXPIRETIME: u8 = 253;
pub(crate) const OP_SELECTDB: u8 = 254;
pub(crate) const OP_EOF: u8 = 255;

/// The name of the field with memcached's marks on the next key. Redis skips fields that it does not know.
pub(crate) const MARKS_AUX: &str = "darter-memcached";
/// The name of the field that says when members of the next key, a set, expire.
pub(crate) const EXPIRIES_AUX: &str = "darter-expiries";
/// The name of the field that says when the elements of the next key, a queue, arrived.
pub(crate) const ARRIVALS_AUX: &str = "darter-arrivals";

/// The numbers that begin fields of a module.
pub(crate) const MODULE_EOF: u64 = 0;
pub(crate) const MODULE_SINT: u64 = 1;
pub(crate) const MODULE_UINT: u64 = 2;
pub(crate) const MODULE_FLOAT: u64 = 3;
pub(crate) const MODULE_DOUBLE: u64 = 4;
pub(crate) const MODULE_STRING: u64 = 5;
