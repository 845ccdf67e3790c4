//! Servers that pretend to be etcd: they answer rubbish, half, too much, or nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use topology::etcd::EtcdOptions;
use topology::{Error, Revision, Sight, Store, Swap, Unsettled};

use crate::cluster::open;
use crate::{PATIENCE, document, found, next_term, why};

/// The longest that one call may take.
const CALL: Duration = Duration::from_secs(8);

/// Starts a server that treats each connection as `serve` does, and returns its URL. It ends with the process.
fn server(serve: impl Fn(TcpStream) + Send + Sync + Clone + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(stream));
        }
    });
    url
}

/// Reads a request whose body is complete.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        text.extend_from_slice(&piece[..count]);
        let shown = String::from_utf8_lossy(&text);
        let Some((head, body)) = shown.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(shown.into_owned());
        }
    }
}

/// An answer with a length.
fn answer(status: u16, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A server that sends these bytes to each request, and more of `forever` after them until the client closes.
fn answering(bytes: Vec<u8>, forever: &'static [u8]) -> String {
    server(move |mut stream| {
        while read_request(&mut stream).is_some() {
            if stream.write_all(&bytes).is_err() {
                return;
            }
            let block = forever.repeat(4096);
            while !forever.is_empty() && stream.write_all(&block).is_ok() {}
            if bytes.is_empty() {
                return;
            }
        }
    })
}

/// A store on servers that pretend.
fn store(urls: &[String]) -> topology::etcd::EtcdStore {
    open(&EtcdOptions::new(urls.to_vec(), "shop".parse().unwrap()))
}

/// An answer that etcd could give: a document of revision 7 in a store of revision 9.
pub(crate) fn plausible() -> String {
    use base64::Engine as _;
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let (key, value) = (base64("/darter/shop/doc"), base64(&document().encode()));
    let kv = format!(r#"{{"key":"{key}","value":"{value}","mod_revision":"7"}}"#);
    format!(
        r#"{{"header":{{"cluster_id":"5","revision":"9"}},"responses":[{{"response_range":{{"kvs":[{kv}],"count":"1"}}}},{{"response_range":{{}}}},{{"response_range":{{}}}}]}}"#
    )
}

/// A call of a store.
type Call = (&'static str, fn(&mut dyn Store));

/// The calls that need no reading, each of which must fail.
const CALLS: [Call; 5] = [
    ("read", |store| assert!(store.read().is_err())),
    ("live_nodes", |store| assert!(store.live_nodes().is_err())),
    ("announce", |store| assert!(store.announce(&crate::contract::announcement("a", 1)).is_err())),
    ("prove_dead", |store| assert!(store.prove_dead(topology::Life(1), &why("gone")).is_err())),
    ("watch", |store| {
        let seen = store.watch().unwrap().next(Duration::from_millis(100));
        assert!(seen.is_err(), "{seen:?}");
    }),
];

/// Every call of a store ends in time, with an error, and no change is taken for one that failed. The calls wait, so they
/// do it all at once.
#[track_caller]
fn check_hopeless(urls: &[String]) {
    let on = store(&[answering(answer(200, &plausible()), b"")]).read().unwrap();
    let timed = |name: &str, call: &dyn Fn()| {
        let begin = Instant::now();
        call();
        assert!(begin.elapsed() < CALL, "{name} takes {:?}", begin.elapsed());
    };
    std::thread::scope(|scope| {
        for url in urls {
            for (name, call) in CALLS {
                scope.spawn(move || timed(name, &|| call(&mut store(std::slice::from_ref(url)))));
            }
            let on = &on;
            scope.spawn(move || {
                timed("compare_and_swap", &|| {
                    let mut store = store(std::slice::from_ref(url));
                    let swap = store.compare_and_swap(on, &next_term(found(on)), &why("takeover"));
                    assert!(matches!(swap, Swap::Unknown(_)), "{swap:?}");
                });
            });
        }
    });
}

#[test]
fn rubbish_is_an_error_and_never_an_outcome() {
    let bodies = ["", "{}", "[]", "null", "<html>"];
    let mut urls: Vec<String> = bodies.iter().map(|body| answering(answer(200, body), b"")).collect();
    urls.push(answering(b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec(), b""));
    urls.push(answering(answer(302, ""), b""));
    urls.push(answering(answer(429, "<html>slow down</html>"), b""));
    check_hopeless(&urls);
}

#[test]
fn half_answers_and_silence_end_in_time() {
    let whole = answer(200, &plausible());
    check_hopeless(&[
        answering(whole[..whole.len() - 10].to_vec(), b""),
        answering(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec(), b""),
        server(|mut stream| while read_request(&mut stream).is_some() {}),
        server(drop),
    ]);
}

#[test]
fn endless_answers_take_no_memory() {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    check_hopeless(&[
        answering(head, b"8\r\n{\"a\":\"bc\r\n"),
        answering(b"HTTP/1.1 200 OK\r\n".to_vec(), b"x-header: value\r\n"),
    ]);
}

#[test]
fn answers_that_contradict_themselves_are_errors() {
    for (old, new) in [
        (r#""mod_revision":"7""#, r#""mod_revision":"10""#),
        (r#""mod_revision":"7""#, r#""mod_revision":"-7""#),
        (r#""mod_revision":"7""#, r#""mod_revision":"0""#),
        (r#""revision":"9""#, r#""revision":"99999999999999999999""#),
        (r#""cluster_id":"5","#, ""),
        (r#",{"response_range":{}}]"#, "]"),
    ] {
        let text = plausible();
        assert!(text.contains(old));
        let read = store(&[answering(answer(200, &text.replace(old, new)), b"")]).read();
        assert!(matches!(read, Err(Error::Nonsense { .. })), "{new}: {read:?}");
    }
}

/// A member that is stopped or restored keeps a watch open, and says nothing.
#[test]
fn a_silent_watch_tells_all_the_same() {
    let has_changed = Arc::new(AtomicBool::new(false));
    let changed = has_changed.clone();
    let url = server(move |mut stream| {
        while let Some(request) = read_request(&mut stream) {
            let line = "{\"result\":{\"created\":true}}\n";
            let head = format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{line}\r\n",
                line.len()
            );
            let revision = if changed.load(Ordering::SeqCst) { "8" } else { "7" };
            let text =
                plausible().replace(r#""mod_revision":"7""#, &format!(r#""mod_revision":"{revision}""#));
            let is_watch = request.starts_with("POST /v3/watch ");
            let sent = if is_watch {
                stream.write_all(head.as_bytes())
            } else {
                stream.write_all(&answer(200, &text))
            };
            if sent.is_err() {
                return;
            }
        }
    });
    let mut watch = store(&[url]).watch().unwrap();
    let mut next = |wait| watch.next(wait).unwrap();
    assert!(matches!(next(PATIENCE), Sight::Changed(reading) if reading.revision == Revision(7)));
    assert_eq!(next(Duration::from_millis(200)), Sight::Silent);
    has_changed.store(true, Ordering::SeqCst);
    assert!(matches!(next(PATIENCE), Sight::Changed(reading) if reading.revision == Revision(8)));
}

#[test]
fn a_change_that_was_not_sent_is_known_not_to_be_made() {
    let on = store(&[answering(answer(200, &plausible()), b"")]).read().unwrap();
    let unreachable = "http://127.0.0.1:1".to_owned();
    let swap = store(std::slice::from_ref(&unreachable)).compare_and_swap(
        &on,
        &next_term(found(&on)),
        &why("takeover"),
    );
    assert!(matches!(swap, Swap::NotDone(Error::Unreachable(_))), "{swap:?}");
    // The next member gets it.
    let lost = plausible().replace(r#""mod_revision":"7""#, r#""mod_revision":"8""#);
    let mut store = store(&[unreachable, answering(answer(200, &lost), b"")]);
    let swap = store.compare_and_swap(&on, &next_term(found(&on)), &why("takeover"));
    assert!(matches!(swap, Swap::Lost(_)), "{swap:?}");
}

#[test]
fn a_change_is_sent_once() {
    let on = store(&[answering(answer(200, &plausible()), b"")]).read().unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    let deaf = server(move |mut stream| {
        while read_request(&mut stream).is_some() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let mut store = store(&[deaf.clone(), deaf]);
    let swap = store.compare_and_swap(&on, &next_term(found(&on)), &why("takeover"));
    let Swap::Unknown(unsettled) = swap else { panic!("{swap:?}") };
    assert!(matches!(unsettled.cause(), Error::TimedOut { .. }));
    assert_eq!(Unsettled::on(&unsettled), on.revision);
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[test]
fn another_cluster_is_refused() {
    let mut store = store(&[answering(answer(200, &plausible()), b"")]);
    store.read().unwrap();
    let history = store.history();
    let other = plausible().replace(r#""cluster_id":"5""#, r#""cluster_id":"6""#);
    let options = EtcdOptions::new(vec![answering(answer(200, &other), b"")], "shop".parse().unwrap());
    let mut store =
        topology::etcd::EtcdStore::new(&options, history, &mut proactor::Entropy::from_seed(1)).unwrap();
    assert!(matches!(store.read(), Err(Error::OtherCluster { .. })));
    store.accept_as_it_is();
    store.read().unwrap();
}
