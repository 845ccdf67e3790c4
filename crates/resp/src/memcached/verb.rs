//! The first word of a request.

macro_rules! verbs {
    ($($verb:ident = $word:literal),* $(,)?) => {
        /// The command of a request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Verb {
            $(#[doc = concat!("`", $word, "`")] $verb,)*
            /// A request to store a value that is larger than an item may be. The value is not among the arguments.
            TooLarge,
        }

        impl Verb {
            /// All verbs; each one's index is its number.
            pub const ALL: &'static [Verb] = &[$(Verb::$verb,)* Verb::TooLarge];

            /// The verb with this name; case matters.
            #[inline]
            pub(super) fn of(word: &[u8]) -> Option<Verb> {
                match std::str::from_utf8(word).ok()? {
                    $($word => Some(Verb::$verb),)*
                    // An old name that clients still use.
                    "bget" => Some(Verb::Get),
                    _ => None,
                }
            }
        }
    };
}

verbs! {
    Get = "get",
    Gets = "gets",
    Gat = "gat",
    Gats = "gats",
    Set = "set",
    Add = "add",
    Replace = "replace",
    Append = "append",
    Prepend = "prepend",
    Cas = "cas",
    Touch = "touch",
    Incr = "incr",
    Decr = "decr",
    Delete = "delete",
    FlushAll = "flush_all",
    Stats = "stats",
    Version = "version",
    Verbosity = "verbosity",
    CacheMemlimit = "cache_memlimit",
    Quit = "quit",
    MetaGet = "mg",
    MetaSet = "ms",
    MetaDelete = "md",
    MetaArithmetic = "ma",
    MetaNoop = "mn",
    MetaDebug = "me",
}
