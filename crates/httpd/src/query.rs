//! The query of an address: fields with values of any bytes.

use percent_encoding::percent_decode_str;

/// The decoded fields of a query.
#[derive(Debug)]
pub(crate) struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Query {
        let fields = text.split('&').filter(|field| !field.is_empty()).map(|field| {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            (name.to_owned(), percent_decode_str(&value.replace('+', " ")).collect())
        });
        Query(fields.collect())
    }

    /// The first value of a field.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Whether the field is missing or has this value.
    pub(crate) fn allows(&self, name: &str, value: &[u8]) -> bool {
        let mut wanted = self.0.iter().filter(|(known, _)| known == name).peekable();
        wanted.peek().is_none() || wanted.any(|(_, wanted)| wanted == value)
    }

    /// The first value of a field as text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.bytes(name).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The first value of a field as a number: `default` if the field is missing, `None` if the value is not a number.
    pub(crate) fn number(&self, name: &str, default: u64) -> Option<u64> {
        self.bytes(name).map_or(Some(default), |_| self.text(name)?.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_comes_several_times_allows_several_values() {
        let query = Query::parse("name=a&name=b&db=0");
        let allowed = [("name", "a"), ("name", "b"), ("name", "c"), ("db", "1"), ("system", "x")];
        let allowed = allowed.map(|(name, value)| query.allows(name, value.as_bytes()));
        assert_eq!(allowed, [true, true, false, false, true]);
    }

    #[test]
    fn values_may_have_any_bytes() {
        let query = Query::parse("name=queue%3Aa%ff+b&&db=3&empty&count=x");
        assert_eq!(query.bytes("name"), Some(&b"queue:a\xff b"[..]));
        assert_eq!(
            (query.text("name"), query.text("db"), query.bytes("empty")),
            (None, Some("3"), Some(&b""[..]))
        );
        assert_eq!(
            (query.number("db", 0), query.number("index", 7), query.number("count", 1)),
            (Some(3), Some(7), None)
        );
    }
}
