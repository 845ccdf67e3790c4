//! The arguments of a command as `COMMAND DOCS` describes them, with `const` builders for declarations.

/// The kind of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgKind {
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `double`
    Double,
    /// `key`
    Key,
    /// `pattern`
    Pattern,
    /// `unix-time`
    UnixTime,
    /// `pure-token`
    PureToken,
    /// `oneof` its arguments
    OneOf,
    /// `block`: its arguments, one after the other
    Block,
}

impl ArgKind {
    /// The name in `COMMAND DOCS`.
    pub fn name(self) -> &'static str {
        match self {
            ArgKind::String => "string",
            ArgKind::Integer => "integer",
            ArgKind::Double => "double",
            ArgKind::Key => "key",
            ArgKind::Pattern => "pattern",
            ArgKind::UnixTime => "unix-time",
            ArgKind::PureToken => "pure-token",
            ArgKind::OneOf => "oneof",
            ArgKind::Block => "block",
        }
    }
}

/// One argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arg {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: ArgKind,
    /// The word before it; for a pure token, the word itself.
    pub token: Option<&'static str>,
    /// The key spec that finds it.
    pub key_spec: Option<u8>,
    /// The text that `COMMAND DOCS` shows instead of the name.
    pub display: Option<&'static str>,
    /// The version that introduced it.
    pub since: Option<&'static str>,
    /// The version that deprecated it.
    pub deprecated_since: Option<&'static str>,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether it may occur several times.
    pub multiple: bool,
    /// Whether each occurrence begins with the token.
    pub multiple_token: bool,
    /// The parts of a `oneof` or a `block`.
    pub args: &'static [Arg],
}

impl Arg {
    const fn new(name: &'static str, kind: ArgKind) -> Arg {
        Arg {
            name,
            kind,
            token: None,
            key_spec: None,
            display: None,
            since: None,
            deprecated_since: None,
            optional: false,
            multiple: false,
            multiple_token: false,
            args: &[],
        }
    }

    /// Puts this word before the argument.
    pub const fn token(self, token: &'static str) -> Arg {
        assert!(self.token.is_none(), "an argument has one token");
        Arg { token: Some(token), ..self }
    }

    /// Lets the argument be left out.
    pub const fn optional(self) -> Arg {
        Arg { optional: true, ..self }
    }

    /// Lets the argument occur several times.
    pub const fn multiple(self) -> Arg {
        Arg { multiple: true, ..self }
    }

    /// Lets the argument occur several times, each time with its token.
    pub const fn multiple_token(self) -> Arg {
        assert!(self.token.is_some(), "there is a token to be repeated");
        Arg { multiple: true, multiple_token: true, ..self }
    }

    /// Lets key spec number `spec` find it, though it is not a key itself.
    pub const fn of_keys(self, spec: u8) -> Arg {
        Arg { key_spec: Some(spec), ..self }
    }

    /// Shows this text instead of the name.
    pub const fn display(self, text: &'static str) -> Arg {
        Arg { display: Some(text), ..self }
    }

    /// Names the version that introduced it.
    pub const fn since(self, version: &'static str) -> Arg {
        Arg { since: Some(version), ..self }
    }

    /// Names the version that deprecated it.
    pub const fn deprecated_since(self, version: &'static str) -> Arg {
        Arg { deprecated_since: Some(version), ..self }
    }
}

/// A key that key spec number `spec` finds.
pub const fn key(name: &'static str, spec: u8) -> Arg {
    Arg { key_spec: Some(spec), ..Arg::new(name, ArgKind::Key) }
}

/// Any bytes.
pub const fn string(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::String)
}

/// A whole number.
pub const fn integer(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::Integer)
}

/// A floating-point number.
pub const fn double(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::Double)
}

/// A glob-style pattern.
pub const fn pattern(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::Pattern)
}

/// A point in time.
pub const fn unix_time(name: &'static str) -> Arg {
    Arg::new(name, ArgKind::UnixTime)
}

/// A word that stands for itself.
pub const fn token(name: &'static str, token: &'static str) -> Arg {
    Arg::new(name, ArgKind::PureToken).token(token)
}

/// One of several arguments.
pub const fn oneof(name: &'static str, args: &'static [Arg]) -> Arg {
    assert!(args.len() > 1, "there is a choice");
    Arg { args, ..Arg::new(name, ArgKind::OneOf) }
}

/// Several arguments, one after the other.
pub const fn block(name: &'static str, args: &'static [Arg]) -> Arg {
    assert!(!args.is_empty(), "a block has arguments");
    Arg { args, ..Arg::new(name, ArgKind::Block) }
}
