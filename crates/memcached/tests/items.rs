//! memcached's commands on a store whose clock stands still until it is set: what depends on time, what Redis' commands do
//! to items, and effects. Their replies otherwise are compared with memcached's by a test of the crate `blackbox`.

use commands::{FAMILIES, keys};
use ds::random::Random;
use engine::{Client, Local};
use resp::memcached::{ItemLimits, MemcachedParser, Parsed, Verb, Words};
use resp::{Output, Proto};

struct Store(Local);

impl Store {
    fn new() -> Store {
        // Verbs about the server have no entries here.
        let none = memcached::item_entry(Verb::MetaNoop).expect("it needs no server");
        let entries = Verb::ALL.iter().map(|verb| memcached::item_entry(*verb).unwrap_or(none));
        Store(Local::new(FAMILIES).with_protocol(entries))
    }

    /// The replies to `requests`.
    fn ask(&mut self, requests: &[u8]) -> String {
        let (mut parser, mut rest, mut out) = (MemcachedParser::default(), requests, Output::new());
        let limits =
            ItemLimits { item_bytes_max: self.0.config.item_bytes_max as usize, takes_long_lines: true };
        loop {
            let mut words = Words::new();
            let consumed = match parser.parse(rest, limits, &mut words) {
                Parsed::Request { verb, consumed, skipped } => {
                    if let Some(key) = parser.binary_key() {
                        words[1] = key;
                    }
                    let id = self.0.table().of_protocol(verb as usize).id;
                    let client = Client { no_touch: false, ..Client::internal(0, Proto::Resp2) };
                    self.0.run_command(id, client, &words, &mut (), &mut out);
                    drop(words);
                    parser.skip(skipped);
                    consumed
                }
                Parsed::Refused { reply, consumed, skipped } => {
                    out.extend_from_slice(reply.as_bytes());
                    out.extend_from_slice(b"\r\n");
                    parser.skip(skipped);
                    consumed
                }
                Parsed::Skipped { consumed } => consumed,
                Parsed::Incomplete => return String::from_utf8_lossy(&out.to_vec()).into_owned(),
                Parsed::Broken | Parsed::Http => panic!("nothing can be made of this line"),
            };
            rest = &rest[consumed..];
        }
    }

    /// Plays a transcript: lines that begin with `>` are sent, one that begins with `=` is a command of Redis, `~` lets so
    /// many milliseconds pass; what follows is the reply.
    #[track_caller]
    fn play(&mut self, transcript: &str) {
        let (mut shown, mut replies) = (String::new(), String::new());
        let mut lines = transcript.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        while let Some(line) = lines.next() {
            shown += &format!("{line}\n");
            let (kind, rest) = line.split_at(1);
            match kind {
                ">" => {
                    let mut request = format!("{}\r\n", rest.trim_start());
                    // A value is sent with its request.
                    while let Some(value) = lines.next_if(|line| line.starts_with(">>")) {
                        shown += &format!("{value}\n");
                        request += &format!("{}\r\n", value[2..].trim_start());
                    }
                    replies = self.ask(request.as_bytes());
                }
                "=" => replies = self.0.line(rest.trim_start()),
                "~" => self.0.now += rest.trim_start().parse::<i64>().expect("milliseconds"),
                _ => {
                    let (reply, more) = replies.split_once("\r\n").unwrap_or((&replies, ""));
                    assert_eq!(reply, line, "after\n{shown}");
                    replies = more.to_owned();
                    continue;
                }
            }
            let expects_none = lines.peek().is_none_or(|next| next.starts_with(['>', '=', '~']));
            assert!(!expects_none || replies.is_empty(), "{replies:?} after\n{shown}");
        }
        assert!(replies.is_empty(), "{replies:?} is left of\n{shown}");
    }
}

#[test]
fn items_expire() {
    Store::new().play(
        "> set k 5 10 1
         >> v
         STORED
         > mg k t f v
         VA 1 t10 f5
         v
         ~ 9999
         > mg k t
         HD t1
         ~ 2
         > get k
         END
         > set k 0 -1 1
         >> v
         STORED
         > get k
         END
         > set k 0 0 1
         >> v
         STORED
         > touch k 2592000
         TOUCHED
         = PTTL k
         :2592000000
         > touch k 2592001
         TOUCHED
         > get k
         END
         > set k 0 1700000100 1
         >> v
         STORED
         = PEXPIRETIME k
         :1700000100000
         > gat 0 k
         VALUE k 0 1
         v
         END
         = PTTL k
         :-1
         > gat -1 k
         VALUE k 0 1
         v
         END
         = EXISTS k
         :0
         > add k 0 -1 1
         >> v
         STORED
         > touch k 1
         NOT_FOUND
         > ma n N30 J5 T60 t v
         VA 1 t60
         5
         > ma n T90 t
         HD t90
         > mg new N30 E77 c
         HD c77 W
         ~ 1
         > mg new c
         HD c77 Z",
    );
}

#[test]
fn one_client_fetches_what_is_about_to_expire() {
    Store::new().play(
        "> ms k 1 T100
         >> v
         HD
         > mg k R30
         HD
         ~ 71001
         > mg k R30
         HD W
         > mg k R30 t
         HD t29 Z
         > ms k 1 T100
         >> w
         HD
         > mg k R30
         HD
         > md k I T20
         HD
         > mg k t v
         VA 1 t20 X W
         w
         > mg k v
         VA 1 Z X
         w
         > mg new N10 t
         HD t10 W
         > mg new N10 t s
         HD t10 s0 Z
         ~ 10001
         > mg new
         EN",
    );
}

#[test]
fn hits_and_times_of_access_are_told() {
    Store::new().play(
        "> set k 0 0 1
         >> v
         STORED
         ~ 5000
         > mg k h l u
         HD h0 l5
         > mg k h l
         HD h0 l5
         > mg k h l
         HD h1 l0
         = SET k w
         +OK
         > mg k h l
         HD h0 l0
         > gets nothing
         END
         = SET k w
         +OK
         > get k
         VALUE k 0 1
         w
         END
         > mg k h
         HD h1",
    );
}

#[test]
fn both_protocols_see_the_same_strings() {
    Store::new().play(
        "= SET k value
         +OK
         > get k
         VALUE k 0 5
         value
         END
         > set k 7 0 2
         >> 10
         STORED
         = GET k
         $2
         10
         = INCR k
         :11
         > get k
         VALUE k 7 2
         11
         END
         > incr k 18446744073709551615
         10
         > decr k 3
         7
         = GET k
         $1
         7
         = OBJECT ENCODING k
         $3
         int
         > append k 0 0 1
         >> 5
         STORED
         = INCR k
         :76
         = RENAME k other
         +OK
         > get other k
         VALUE other 7 2
         76
         END
         = COPY other copy
         :1
         > get copy
         VALUE copy 7 2
         76
         END
         = SET other 1 KEEPTTL
         +OK
         > get other
         VALUE other 0 1
         1
         END
         = DEL other
         :1
         > get other
         END",
    );
}

#[test]
fn other_types_are_refused_and_replaced() {
    const WRONG: &str = "SERVER_ERROR WRONGTYPE Operation against a key holding the wrong kind of value";
    let mut store = Store::new();
    for request in ["get l", "gets k l", "gat 10 l", "incr l 1", "mg l v", "ma l", "append l 0 0 1\n>> x"] {
        store.play(&format!("= DEL l\n:0\n= RPUSH l x\n:1\n> {request}\n{WRONG}\n= DEL l\n:1"));
    }
    store.play(
        "= RPUSH l x
         :1
         > touch l 100
         TOUCHED
         > add l 0 0 1
         >> v
         NOT_STORED
         > set l 3 0 1
         >> v
         STORED
         > get l
         VALUE l 3 1
         v
         END
         = LPUSH other x
         :1
         > delete other
         DELETED",
    );
}

/// The cas number in the reply to `gets`.
fn cas(store: &mut Store, key: &str) -> u64 {
    let reply = store.ask(format!("gets {key}\r\n").as_bytes());
    let number = reply.lines().next().and_then(|line| line.split(' ').nth(4));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{reply:?}"))
}

#[test]
fn a_cas_number_ends_with_its_version_whoever_changes_it() {
    let changes: [(&str, &str); 10] = [
        ("=", "SET k v"),
        ("=", "APPEND k x"),
        ("=", "SETRANGE k 0 v"),
        ("=", "GETSET k v"),
        ("=", "RENAME other k"),
        ("=", "MSET k v"),
        ("=", "SETBIT k 1 1"),
        (">", "set k 0 0 1\r\nv"),
        (">", "append k 0 0 1\r\nv"),
        (">", "ms k 1 c\r\nv"),
    ];
    for (kind, change) in changes {
        let mut store = Store::new();
        store.ask(b"set k 0 0 1\r\nv\r\nset other 0 0 1\r\nv\r\n");
        let before = cas(&mut store, "k");
        assert_eq!(cas(&mut store, "k"), before);
        let kept = ["GET k", "EXPIRE k 100", "PERSIST k", "STRLEN k", "TOUCH k"];
        kept.iter().for_each(|line| _ = store.0.line(line));
        assert_eq!(cas(&mut store, "k"), before);
        match kind {
            "=" => _ = store.0.line(change),
            _ => _ = store.ask(format!("{change}\r\n").as_bytes()),
        }
        assert_eq!(store.ask(format!("cas k 0 0 1 {before}\r\nv\r\n").as_bytes()), "EXISTS\r\n", "{change}");
        let after = cas(&mut store, "k");
        assert!(after > before, "{change}");
        assert_eq!(store.ask(format!("cas k 0 0 1 {after}\r\nv\r\n").as_bytes()), "STORED\r\n", "{change}");
    }
    let mut store = Store::new();
    store.play("> ms k 1 E77 c\n>> v\nHD c77\n> mg k c\nHD c77\n> md k C76\nEX\n> md k C77\nHD");
}

/// Random requests; their effects on a second store make the same strings with the same flags and cas numbers.
#[test]
fn effects_replay() {
    for seed in 0..16 {
        let (mut original, mut replayed) = (Store::new(), Store::new());
        original.0.record_effects();
        replayed.0.now = 0;
        let mut random = Random::new(seed);
        let mut log = Vec::new();
        for _ in 0..600 {
            let mut pick = |choices: &[&str]| choices[random.below(choices.len() as u64) as usize].to_owned();
            let (key, value) = (pick(&["a", "b", "c"]), pick(&["", "5", "18446744073709551615", "text"]));
            let (time, delta) = (pick(&["0", "0", "1", "100", "-1"]), pick(&["1", "7"]));
            let storage = pick(&["set", "add", "replace", "append", "prepend"]);
            let mode = pick(&["MS", "ME", "MR", "MA", "MP"]);
            let length = value.len();
            let request = match random.below(11) {
                0..3 => format!("{storage} {key} 3 {time} {length}\r\n{value}\r\n"),
                3 => format!("ms {key} {length} {mode} T{time}\r\n{value}\r\n"),
                4 => format!("incr {key} {delta}\r\ndecr {key} {delta}\r\n"),
                5 => format!("ma {key} N{time} J8 D{delta}\r\n"),
                6 => format!("touch {key} {time}\r\ngat {time} {key} a\r\n"),
                7 => format!("mg {key} N{time} T{time}\r\nmg {key} T{time} q\r\n"),
                8 => format!("gets {key}\r\nms {key} {length} {mode} F7 E{delta}\r\n{value}\r\n"),
                9 => format!("md {key} I T{time}\r\nmg {key} c f v\r\n"),
                _ => format!("md {key} I T{time}\r\ndelete {key}\r\n"),
            };
            original.ask(request.as_bytes());
            log.push(request);
            original.0.now += random.below(300) as i64;
            let done = replayed.0.replay(&original.0.take_effects());
            assert!(done.is_ok(), "seed {seed}: {done:?} after {log:#?}");
            let now = original.0.now;
            let digests = [&mut original, &mut replayed].map(|store| {
                let before = std::mem::replace(&mut store.0.now, now);
                let client = Client::internal(0, Proto::Resp2);
                let digest = store.0.with_store(client, |store| keys::digest::digest(store));
                store.0.now = before;
                digest
            });
            assert_eq!(digests[0], digests[1], "seed {seed} after {log:#?}");
            let marks = [&mut original, &mut replayed].map(|store| {
                let client = Client::internal(0, Proto::Resp2);
                let marks_of = |store: &mut engine::Store| {
                    ["a", "b", "c"].map(|key| store.peek(key.as_bytes()).map(keyspace::RecordRef::marks))
                };
                let before = std::mem::replace(&mut store.0.now, now);
                let marks = store.0.with_store(client, marks_of);
                store.0.now = before;
                marks
            });
            assert_eq!(marks[0], marks[1], "seed {seed} after {log:#?}");
        }
    }
}
