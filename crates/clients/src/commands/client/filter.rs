//! The filters that `CLIENT LIST` and `CLIENT KILL` have in common: those of Redis, and those of Valkey 9.
//!
//! Errors are those of Redis for what Redis 7.2 has, and of Valkey for the rest.

use engine::{Arg, CommandError, integer, keyword_is, oneof, string, token};

use crate::Ctx;
use crate::session::{Class, Condition, Filter};

/// The filters of both commands that are newer than Redis 7.2, as documented.
pub(super) const MAXAGE: Arg = integer("maxage").token("MAXAGE").optional().since("7.4.0");
pub(super) const NAME: Arg = string("name").token("NAME").optional().since("9.0.0");
pub(super) const IDLE: Arg = integer("idle").token("IDLE").optional().since("9.0.0");
pub(super) const FLAGS: Arg = string("flags").token("FLAGS").optional().since("9.0.0");
pub(super) const LIB_NAME: Arg = string("lib-name").token("LIB-NAME").optional().since("9.0.0");
pub(super) const LIB_VER: Arg = string("lib-ver").token("LIB-VER").optional().since("9.0.0");
pub(super) const DB: Arg = integer("db").token("DB").optional().since("9.0.0");
pub(super) const CAPA: Arg = string("capa").token("CAPA").optional().since("9.0.0");
pub(super) const IP: Arg = string("ip").token("IP").optional().since("9.0.0");
pub(super) const SKIPME: Arg =
    oneof("skipme", &[token("yes", "YES"), token("no", "NO")]).token("SKIPME").optional();
pub(super) const NOT_ID: Arg = integer("not-client-id").token("NOT-ID").optional().multiple().since("9.0.0");
pub(super) const NOT_TYPE: Arg = string("not-client-type").token("NOT-TYPE").optional().since("9.0.0");
pub(super) const NOT_ADDR: Arg =
    string("not-addr").display("ip:port").token("NOT-ADDR").optional().since("9.0.0");
pub(super) const NOT_LADDR: Arg =
    string("not-laddr").display("ip:port").token("NOT-LADDR").optional().since("9.0.0");
pub(super) const NOT_USER: Arg = string("not-username").token("NOT-USER").optional().since("9.0.0");
pub(super) const NOT_FLAGS: Arg = string("not-flags").token("NOT-FLAGS").optional().since("9.0.0");
pub(super) const NOT_NAME: Arg = string("not-name").token("NOT-NAME").optional().since("9.0.0");
pub(super) const NOT_LIB_NAME: Arg = string("not-lib-name").token("NOT-LIB-NAME").optional().since("9.0.0");
pub(super) const NOT_LIB_VER: Arg = string("not-lib-ver").token("NOT-LIB-VER").optional().since("9.0.0");
pub(super) const NOT_DB: Arg = integer("not-db").token("NOT-DB").optional().since("9.0.0");
pub(super) const NOT_CAPA: Arg = string("not-capa").token("NOT-CAPA").optional().since("9.0.0");
pub(super) const NOT_IP: Arg = string("not-ip").token("NOT-IP").optional().since("9.0.0");

/// The words of filters that have one value.
const WORDS: [&str; 14] = [
    "TYPE", "ADDR", "LADDR", "USER", "SKIPME", "MAXAGE", "IDLE", "FLAGS", "NAME", "LIB-NAME", "LIB-VER",
    "DB", "CAPA", "IP",
];

/// The command that a filter belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// `CLIENT LIST`: an id is any number, and the client that asks is listed.
    List,
    /// `CLIENT KILL`: an id is positive, and the client that asks is left out, unless it says otherwise.
    Kill,
}

/// The clients that the arguments after the subcommand select.
pub(super) fn parse(ctx: &Ctx, purpose: For) -> Result<Filter, CommandError> {
    let asker = ctx.store.client.id;
    let mut filter = Filter::default();
    filter.except = (purpose == For::Kill).then_some(asker);
    let mut rest = &ctx.args[2..];
    while let [word, values @ ..] = rest {
        let (name, excludes) = match word.get(..4) {
            Some(prefix) if keyword_is(prefix, "NOT-") => (&word[4..], true),
            _ => (*word, false),
        };
        let [value, others @ ..] = values else { return Err(CommandError::SYNTAX) };
        if keyword_is(name, "ID") {
            let (ids, others) = values.split_at(ids_count(values, purpose).max(1));
            filter.add(parse_ids(ids, purpose)?, excludes);
            rest = others;
            continue;
        }
        rest = others;
        if keyword_is(name, "SKIPME") && !excludes {
            filter.except = match value {
                value if keyword_is(value, "YES") => Some(asker),
                value if keyword_is(value, "NO") => None,
                _ => return Err(CommandError::SYNTAX),
            };
            continue;
        }
        filter.add(condition(ctx, name, value, excludes)?, excludes);
    }
    Ok(filter)
}

/// The number of values that are ids: all up to the word of another filter. For `CLIENT KILL`, whose Redis takes one id
/// only, all up to what is not a number, which is then an unknown word.
fn ids_count(values: &[&[u8]], purpose: For) -> usize {
    let is_word = |value: &&[u8]| {
        let name = value.get(..4).filter(|prefix| keyword_is(prefix, "NOT-")).map_or(*value, |_| &value[4..]);
        keyword_is(name, "ID") || WORDS.iter().any(|word| keyword_is(name, word))
    };
    let ends = |value: &&[u8]| match purpose {
        For::List => is_word(value),
        For::Kill => ds::num::parse_i64(value).is_none(),
    };
    values.iter().position(ends).unwrap_or(values.len())
}

fn parse_ids(values: &[&[u8]], purpose: For) -> Result<Condition, CommandError> {
    let (id_min, invalid) = match purpose {
        For::List => (i64::MIN, CommandError::fixed("ERR Invalid client ID")),
        For::Kill => (1, CommandError::fixed("ERR client-id should be greater than 0")),
    };
    let parse = |value: &&[u8]| ds::num::parse_i64(value).filter(|id| *id >= id_min).map(|id| id as u64);
    let ids: Option<Vec<u64>> = values.iter().map(parse).collect();
    ids.map(Condition::Ids).ok_or(invalid)
}

fn condition(ctx: &Ctx, name: &[u8], value: &[u8], excludes: bool) -> Result<Condition, CommandError> {
    let text = || String::from_utf8_lossy(value).into_owned();
    Ok(match name.to_ascii_lowercase().as_slice() {
        b"type" => Condition::Class(Class::parse(value)?),
        b"addr" => Condition::Peer(text()),
        b"laddr" => Condition::Local(text()),
        b"ip" => Condition::Ip(text()),
        b"name" => Condition::Name(value.to_vec()),
        b"lib-name" => Condition::LibName(value.to_vec()),
        b"lib-ver" => Condition::LibVersion(value.to_vec()),
        b"user" => {
            let account = ctx.host.server.users.find(value);
            let account = account.ok_or(CommandError::quoting("ERR No such user '", value, "'"))?;
            Condition::User(account.number)
        }
        b"maxage" if !excludes => Condition::AgeSeconds(positive(value, "maxage")?),
        b"idle" if !excludes => Condition::IdleSeconds(positive(value, "idle")?),
        b"flags" => Condition::flags(value).ok_or_else(|| {
            CommandError::quoting("ERR Unknown flags found in the provided filter: ", value, "")
        })?,
        b"capa" => Condition::capabilities(value).ok_or_else(|| {
            CommandError::quoting("ERR Unknown capa found in the provided filter: ", value, "")
        })?,
        b"db" => {
            let count = ctx.host.server.settings.databases();
            let db = ds::num::parse_i64(value).and_then(|db| i32::try_from(db).ok());
            let db = db.ok_or(CommandError::fixed("ERR DB is not an integer or out of range"))?;
            let db = u32::try_from(db).ok().filter(|db| *db < count);
            Condition::Db(db.ok_or_else(|| {
                CommandError::new(format!("ERR DB number should be between 0 and {}", count - 1))
            })?)
        }
        _ => return Err(CommandError::SYNTAX),
    })
}

/// A number of seconds.
fn positive(value: &[u8], name: &str) -> Result<u64, CommandError> {
    let number = ds::num::parse_i64(value)
        .ok_or_else(|| CommandError::new(format!("ERR {name} is not an integer or out of range")))?;
    u64::try_from(number)
        .ok()
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| CommandError::new(format!("ERR {name} should be greater than 0")))
}
