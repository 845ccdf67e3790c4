//! MIGRATE: moves keys to another server.
//!
//! ```text
//!   shards entered: dump the keys ──▶ cold thread: send, read replies ──▶ shards entered: all still the same?
//!                                          ▲                                  │ no: what changed is sent again
//!                                          └──────────────────────────────────┘ yes: delete them together
//! ```
//!
//! No shard is held while values are sent, so other clients may write meanwhile. The keys are deleted here only if all
//! of them, at one moment, are equal to what the target has. Between the rounds the client waits (its state is *away*),
//! and its command is run again after each round; the values that were sent are kept in the session. If the client
//! disconnects, the keys stay.
//!
//! The thread gives the command what its client has sent so far ([`Rounds`]), sends the round that the command leaves
//! there, and runs the command again when the round is over.
//!
//! Not here: the sending (`delivery.rs`), and how a client waits.

mod delivery;

use std::time::Duration;

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::dump::payload;
use engine::{
    Acl, Begin, CommandError, CommandResult, Group, KeySpec, Mode, OwnedArgs, Rule, SecretOption, Secrets,
    Shape, block, integer, key, keyword_is, oneof, parse_i64, string, token,
};

pub use delivery::{CONNECTING, Migration, Migrations, Returned, Target};

use crate::migrate::delivery::{DumpedValue, MovingKey, MovingState};

/// The rounds of a client's MIGRATE.
#[derive(Debug)]
pub struct Rounds {
    /// The state after the rounds so far, if the command has sent something.
    pub earlier: Option<Box<Migration>>,
    /// Set by the command: the round to send, with [`Migrations::send`]. After it the command runs again.
    pub next: Option<NextRound>,
}

/// A round to be sent.
#[derive(Debug)]
pub struct NextRound {
    /// The server that receives it.
    pub target: Target,
    /// The command, which returns to the client's thread when the round is over.
    pub returned: Box<Returned>,
}

/// A call of one of these commands.
type Ctx<'a, 't> = engine::Ctx<'a, 't, Rounds>;
/// The function of one.
pub type Function = engine::HostFn<Rounds>;
/// The declaration of one.
pub type Entry = engine::Entry<Function>;

/// The commands of this folder.
pub const ENTRIES: &[Entry] = &[MIGRATE];

const MIGRATE: Entry = Entry {
    name: "migrate",
    summary: "Atomically transfers a key from one Redis instance to another.",
    complexity: "This command actually executes a DUMP+DEL in the source instance, and a RESTORE in the target instance. See the pages of these commands for time complexity. Also an O(N) data transfer between the two instances is performed.",
    since: "2.6.0",
    group: Group::Generic,
    arity: -6,
    flags: &[Write, NoScript, NoMulti],
    rules: &[Rule::MayListKeys],
    acl: &[Acl::Keyspace, Acl::Dangerous],
    keys: &[
        KeySpec::one(3, &[RW, Access, Delete]),
        KeySpec {
            begin: Begin::Option("KEYS", -2, 6, &[("COPY", 0), ("REPLACE", 0), ("AUTH", 1), ("AUTH2", 2)]),
            ..KeySpec::range(0, -1, 1, &[RW, Access, Delete, Incomplete])
        },
    ],
    mode: Mode::Session,
    secrets: Secrets::Options {
        from: 6,
        options: &[SecretOption::secret("auth", 1), SecretOption::secret("auth2", 2)],
    },
    args: &[
        string("host"),
        integer("port"),
        oneof("key-selector", &[key("key", 0), token("empty-string", "")]),
        integer("destination-db"),
        integer("timeout"),
        token("copy", "COPY").optional().since("3.0.0"),
        token("replace", "REPLACE").optional().since("3.0.0"),
        oneof(
            "authentication",
            &[
                string("auth").token("AUTH").display("password").since("4.0.7"),
                block("auth2", &[string("username"), string("password")]).token("AUTH2").since("6.0.0"),
            ],
        )
        .optional(),
        key("keys", 1).display("key").token("KEYS").since("3.0.6").optional().multiple(),
    ],
    history: &[
        ("3.0.0", "Added the `COPY` and `REPLACE` options."),
        ("3.0.6", "Added the `KEYS` option."),
        ("4.0.7", "Added the `AUTH` option."),
        ("6.0.0", "Added the `AUTH2` option."),
    ],
    tips: &["nondeterministic_output"],
    reply: Shape::AnyStatus,
    note: "Does not block other clients, and is therefore refused in `MULTI` and scripts",
    run: engine::Run::Function(migrate),
    ..Entry::DEFAULT
};

/// Keys that still change after this many rounds are not moved.
const ROUNDS_MAX: u32 = 32;
const TIMEOUT_MS_DEFAULT: u64 = 1000;

const KEY_AND_KEYS: CommandError = CommandError::fixed(
    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
);
const KEEP_CHANGING: CommandError =
    CommandError::fixed("TRYAGAIN The keys change faster than they can be sent, and were not deleted");

/// The parsed arguments of a call.
struct MigrateOptions<'a> {
    target: Target,
    keys: Vec<&'a [u8]>,
    copy: bool,
    replace: bool,
}

impl<'a> MigrateOptions<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<MigrateOptions<'a>, CommandError> {
        let [_, host, port, key, db, timeout, ref options @ ..] = *args else {
            unreachable!("the arity says so")
        };
        let (mut copy, mut replace, mut credentials, mut keys) = (false, false, Vec::new(), vec![key]);
        let mut rest = options;
        while let [word, after @ ..] = rest {
            rest = after;
            match after {
                _ if keyword_is(word, "COPY") => copy = true,
                _ if keyword_is(word, "REPLACE") => replace = true,
                [password, after @ ..] if keyword_is(word, "AUTH") => {
                    credentials = vec![password.to_vec()];
                    rest = after;
                }
                [user, password, after @ ..] if keyword_is(word, "AUTH2") => {
                    credentials = vec![user.to_vec(), password.to_vec()];
                    rest = after;
                }
                listed if keyword_is(word, "KEYS") => {
                    if !key.is_empty() {
                        return Err(KEY_AND_KEYS);
                    }
                    keys = listed.to_vec();
                    break;
                }
                _ => return Err(CommandError::SYNTAX),
            }
        }
        let timeout_ms = parse_i64(timeout)?;
        let db = parse_i64(db)?;
        let timeout_ms = u64::try_from(timeout_ms).ok().filter(|ms| *ms > 0).unwrap_or(TIMEOUT_MS_DEFAULT);
        let target = Target {
            host: String::from_utf8_lossy(host).into_owned(),
            port: String::from_utf8_lossy(port).into_owned(),
            db,
            timeout: Duration::from_millis(timeout_ms),
            credentials,
            tls: None,
        };
        Ok(MigrateOptions { target, keys, copy, replace })
    }
}

fn migrate(ctx: &mut Ctx) -> CommandResult {
    let call = MigrateOptions::parse(ctx.args)?;
    match ctx.host.earlier.take() {
        None => begin(ctx, call),
        Some(migration) => go_on(ctx, call, *migration),
    }
}

fn begin(ctx: &mut Ctx, call: MigrateOptions) -> CommandResult {
    let mut moving_keys: Vec<MovingKey> = Vec::new();
    for key in &call.keys {
        let content = content(ctx, key);
        if content.is_some() && !moving_keys.iter().any(|known| *known.key == **key) {
            moving_keys.push(MovingKey { key: (*key).into(), content, state: MovingState::Here });
        }
    }
    if moving_keys.is_empty() {
        ctx.reply.simple("NOKEY");
        return Ok(());
    }
    send(ctx, call.target, Migration { moving_keys, replace: call.replace, rounds: 0, failure: None })
}

/// The current value of `key`.
fn content(ctx: &mut Ctx, key: &[u8]) -> Option<DumpedValue> {
    let (compresses, now_ms) = (ctx.store.config().rdb_compression, ctx.store.now());
    let payload = payload(ctx.store.read(key)?, compresses);
    let expiry_ms = ctx.store.expiry(key);
    let ttl_ms = expiry_ms.map_or(0, |expiry_ms| (expiry_ms - now_ms).max(1));
    Some(DumpedValue { payload, expiry_ms, ttl_ms })
}

/// Sends a round. The command runs again after it.
fn send(ctx: &mut Ctx, target: Target, migration: Migration) -> CommandResult {
    let client = ctx.store.client;
    let returned = Returned { client, command: ctx.command.id, args: OwnedArgs::new(ctx.args), migration };
    ctx.host.next = Some(NextRound { target, returned: Box::new(returned) });
    Err(CommandError::again(ctx.store.entered()))
}

/// Continues after a round.
fn go_on(ctx: &mut Ctx, call: MigrateOptions, mut migration: Migration) -> CommandResult {
    let has_failed = migration.failure.is_some();
    if !call.copy {
        let mut unchanged = Vec::new();
        for moving in migration.moving_keys.iter_mut().filter(|moving| moving.state == MovingState::There) {
            let content = content(ctx, &moving.key);
            if is_same(&content, &moving.content) {
                unchanged.push(moving.key.clone());
            } else {
                (moving.content, moving.state) = (content, MovingState::Here);
            }
        }
        let some_changed = migration.moving_keys.iter().any(|moving| moving.state == MovingState::Here);
        if some_changed && !has_failed {
            return if migration.rounds < ROUNDS_MAX {
                send(ctx, call.target, migration)
            } else {
                Err(KEEP_CHANGING)
            };
        }
        for key in unchanged {
            ctx.store.delete(&key);
        }
    }
    match migration.failure {
        Some(failure) => Err(failure),
        None => {
            ctx.reply.ok();
            Ok(())
        }
    }
}

/// Whether a key is unchanged. Its remaining time to live does not matter.
fn is_same(now: &Option<DumpedValue>, then: &Option<DumpedValue>) -> bool {
    match (now, then) {
        (Some(now), Some(then)) => now.payload == then.payload && now.expiry_ms == then.expiry_ms,
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}
