//! Whether a reply has the shape that its command declares.

use command::Shape;
use resp::Value;

/// Whether `value`, a reply in RESP3 (`resp3`) or RESP2, is one of those that `shape` allows. Errors always are.
pub(crate) fn fits(shape: &Shape, value: &Value, resp3: bool) -> bool {
    let all = |shape: &Shape, items: &[Value]| items.iter().all(|item| fits(shape, item, resp3));
    match (shape, value) {
        (Shape::Any, _) | (_, Value::Error(_)) => true,
        (Shape::OneOf(shapes), _) => shapes.iter().any(|shape| fits(shape, value, resp3)),
        (Shape::Status(text), Value::Simple(simple)) => simple == text.as_bytes(),
        (Shape::AnyStatus, Value::Simple(_)) => true,
        (Shape::Int, Value::Int(_)) => true,
        (Shape::Bulk, Value::Bulk(_)) => true,
        (Shape::Null, Value::Null | Value::NullArray) => true,
        (Shape::Array(item), Value::Array(items)) => all(item, items),
        (Shape::Tuple(shapes), Value::Array(items)) => {
            shapes.len() == items.len()
                && shapes.iter().zip(items).all(|(shape, item)| fits(shape, item, resp3))
        }
        (Shape::Verbatim, Value::Verbatim { .. })
        | (Shape::Double, Value::Double(_))
        | (Shape::Bool, Value::Bool(_)) => resp3,
        (Shape::Set(item), Value::Set(items)) => resp3 && all(item, items),
        (Shape::Map(key, item), Value::Map(pairs)) => {
            resp3 && pairs.iter().all(|(name, value)| fits(key, name, resp3) && fits(item, value, resp3))
        }
        (Shape::Verbatim | Shape::Double, Value::Bulk(_)) | (Shape::Bool, Value::Int(_)) => !resp3,
        (Shape::Set(item), Value::Array(items)) => !resp3 && all(item, items),
        (Shape::Map(key, item), Value::Array(items)) => {
            !resp3
                && items.len().is_multiple_of(2)
                && items.chunks(2).all(|pair| fits(key, &pair[0], resp3) && fits(item, &pair[1], resp3))
        }
        _ => false,
    }
}
