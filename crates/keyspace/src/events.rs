//! Classes of keyspace events, the letters of `notify-keyspace-events`.

/// A class of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Class {
    /// `K`: publish on `__keyspace@<db>__:<key>`.
    Keyspace = 1 << 0,
    /// `E`: publish on `__keyevent@<db>__:<event>`.
    Keyevent = 1 << 1,
    /// `g`: commands of no type (DEL, EXPIRE, RENAME …).
    Generic = 1 << 2,
    /// `$`
    String = 1 << 3,
    /// `l`
    List = 1 << 4,
    /// `s`
    Set = 1 << 5,
    /// `h`
    Hash = 1 << 6,
    /// `z`
    ZSet = 1 << 7,
    /// `x`
    Expired = 1 << 8,
    /// `e`
    Evicted = 1 << 9,
    /// `t`
    Stream = 1 << 10,
    /// `m`
    KeyMiss = 1 << 11,
    /// `n`
    New = 1 << 14,
}
