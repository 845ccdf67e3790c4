//! Transcripts of links, cut at every byte.

use super::*;

const ID: &str = "0123456789abcdef0123456789abcdef01234567";
const NEW_ID: &str = "89abcdef0123456789abcdef0123456789abcdef";
const MARK: &str = "ABCABCABCABCABCABCABCABCABCABCABCABCABCD";

fn id(text: &str) -> ReplicationId {
    ReplicationId::parse(text.as_bytes()).expect("an id")
}

fn options() -> LinkOptions {
    LinkOptions {
        node: None,
        credentials: None,
        port: 7812,
        address: None,
        resume: None,
        mark: None,
        hands_over: false,
        forces: false,
        takes_snapshots: true,
        timeout_ms: 60_000,
        limits: Limits::default(),
    }
}

fn resuming(offset: u64) -> LinkOptions {
    LinkOptions { resume: Some(Position { id: id(ID), offset: StreamPosition::new(offset) }), ..options() }
}

fn request(words: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words: Vec<&str> = words.split(' ').collect();
    encode_request(&words, &mut bytes);
    bytes
}

/// The output of `link`, as words. A bar ends each request; other bytes are escaped.
fn said(link: &mut Link) -> String {
    let output = link.take_output();
    let (mut parser, mut rest, mut said) = (RequestParser::new(), &output[..], String::new());
    while let Ok(Parsed::Request { consumed } | Parsed::Empty { consumed }) =
        parser.parse(rest, &Limits::default())
    {
        let mut args = SmallVec::new();
        parser.args(rest, &mut args);
        said += &args.iter().map(|arg| arg.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
        said += "|";
        rest = &rest[consumed..];
    }
    assert!(rest.is_empty(), "{}", rest.escape_ascii());
    said
}

/// A replica that notes what it gets; a snapshot is loaded at once.
struct Replica {
    link: Link,
    /// Every event, with a snapshot's and the stream's bytes in one piece each.
    events: Vec<String>,
    snapshot: Vec<u8>,
    stream: Vec<u8>,
    said: String,
    error: Option<LinkError>,
}

impl Replica {
    fn new(options: LinkOptions) -> Replica {
        let mut link = Link::new(options, 0);
        assert_eq!((link.state(), link.next(0)), (LinkState::Connecting, Ok(None)));
        link.opened(0);
        let said = said(&mut link);
        let (events, snapshot, stream) = (Vec::new(), Vec::new(), Vec::new());
        Replica { link, events, snapshot, stream, said, error: None }
    }

    fn receive(&mut self, bytes: &[u8]) {
        if self.error.is_some() {
            return;
        }
        self.link.received(bytes, 0);
        self.error = self.take_events().err();
        self.said += &said(&mut self.link);
    }

    fn take_events(&mut self) -> Result<(), LinkError> {
        loop {
            let Some(event) = self.link.next(0)? else {
                if !self.link.is_loading() {
                    return Ok(());
                }
                self.link.loaded(0);
                continue;
            };
            let ends_snapshot = event == Event::SnapshotEnd;
            let (shown, is_piece) = (format!("{event:?}"), matches!(event, Event::Stream { .. }));
            note(event, &mut self.events, &mut self.snapshot, &mut self.stream);
            if ends_snapshot {
                self.link.begin_loading(0);
            }
            if is_piece {
                self.link.take_back(0);
                assert_eq!(format!("{:?}", self.link.next(0)?.expect("it was there")), shown);
                self.link.settle();
            }
        }
    }
}

fn note(event: Event<'_>, events: &mut Vec<String>, snapshot: &mut Vec<u8>, stream: &mut Vec<u8>) {
    match event {
        Event::NotUnderstood { option, answer } => events.push(format!("{option}: {answer}")),
        Event::Continued(id) => events.push(format!("continued {}", id.as_bytes().escape_ascii())),
        Event::FullSync(position) => {
            events.push(format!("full sync at {:?}", position.map(|position| position.offset)));
        }
        Event::Snapshot { bytes, .. } => {
            assert!(!bytes.is_empty());
            snapshot.extend_from_slice(bytes);
        }
        Event::SnapshotEnd => events.push(format!("snapshot {}", snapshot.escape_ascii())),
        Event::Stream { bytes, words, end } => {
            stream.extend_from_slice(bytes);
            let words: Vec<String> =
                words.into_iter().map(|word| bytes[word].escape_ascii().to_string()).collect();
            events.push(format!("{} {end}", words.join(" ")));
        }
    }
}

/// Gives `bytes` to a replica in one piece, byte by byte, and in any two pieces. The outcome must not differ.
fn replica_of(options: &LinkOptions, bytes: &[u8]) -> Replica {
    let mut whole = Replica::new(options.clone());
    whole.receive(bytes);
    let check = |cut: Replica, how: &str| {
        assert_eq!(cut.events, whole.events, "{how}");
        assert_eq!((&cut.stream, &cut.error), (&whole.stream, &whole.error), "{how}");
        assert_eq!(cut.said.matches("GETACK").count(), 0);
        assert_eq!(without_repeated_acks(&cut.said), without_repeated_acks(&whole.said), "{how}");
        assert_eq!(cut.link.position(), whole.link.position(), "{how}");
    };
    let mut trickle = Replica::new(options.clone());
    bytes.iter().for_each(|byte| trickle.receive(&[*byte]));
    check(trickle, "byte by byte");
    for at in 1..bytes.len() {
        let mut halves = Replica::new(options.clone());
        halves.receive(&bytes[..at]);
        halves.receive(&bytes[at..]);
        check(halves, &format!("cut at {at}"));
    }
    whole
}

/// A question that is lent twice may be answered twice.
fn without_repeated_acks(said: &str) -> String {
    let mut requests: Vec<&str> = said.split('|').collect();
    requests.dedup();
    requests.join("|")
}

/// Checks events and what the link sends, `bytes` being everything that the primary sends.
fn check(options: &LinkOptions, bytes: &[&[u8]], events: &[&str], said: &str) -> Replica {
    let replica = replica_of(options, &bytes.concat());
    assert_eq!(replica.error, None);
    assert_eq!(replica.events, events);
    assert_eq!(without_repeated_acks(&replica.said), said);
    replica
}

fn check_error(options: &LinkOptions, bytes: &[&[u8]], expected: &str) {
    let replica = replica_of(options, &bytes.concat());
    assert_eq!(replica.error.map(|error| error.to_string()).as_deref(), Some(expected));
}

const ANSWERS: &[u8] = b"+PONG\r\n+OK\r\n+OK\r\n";
const QUESTIONS: &str = "PING|REPLCONF listening-port 7812|REPLCONF capa eof capa psync2 capa darter-getack capa darter-1 capa darter-receive|";

fn full_resync(offset: u64) -> Vec<u8> {
    format!("+FULLRESYNC {ID} {offset}\r\n").into_bytes()
}

#[test]
fn a_snapshot_of_known_length_and_the_stream() {
    let set = request("SET key value");
    let stream = [&set[..], b"\n", &request("REPLCONF GETACK *"), &request("PING"), b"*0\r\n"].concat();
    let bytes = [ANSWERS, b"\n\r\n", &full_resync(1000), b"\n\n$12\r\nREDIS0010\xff\r\n", &stream];
    let events = [
        "full sync at Some(1000)",
        r"snapshot REDIS0010\xff\r\n",
        "SET key value 1033",
        " 1034",
        " 1071",
        "PING 1085",
        " 1089",
    ];
    let said = format!("{QUESTIONS}PSYNC ? -1|REPLCONF ACK 0|REPLCONF ACK 1000|REPLCONF ACK 1071|");
    let replica = check(&options(), &bytes, &events, &said);
    assert_eq!(replica.stream, stream);
    assert_eq!(replica.link.position(), Some(Position { id: id(ID), offset: StreamPosition::new(1089) }));
    assert_eq!(replica.link.state(), LinkState::Connected);
}

#[test]
fn a_snapshot_up_to_its_mark() {
    // The beginning of the mark stands before it several times, and once all of it but the last character.
    let snapshot = format!("REDIS0010{0}{0}ABCABCAB{1}X{1}", &MARK[..39], &MARK[..20]);
    let announced = format!("$EOF:{MARK}\r\n");
    let bytes = [ANSWERS, &full_resync(0), announced.as_bytes(), snapshot.as_bytes(), MARK.as_bytes()];
    let (shown, said) = (format!("snapshot {snapshot}"), format!("{QUESTIONS}PSYNC ? -1|REPLCONF ACK 0|"));
    check(&options(), &bytes, &["full sync at Some(0)", &shown], &said);
    // A primary that does not wait for the first acknowledgement.
    let bytes = [&bytes.concat()[..], &request("PING")];
    check(&options(), &bytes, &["full sync at Some(0)", &shown, "PING 14"], &said);
}

#[test]
fn the_stream_continues() {
    let set = request("SET k v");
    let asked = format!("{QUESTIONS}PSYNC {ID} 51|REPLCONF ACK 50|");
    let continued = format!("continued {ID}");
    check(&resuming(50), &[ANSWERS, b"\n+CONTINUE\r\n", &set], &[&continued, "SET k v 77"], &asked);
    let answer = format!("+CONTINUE {NEW_ID}\r\n");
    let continued = format!("continued {NEW_ID}");
    let replica = check(&resuming(50), &[ANSWERS, answer.as_bytes()], &[&continued], &asked);
    assert_eq!(replica.link.position(), Some(Position { id: id(NEW_ID), offset: StreamPosition::new(50) }));
    let taking = LinkOptions { hands_over: true, takes_snapshots: false, ..resuming(50) };
    let asked = format!("{QUESTIONS}PSYNC {ID} 51 FAILOVER|REPLCONF ACK 50|");
    check(&taking, &[ANSWERS, answer.as_bytes()], &[&continued], &asked);
}

/// Only a mark shows that everything has arrived that the primary had when it continued the stream.
#[test]
fn what_was_applied_is_proven_by_a_mark() {
    let marked = LinkOptions { mark: Some(*id(MARK).as_bytes()), ..resuming(50) };
    let other = request("REPLCONF GETACK *");
    let set = request("SET k v");
    let mark = request(&format!("REPLCONF GETACK {MARK}"));
    let introduced = format!("{QUESTIONS}REPLCONF mark {MARK}|PSYNC {ID} 51|REPLCONF ACK 50|");
    for (answer, stream, expected) in [
        ("+OK", [&set[..], &other], false),
        ("+OK", [&set, &mark], true),
        ("-ERR Unrecognized REPLCONF option: mark", [&set, &other], true),
    ] {
        let mut link = Link::new(marked.clone(), 0);
        link.opened(0);
        link.received(&[ANSWERS, answer.as_bytes(), b"\r\n+CONTINUE\r\n", stream[0]].concat(), 0);
        while link.next(0).expect("it is right").is_some() {}
        assert_eq!(said(&mut link), introduced);
        link.settle();
        assert_eq!(link.is_proven(), answer != "+OK", "nothing has come that says so");
        link.received(stream[1], 0);
        while link.next(0).expect("it is right").is_some() {}
        assert_eq!(link.is_proven(), answer != "+OK", "it is not applied yet");
        link.settle();
        assert_eq!(link.is_proven(), expected, "{answer}");
    }
    assert!(Link::new(resuming(50), 0).is_proven());
}

#[test]
fn everything_a_replica_may_have_to_say() {
    let user = Some("replica".to_owned());
    let credentials = Some(Credentials { user, password: "secret".to_owned() });
    let all = LinkOptions { credentials, address: Some("10.0.0.7".to_owned()), ..options() };
    let introduced = "REPLCONF listening-port 7812|REPLCONF ip-address 10.0.0.7|REPLCONF capa eof capa psync2 capa darter-getack capa darter-1 capa darter-receive|";
    let answers = b"-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n";
    check(&all, &[answers], &[], &format!("PING|AUTH replica secret|{introduced}PSYNC ? -1|"));
    let no_user = Some(Credentials { user: None, password: "secret".to_owned() });
    let all = LinkOptions { credentials: no_user, ..all };
    let answers = b"-NOPERM this user has no permissions\r\n+OK\r\n-ERR a\r\n-ERR b\r\n-ERR c\r\n";
    let events = ["listening-port: -ERR a", "ip-address: -ERR b", "capa: -ERR c"];
    check(&all, &[answers], &events, &format!("PING|AUTH secret|{introduced}PSYNC ? -1|"));
    let answers = b"-MISCONF Errors writing to the AOF file\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n";
    check(&all, &[answers], &[], &format!("PING|AUTH secret|{introduced}PSYNC ? -1|"));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    let answers = format!("+PONG\r\n{wrong}\r\n");
    check_error(&all, &[answers.as_bytes()], &format!("Unable to AUTH to MASTER: {wrong}"));
    assert!(!format!("{all:?}").contains("secret"));
}

#[test]
fn a_primary_that_knows_only_sync() {
    let bytes: [&[u8]; 4] = [ANSWERS, b"-ERR unknown command 'PSYNC'\r\n\n", b"$10\r\nREDIS0001\xff", b"\n"];
    let events = ["full sync at None", r"snapshot REDIS0001\xff", " 1"];
    let replica = check(&options(), &bytes, &events, &format!("{QUESTIONS}PSYNC ? -1|SYNC|"));
    assert_eq!(replica.link.position(), None);
}

#[test]
fn refusals() {
    let check = |answer: &str, expected: &str| check_error(&resuming(7), &[answer.as_bytes()], expected);
    let psync = |answer: &str| format!("+PONG\r\n+OK\r\n+OK\r\n{answer}\r\n");
    check("-ERR no\r\n", "Error reply to PING from master: '-ERR no'");
    check("\r\n", "Error reply to PING from master: ''");
    check("$5\r\n", "Error reply to PING from master: '$5'");
    for text in ["-LOADING Redis is loading", "-NOMASTERLINK Can't SYNC while not connected with my master"] {
        let expected = format!("Master is currently unable to PSYNC but should be in the future: {text}");
        check(&psync(text), &expected.replace('\'', r"\'"));
    }
    for text in [
        "+FULLRESYNC",
        "+FULLRESYNC x 1",
        &format!("+FULLRESYNC {ID} -1"),
        &format!("+FULLRESYNC {ID} {}", (1_u64 << 62) + 1),
        &format!("+FULLRESYNC {ID} 9223372036854775807"),
        &format!("+FULLRESYNC {ID} 18446744073709551615"),
        "+CONTINUE x",
        "+CONTINUE  ",
    ] {
        check(&psync(text), &format!("Master replied to PSYNC with wrong syntax: {text}"));
    }
    let expected = "Master replied to PSYNC with wrong syntax: +CONTINUE";
    check_error(&options(), &[psync("+CONTINUE").as_bytes()], expected);
    let taking = LinkOptions { hands_over: true, takes_snapshots: false, ..resuming(7) };
    let expected = "Failover target rejected psync request: -ERR no";
    check_error(&taking, &[psync("-ERR no").as_bytes()], expected);
    let joining = LinkOptions { takes_snapshots: false, ..resuming(7) };
    let answer = format!("+FULLRESYNC {ID} 7");
    let expected = format!("Failover target rejected psync request: {answer}");
    check_error(&joining, &[psync(&answer).as_bytes()], &expected);
}

#[test]
fn snapshots_that_are_none() {
    let check = |line: &str, expected: &str| {
        check_error(&options(), &[ANSWERS, &full_resync(0), line.as_bytes(), b"\r\n"], expected);
    };
    for line in
        ["$-1", "$", "$9", "$x", "$01", "$1125899906842625", "$9223372036854775808", "$EOF:short", "$EOF:"]
    {
        check(line, &format!("Bad protocol from MASTER, no snapshot has this length: {line}"));
    }
    let mark = format!("$EOF:{MARK}D");
    check(&mark, &format!("Bad protocol from MASTER, no snapshot has this length: {mark}"));
    check("-ERR no disk", "MASTER aborted replication with an error: -ERR no disk");
    let expected = "Bad protocol from MASTER, the first byte is not '$' (we received 'HTTP/1.1 400'), are you sure the host and port are right?";
    check("HTTP/1.1 400", expected);
}

#[test]
fn lines_that_do_not_end() {
    let endless = vec![b'x'; LINE_BYTES_MAX];
    let check = |before: &[&[u8]], state: &str| {
        let bytes = [before.concat(), endless.clone()].concat();
        let expected = format!("the primary sent a line of more than 1024 bytes (state {state})");
        check_error(&options(), &[&bytes], &expected);
    };
    check(&[], "handshake");
    check(&[ANSWERS], "handshake");
    check(&[ANSWERS, &full_resync(0)], "sync");
    let longest = [b"+".to_vec(), vec![b'x'; LINE_BYTES_MAX - 2], b"\n".to_vec()].concat();
    assert_eq!(replica_of(&options(), &longest).error, None);
}

#[test]
fn a_stream_of_something_else() {
    let small = Limits { bulk_bytes_max: 8, ..Limits::default() };
    let limited = LinkOptions { limits: small, ..resuming(50) };
    let check = |stream: &[u8], expected: &str| {
        check_error(&limited, &[ANSWERS, b"+CONTINUE\r\n", &request("PING"), stream], expected);
    };
    check(b"*1\r\n:1\r\n", "Protocol error from master at offset 64: expected '$', got ':'");
    check(b"*x\r\n", "Protocol error from master at offset 64: invalid multibulk length");
    check(b"*1\r\n$9\r\n", "Protocol error from master at offset 64: invalid bulk length");
    check(b"*1\r\n$-1\r\n", "Protocol error from master at offset 64: invalid bulk length");
}

#[test]
fn offsets_are_said_each_second_when_they_are_new_and_after_loading() {
    let mut link = Link::new(options(), 0);
    link.opened(10);
    link.received(&[ANSWERS, &full_resync(5), b"$10\r\nREDIS0010\xff"].concat(), 20);
    while link.next(20).expect("nothing is wrong") != Some(Event::SnapshotEnd) {}
    link.begin_loading(20);
    assert!(link.is_loading());
    assert_eq!((link.state(), link.position()), (LinkState::Sync, None));
    assert!(said(&mut link).ends_with("PSYNC ? -1|REPLCONF ACK 0|"));
    for now_ms in [1020, 1021, 100_000] {
        assert_eq!(link.tick(now_ms), Ok(()));
    }
    assert_eq!(said(&mut link), "REPLCONF ACK 0|REPLCONF ACK 0|", "and no complaint of silence");
    link.set_durable(Some(StreamPosition::new(3)));
    link.loaded(100_100);
    assert_eq!(said(&mut link), "REPLCONF ACK 5 FACK 3|");
    assert_eq!(link.tick(100_199), Ok(()));
    assert_eq!(said(&mut link), "");
    assert_eq!(link.tick(100_200), Ok(()));
    assert_eq!(said(&mut link), "REPLCONF ACK 5 FACK 3|", "the stream has not begun");
    link.received(&request("PING"), 101_099);
    assert!(link.next(101_099).expect("nothing is wrong").is_some());
    assert_eq!(link.tick(101_100), Ok(()));
    assert_eq!(said(&mut link), "REPLCONF ACK 5 FACK 3|", "it is not known yet whether it was applied");
    link.settle();
    assert_eq!(link.next(101_100), Ok(None));
    link.set_durable(Some(StreamPosition::new(19)));
    assert_eq!(link.tick(101_109), Ok(()));
    assert_eq!(said(&mut link), "");
    assert_eq!(link.tick(101_110), Ok(()));
    assert_eq!(said(&mut link), "REPLCONF ACK 19 FACK 19|", "what is new is said sooner");
    assert_eq!(link.tick(102_109), Ok(()));
    assert_eq!(said(&mut link), "");
    assert_eq!(link.tick(102_110), Ok(()));
    assert_eq!(said(&mut link), "REPLCONF ACK 19 FACK 19|");
}

#[test]
fn what_is_on_disk_is_said_at_once_to_who_has_asked() {
    let mut link = Link::new(resuming(50), 0);
    link.opened(0);
    link.received(&[ANSWERS, b"+CONTINUE\r\n"].concat(), 0);
    assert!(matches!(link.next(0), Ok(Some(Event::Continued(_)))));
    link.set_durable(Some(StreamPosition::new(40)));
    let apply = |link: &mut Link, bytes: &[u8], now_ms| {
        link.received(bytes, now_ms);
        while link.next(now_ms).expect("nothing is wrong").is_some() {}
        link.settle();
    };
    let said_at = |link: &mut Link, now_ms| {
        assert_eq!(link.tick(now_ms), Ok(()));
        said(link)
    };
    said(&mut link);
    apply(&mut link, &request("PING"), 100);
    assert_eq!(said_at(&mut link, 100), "REPLCONF ACK 64 FACK 40|");
    link.set_durable(Some(StreamPosition::new(64)));
    assert_eq!((link.awaits_durable(), said_at(&mut link, 109)), (false, String::new()), "nobody has asked");
    assert_eq!(said_at(&mut link, 110), "REPLCONF ACK 64 FACK 64|");
    apply(&mut link, &[&request("PING")[..], &request("REPLCONF GETACK *")].concat(), 111);
    assert_eq!(said(&mut link), "REPLCONF ACK 115 FACK 64|");
    assert!(link.awaits_durable());
    assert_eq!(said_at(&mut link, 111), "");
    apply(&mut link, &request("PING"), 111);
    for (durable, expected) in [(70, "70"), (60, ""), (115, "115"), (120, "")] {
        link.set_durable(Some(StreamPosition::new(durable)));
        let expected =
            if expected.is_empty() { String::new() } else { format!("REPLCONF ACK 129 FACK {expected}|") };
        assert_eq!(said_at(&mut link, 111), expected, "{durable}");
    }
    assert!(!link.awaits_durable());
    assert_eq!(said_at(&mut link, 121), "REPLCONF ACK 129 FACK 120|");
    // The disk rejects further writes.
    apply(&mut link, &request("REPLCONF GETACK *"), 121);
    assert_eq!(said(&mut link), "REPLCONF ACK 166 FACK 120|");
    link.set_durable(None);
    assert!(!link.awaits_durable());
    assert_eq!(said_at(&mut link, 130), "");
    assert_eq!(said_at(&mut link, 131), "REPLCONF ACK 166|");
    link.set_durable(Some(StreamPosition::new(0)));
    assert_eq!(said_at(&mut link, 131), "REPLCONF ACK 166 FACK 0|");
}

#[test]
fn silence_ends_it() {
    let silent = |link: &mut Link, heard_ms: u64, state| {
        assert_eq!((link.heard_ms(), link.state()), (heard_ms, state));
        assert_eq!(link.tick(heard_ms + 60_000), Ok(()));
        let timeout_ms = 60_000;
        assert_eq!(link.tick(heard_ms + 60_001), Err(LinkError::Silent { state, timeout_ms }));
    };
    let mut link = Link::new(options(), 5);
    silent(&mut link, 5, LinkState::Connecting);
    link.opened(10);
    silent(&mut link, 10, LinkState::Handshake);
    link.received(&[ANSWERS, &full_resync(5), b"$10\r\nREDIS"].concat(), 20);
    while link.next(20).expect("nothing is wrong").is_some() {}
    silent(&mut link, 20, LinkState::Sync);
    link.received(b"0010\xff", 30);
    while link.next(30).expect("nothing is wrong") != Some(Event::SnapshotEnd) {}
    link.begin_loading(30);
    link.loaded(1_000_000);
    silent(&mut link, 1_000_000, LinkState::Connected);
    assert_eq!(
        link.tick(2_000_000).expect_err("it is silent").to_string(),
        "the primary was silent for more than 60000 ms (state connected)"
    );
}

#[test]
fn what_is_left_of_a_snapshot_is_told() {
    let mut link = Link::new(options(), 0);
    link.opened(0);
    link.received(&[ANSWERS, &full_resync(5), b"$12\r\nREDIS0010"].concat(), 0);
    assert!(matches!(link.next(0), Ok(Some(Event::FullSync(Some(_))))));
    assert_eq!(link.next(0), Ok(Some(Event::Snapshot { bytes: b"REDIS0010", left: Some(3) })));
    assert_eq!(link.next(0), Ok(None));
    link.received(b"\xffxyPING", 0);
    assert_eq!(link.next(0), Ok(Some(Event::Snapshot { bytes: b"\xffxy", left: Some(0) })));
    assert_eq!(link.next(0), Ok(Some(Event::SnapshotEnd)));
    assert_eq!(link.next(0), Ok(None), "nothing is run before the snapshot is in use");
}

#[test]
fn states_are_named_as_role_does() {
    use LinkState::*;
    let names = [None, Connect, Connecting, Handshake, Sync, Connected].map(LinkState::name);
    assert_eq!(names, ["none", "connect", "connecting", "handshake", "sync", "connected"]);
}
