//! The shape of a reply: what a command may answer, checked by the tests over every reply they see.

/// A set of replies. In RESP2 a map is an array of twice the length, a double and a big number a bulk string, a
/// boolean an integer, and null an empty bulk string or array; the checker knows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Shape {
    /// Whatever it likes.
    Any,
    /// This simple string.
    Status(&'static str),
    /// Some simple string.
    AnyStatus,
    /// An integer.
    Int,
    /// A bulk string.
    Bulk,
    /// A verbatim string.
    Verbatim,
    /// A double.
    Double,
    /// A boolean.
    Bool,
    /// Nothing.
    Null,
    /// An array of these.
    Array(&'static Shape),
    /// An array of exactly these.
    Tuple(&'static [Shape]),
    /// A set of these.
    Set(&'static Shape),
    /// A map of these.
    Map(&'static Shape, &'static Shape),
    /// One of several.
    OneOf(&'static [Shape]),
    /// No reply to the command itself (`SUBSCRIBE` and its like push instead).
    Push,
}

impl Shape {
    /// `+OK`
    pub const OK: Shape = Shape::Status("OK");
    /// A bulk string or nothing.
    pub const BULK_OR_NULL: Shape = Shape::OneOf(&[Shape::Bulk, Shape::Null]);
    /// Bulk strings.
    pub const BULKS: Shape = Shape::Array(&Shape::Bulk);
}
