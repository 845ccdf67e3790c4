//! The arguments of a command as `COMMAND DOCS` describes them, with `const` builders for declarations.

/// What an argument is.
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
    /// What it is called.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgKind,
    /// The word that precedes it; of a pure token, the word itself.
    pub token: Option<&'static str>,
    /// Which key spec finds it.
    pub key_spec: Option<u8>,
    /// What `COMMAND DOCS` shows instead of the name.
    pub display: Option<&'static str>,
    /// The version that brought it.
    pub since: Option<&'static str>,
    /// The version that deprecated it.
    pub deprecated_since: Option<&'static str>,
    /// May be left out.
    pub optional: bool,
    /// May come several times.
    pub multiple: bool,
    /// Each occurrence begins with the token.
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

    /// The same argument, preceded by a word.
    pub const fn token(self, token: &'static str) -> Arg {
        assert!(self.token.is_none(), "an argument has one token");
        Arg { token: Some(token), ..self }
    }

    /// May be left out.
    pub const fn optional(self) -> Arg {
        Arg { optional: true, ..self }
    }

    /// May come several times.
    pub const fn multiple(self) -> Arg {
        Arg { multiple: true, ..self }
    }

    /// May come several times, each time with its token.
    pub const fn multiple_token(self) -> Arg {
        assert!(self.token.is_some(), "there is a token to be repeated");
        Arg { multiple: true, multiple_token: true, ..self }
    }

    /// Found by key spec number `spec`, though not a key itself.
    pub const fn of_keys(self, spec: u8) -> Arg {
        Arg { key_spec: Some(spec), ..self }
    }

    /// Shown as this.
    pub const fn display(self, text: &'static str) -> Arg {
        Arg { display: Some(text), ..self }
    }

    /// Brought by this version.
    pub const fn since(self, version: &'static str) -> Arg {
        Arg { since: Some(version), ..self }
    }

    /// Deprecated by this version.
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

/// One of several.
pub const fn oneof(name: &'static str, args: &'static [Arg]) -> Arg {
    assert!(args.len() > 1, "there is a choice");
    Arg { args, ..Arg::new(name, ArgKind::OneOf) }
}

/// Several, one after the other.
pub const fn block(name: &'static str, args: &'static [Arg]) -> Arg {
    assert!(!args.is_empty(), "a block has arguments");
    Arg { args, ..Arg::new(name, ArgKind::Block) }
}
