//! The shape of a reply: the replies a command may give. The tests check every reply they see against it.

use resp::Value;

/// A set of replies. In RESP2 a map is an array of twice the length, a double or a big number is a bulk
/// string, a boolean is an integer, and null is a null bulk string or a null array; [`Shape::fits`] takes
/// care of that.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Shape {
    /// Any reply.
    Any,
    /// This simple string.
    Status(&'static str),
    /// Any simple string.
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
    /// Null.
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
    /// No reply to the command itself (`SUBSCRIBE` and similar commands push instead).
    Push,
}

impl Shape {
    /// `+OK`
    pub const OK: Shape = Shape::Status("OK");
    /// A bulk string or null.
    pub const BULK_OR_NULL: Shape = Shape::OneOf(&[Shape::Bulk, Shape::Null]);
    /// Bulk strings.
    pub const BULKS: Shape = Shape::Array(&Shape::Bulk);

    /// Whether the reply `value`, in RESP3 (`resp3`) or RESP2, has this shape. Every error does.
    pub fn fits(&self, value: &Value, resp3: bool) -> bool {
        let all = |shape: &Shape, items: &[Value]| items.iter().all(|item| shape.fits(item, resp3));
        match (self, value) {
            (Shape::Any, _) | (_, Value::Error(_)) => true,
            (Shape::OneOf(shapes), _) => shapes.iter().any(|shape| shape.fits(value, resp3)),
            (Shape::Status(text), Value::Simple(simple)) => simple == text.as_bytes(),
            (Shape::AnyStatus, Value::Simple(_)) => true,
            (Shape::Int, Value::Int(_)) => true,
            (Shape::Bulk, Value::Bulk(_)) => true,
            (Shape::Null, Value::Null | Value::NullArray) => true,
            (Shape::Array(item), Value::Array(items)) => all(item, items),
            (Shape::Tuple(shapes), Value::Array(items)) => {
                shapes.len() == items.len()
                    && shapes.iter().zip(items).all(|(shape, item)| shape.fits(item, resp3))
            }
            (Shape::Verbatim, Value::Verbatim { .. })
            | (Shape::Double, Value::Double(_))
            | (Shape::Bool, Value::Bool(_)) => resp3,
            (Shape::Push, Value::Push(_)) => resp3,
            (Shape::Push, Value::Array(_)) => !resp3,
            (Shape::Set(item), Value::Set(items)) => resp3 && all(item, items),
            (Shape::Map(key, item), Value::Map(pairs)) => {
                resp3 && pairs.iter().all(|(name, value)| key.fits(name, resp3) && item.fits(value, resp3))
            }
            (Shape::Verbatim | Shape::Double, Value::Bulk(_)) | (Shape::Bool, Value::Int(_)) => !resp3,
            (Shape::Set(item), Value::Array(items)) => !resp3 && all(item, items),
            (Shape::Map(key, item), Value::Array(items)) => {
                !resp3
                    && items.len().is_multiple_of(2)
                    && items.chunks(2).all(|pair| key.fits(&pair[0], resp3) && item.fits(&pair[1], resp3))
            }
            _ => false,
        }
    }
}
