//! The store on a real etcd, and what happens to it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use proactor::Entropy;
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use topology::etcd::{EtcdOptions, EtcdStore};
use topology::{DEAD_MAX, Error, History, LOG_MAX, Life, Sight, Store, Swap};

use crate::cluster::{Cluster, open, program};
use crate::contract::{Subject, check, check_together};
use crate::{PATIENCE, change_surely, document, done, found, next_term, why, within_patience};

/// Creates the document.
fn create(store: &mut dyn Store) {
    let nothing = within_patience(|| store.read());
    done(store.compare_and_swap(&nothing, &document(), &why("create")));
}

/// A text in base64, as the gateway wants it.
fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

#[test]
fn keeps_the_contract() {
    let Some(cluster) = Cluster::start(3, &[]) else { return };
    let (mut one, mut other) = (cluster.store(), cluster.store());
    let mut write_unchecked = |text: &str| {
        let (key, value) = (base64("/darter/shop/doc"), base64(text));
        cluster.post(0, "kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#));
    };
    check(&mut Subject { one: &mut one, other: &mut other, write_unchecked: &mut write_unchecked });
}

#[test]
fn users_at_the_same_time_change_one_after_the_other() {
    let Some(cluster) = Cluster::start(3, &[]) else { return };
    create(&mut cluster.store());
    check_together((0..4).map(|_| Box::new(cluster.store()) as Box<dyn Store>).collect());
}

/// Makes changes while `fault` happens, and checks that each acknowledged one is there afterwards.
fn changes_outlive(cluster: &mut Cluster, fault: impl FnOnce(&mut Cluster)) {
    let mut store = cluster.store();
    if store.read().unwrap().document().is_none() {
        create(&mut store);
    }
    let mut watch = cluster.store().watch().unwrap();
    let mut made = Vec::new();
    let mut fault = Some(fault);
    let begin = Instant::now();
    // Enough that some are made after the fault.
    while made.len() < 40 {
        assert!(begin.elapsed() < PATIENCE, "changes are not made any more");
        if made.len() == 20
            && let Some(fault) = fault.take()
        {
            fault(cluster);
        }
        let Ok(reading) = store.read() else { continue };
        match store.compare_and_swap(&reading, &next_term(found(&reading)), &why("under faults")) {
            Swap::Done(revision) => made.push((reading.revision, revision)),
            Swap::Lost(current) => assert_ne!(current.revision, reading.revision),
            Swap::NotDone(_) | Swap::Unknown(_) => {}
        }
    }
    let log = within_patience(|| cluster.store().log(1_000));
    for (on, revision) in &made {
        let entry = log.iter().find(|entry| entry.on == *on).expect("an acknowledged change is in the log");
        assert_eq!(entry.made, *revision);
    }
    let last = made.last().unwrap().1;
    while !matches!(watch.next(PATIENCE), Ok(Sight::Changed(reading)) if reading.revision >= last) {
        assert!(begin.elapsed() < 2 * PATIENCE, "the watch does not tell");
    }
}

#[test]
fn changes_outlive_leaders_that_die_and_members_that_hang() {
    let Some(mut cluster) = Cluster::start(3, &[]) else { return };
    changes_outlive(&mut cluster, |cluster| {
        let leader = cluster.leader();
        cluster.pause(leader);
    });
    cluster.resume();
    changes_outlive(&mut cluster, |cluster| {
        let leader = cluster.leader();
        cluster.kill(leader);
    });
}

#[test]
fn without_a_quorum_nothing_is_known() {
    let Some(mut cluster) = Cluster::start(3, &[]) else { return };
    let mut store = cluster.store();
    create(&mut store);
    let on = store.read().unwrap();
    let mut watch = store.watch().unwrap();
    assert!(matches!(watch.next(PATIENCE), Ok(Sight::Changed(_))));
    let leader = cluster.leader();
    for at in (0..3).filter(|at| *at != leader) {
        cluster.kill(at);
    }
    let begin = Instant::now();
    let swap = store.compare_and_swap(&on, &next_term(found(&on)), &why("takeover"));
    let Swap::Unknown(unsettled) = swap else { panic!("{swap:?}") };
    assert!(store.read().is_err());
    assert!(store.announce(&crate::contract::announcement("a", 0xaa)).is_err());
    let seen = watch.next(Duration::from_secs(3));
    assert!(!matches!(seen, Ok(Sight::Changed(_))), "{seen:?}");
    assert!(begin.elapsed() < PATIENCE, "calls have time limits");
    for at in (0..3).filter(|at| *at != leader) {
        cluster.start_one(at);
    }
    let begin = Instant::now();
    let mut open = unsettled;
    let told = loop {
        assert!(begin.elapsed() < PATIENCE);
        match store.settle(open, &why("settle")) {
            Ok(told) => break told,
            Err(unsettled) => open = unsettled,
        }
    };
    assert!(told.revision > on.revision);
}

#[test]
fn space_that_is_exhausted_is_told_with_the_way_out() {
    let Some(cluster) = Cluster::start(1, &["--quota-backend-bytes", "1000000"]) else { return };
    let mut store = cluster.store();
    create(&mut store);
    let value = base64(&"x".repeat(100_000));
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE, "it does not fill up");
        let key = base64("other");
        if cluster.post(0, "kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#)).contains("exceeded")
        {
            break;
        }
    }
    let on = store.read().expect("it can be read");
    let swap = store.compare_and_swap(&on, &next_term(found(&on)), &why("takeover"));
    let Swap::Unknown(unsettled) = swap else { panic!("{swap:?}") };
    let text = unsettled.cause().to_string();
    assert!(text.contains("etcdctl defrag") && text.contains("etcdctl alarm disarm"), "{text}");
    assert!(store.prove_dead(Life(1), &why("gone")).is_err());
    let last = store.read().unwrap().as_of;
    cluster.post(0, "kv/compaction", &format!(r#"{{"revision":"{last}","physical":true}}"#));
    cluster.post(0, "maintenance/defragment", "{}");
    let alarms: serde_json::Value =
        serde_json::from_str(&cluster.post(0, "maintenance/alarm", r#"{"action":"GET"}"#)).unwrap();
    let member = &alarms["alarms"][0]["memberID"];
    let disarm = format!(r#"{{"action":"DEACTIVATE","memberID":{member},"alarm":"NOSPACE"}}"#);
    cluster.post(0, "maintenance/alarm", &disarm);
    change_surely(&mut store, next_term);
}

#[test]
fn a_watch_outlives_compaction() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let mut store = cluster.store();
    create(&mut store);
    let mut watch = store.watch().unwrap();
    assert!(matches!(watch.next(PATIENCE), Ok(Sight::Changed(_))));
    for _ in 0..3 {
        let made = (0..10).map(|_| change_surely(&mut store, next_term)).last().unwrap();
        cluster.post(0, "kv/compaction", &format!(r#"{{"revision":"{made}","physical":true}}"#));
        let begin = Instant::now();
        while !matches!(watch.next(PATIENCE), Ok(Sight::Changed(reading)) if reading.revision == made) {
            assert!(begin.elapsed() < PATIENCE, "the watch does not tell");
        }
    }
}

/// Writes keys `prefix` + `name(number)`, many in a transaction.
fn fill(cluster: &Cluster, count: u64, key: impl Fn(u64) -> String) {
    let value = base64(&serde_json::to_string(&why("before")).unwrap());
    let numbers: Vec<u64> = (0..count).collect();
    for part in numbers.chunks(100) {
        let put = |number: &u64| {
            format!(r#"{{"request_put":{{"key":"{}","value":"{value}"}}}}"#, base64(&key(*number)))
        };
        let puts: Vec<String> = part.iter().map(put).collect();
        let answer = cluster.post(0, "kv/txn", &format!(r#"{{"success":[{}]}}"#, puts.join(",")));
        assert!(answer.contains("succeeded"), "{answer}");
    }
}

/// The number of keys in a folder of ours.
fn count(cluster: &Cluster, folder: &str) -> usize {
    let (from, to) = (base64(&format!("/darter/shop/{folder}/")), base64(&format!("/darter/shop/{folder}0")));
    let request = format!(r#"{{"key":"{from}","range_end":"{to}","count_only":true}}"#);
    let answer: serde_json::Value = serde_json::from_str(&cluster.post(0, "kv/range", &request)).unwrap();
    answer["count"].as_str().map_or(0, |count| count.parse().unwrap())
}

#[test]
fn what_grows_is_removed() {
    let Some(cluster) = Cluster::start(1, &[]) else { return };
    let mut store = open(&EtcdOptions { revisions_kept: Some(20), ..cluster.options() });
    create(&mut store);
    fill(&cluster, LOG_MAX as u64 + 20, |number| format!("/darter/shop/log/{number:020}"));
    fill(&cluster, DEAD_MAX as u64 + 20, |number| format!("/darter/shop/dead/{:016x}", number + 1_000));
    for _ in 0..5 {
        change_surely(&mut store, next_term);
    }
    assert!((LOG_MAX..=LOG_MAX + 1).contains(&count(&cluster, "log")), "{}", count(&cluster, "log"));
    // A life that the document names is kept, though it was proven dead first.
    for life in [0xaa, 0xff] {
        store.prove_dead(Life(life), &why("gone")).unwrap();
    }
    assert_eq!(count(&cluster, "dead"), DEAD_MAX);
    let dead = store.read().unwrap().dead;
    assert!(dead.contains(&Life(0xaa)) && dead.contains(&Life(0xff)) && !dead.contains(&Life(1_000)));

    // Old revisions.
    for _ in 0..50 {
        change_surely(&mut store, next_term);
    }
    let ours = crate::contract::announcement("a", 0xaa);
    for _ in 0..2 {
        store.announce(&ours).unwrap();
    }
    let first = format!(r#"{{"key":"{}","revision":"2"}}"#, base64("/darter/shop/doc"));
    assert!(cluster.post(0, "kv/range", &first).contains("has been compacted"));

    // etcd may remove an announcement whose lease was renewed.
    let key = format!(r#"{{"key":"{}"}}"#, base64("/darter/shop/node/a"));
    cluster.post(0, "kv/deleterange", &key);
    assert!(store.live_nodes().unwrap().is_empty());
    store.announce(&ours).unwrap();
    assert_eq!(store.live_nodes().unwrap(), [ours]);
}

/// Turns on users: `darter` with all rights on its keys, and `guest` who may read some of them.
fn turn_on_users(cluster: &Cluster) {
    let post = |path: &str, body: &str| {
        let answer = cluster.post(0, path, body);
        assert!(!answer.contains("error"), "{path}: {answer}");
    };
    let (all, end) = (base64("/darter/shop/"), base64("/darter/shop0"));
    for (user, kind, from, to) in
        [("root", "", "", ""), ("darter", "READWRITE", &*all, &*end), ("guest", "READ", &*all, &*end)]
    {
        post("auth/user/add", &format!(r#"{{"name":"{user}","password":"secret"}}"#));
        post("auth/role/add", &format!(r#"{{"name":"{user}"}}"#));
        if !kind.is_empty() {
            let permission = format!(r#"{{"permType":"{kind}","key":"{from}","range_end":"{to}"}}"#);
            post("auth/role/grant", &format!(r#"{{"name":"{user}","perm":{permission}}}"#));
        }
        post("auth/user/grant", &format!(r#"{{"user":"{user}","role":"{user}"}}"#));
    }
    post("auth/enable", "{}");
}

#[test]
fn users_need_rights_and_tokens_are_renewed() {
    let Some(mut cluster) = Cluster::start(3, &["--auth-token-ttl", "1"]) else { return };
    turn_on_users(&cluster);
    let as_user = |cluster: &Cluster, user: &str, password: &str| {
        open(&EtcdOptions { user: user.to_owned(), password: password.to_owned(), ..cluster.options() })
    };
    let denied = |result: Result<topology::Reading, Error>| match result {
        Err(Error::Denied(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(denied(cluster.store().read()).contains("set cluster-etcd-user"));
    assert!(denied(as_user(&cluster, "darter", "wrong").read()).contains("invalid user ID or password"));
    let mut guest = as_user(&cluster, "guest", "secret");
    let nothing = within_patience(|| guest.read());
    let swap = guest.compare_and_swap(&nothing, &document(), &why("create"));
    match &swap {
        Swap::NotDone(Error::Denied(why)) => {
            assert!(why.contains("READWRITE on all keys that begin with /darter/shop/"))
        }
        other => panic!("{other:?}"),
    }
    let mut store = as_user(&cluster, "darter", "secret");
    create(&mut store);
    let mut watch = store.watch().unwrap();
    assert!(matches!(watch.next(PATIENCE), Ok(Sight::Changed(_))));
    // Nothing happens for longer than a token lives.
    assert_eq!(watch.next(Duration::from_secs(3)).unwrap(), Sight::Silent);
    let made = change_surely(&mut store, next_term);
    assert!(matches!(watch.next(PATIENCE), Ok(Sight::Changed(reading)) if reading.revision == made));
    // Members forget the tokens that they gave when they start again.
    for at in 0..3 {
        cluster.kill(at);
        cluster.start_one(at);
    }
    let made = change_surely(&mut store, next_term);
    let begin = Instant::now();
    while !matches!(watch.next(PATIENCE), Ok(Sight::Changed(reading)) if reading.revision >= made) {
        assert!(begin.elapsed() < PATIENCE, "the watch does not tell");
    }
}

/// Files of an authority and of certificates for `name` as server and client. Returns their folder's paths.
fn certificates(cluster: &Cluster, name: &str, last_year: i32) -> [String; 3] {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = authority.self_signed(&key).unwrap();
    let issuer = Issuer::new(authority, key);
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(last_year, 1, 1);
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let pair = params.signed_by(&key, &issuer).unwrap();
    let file = |suffix: &str, text: &str| cluster.scratch.file(&format!("{name}.{suffix}"), text);
    [file("ca", &certificate.pem()), file("cert", &pair.pem()), file("key", &key.serialize_pem())]
}

/// Reads until the error is `text`.
#[track_caller]
fn expect_error(options: &EtcdOptions, text: &str) {
    let begin = Instant::now();
    loop {
        let error = open(options).read().unwrap_err().to_string();
        if error.contains(text) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{error}");
    }
}

#[test]
fn tls_checks_both_sides_the_name_and_the_date() {
    for (name, year, error) in [
        ("127.0.0.1", 4000, None),
        ("etcd.example.com", 4000, Some("not valid for name")),
        ("127.0.0.1", 2001, Some("certificate expired")),
    ] {
        let Some(cluster) = Cluster::prepare(1, &[]) else { return };
        let [ca, cert, key] = certificates(&cluster, name, year);
        let arguments =
            ["--cert-file", &cert, "--key-file", &key, "--trusted-ca-file", &ca, "--client-cert-auth"];
        let mut cluster = cluster.secured(&arguments.map(str::to_owned));
        cluster.start_all();
        let options = EtcdOptions { ca_file: ca, cert_file: cert, key_file: key, ..cluster.options() };
        if let Some(error) = error {
            expect_error(&options, error);
            continue;
        }
        let mut store = open(&options);
        create(&mut store);
        let mut watch = store.watch().unwrap();
        assert!(matches!(watch.next(PATIENCE), Ok(Sight::Changed(_))));
        let stranger = EtcdOptions { cert_file: String::new(), key_file: String::new(), ..options };
        assert!(open(&stranger).read().is_err(), "etcd asks for our certificate");
        let absent = EtcdOptions { ca_file: "/nowhere".to_owned(), ..stranger };
        let refused = EtcdStore::new(&absent, History::default(), &mut Entropy::from_seed(1));
        let why = refused.err().expect("a file that does not exist").to_string();
        assert!(why.contains("cluster-etcd-ca-file: cannot read /nowhere"), "{why}");
    }
}

#[test]
fn a_restored_etcd_is_refused() {
    let (Some(mut cluster), Some(etcdctl)) = (Cluster::prepare(1, &[]), program("etcdctl")) else { return };
    cluster.start_all();
    let mut store = cluster.store();
    create(&mut store);
    let run = |cluster: &Cluster, arguments: &[&str]| {
        let mut command = Command::new(&etcdctl);
        command.env("ETCDCTL_API", "3").arg("--endpoints").arg(cluster.url(0)).args(arguments);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{arguments:?}");
    };
    let backup = cluster.scratch.path("backup");
    run(&cluster, &["snapshot", "save", &backup]);
    for _ in 0..10 {
        change_surely(&mut store, next_term);
    }
    let mut watch = store.watch().unwrap();
    assert!(matches!(watch.next(PATIENCE), Ok(Sight::Changed(_))));
    cluster.kill(0);
    cluster.set_folder(0, "restored");
    let (folder, initial, peer) =
        (cluster.folder(0).display().to_string(), cluster.initial(), cluster.peer_url(0));
    let names = ["--name", "m0", "--data-dir", &folder, "--initial-cluster", &initial];
    let peers = ["--initial-advertise-peer-urls", &peer];
    run(&cluster, &[&["snapshot", "restore", &backup], names.as_slice(), peers.as_slice()].concat());
    cluster.start_one(0);
    let begin = Instant::now();
    let error = loop {
        match store.read() {
            Err(error @ Error::WentBack { .. }) => break error,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
            Ok(reading) => panic!("it is trusted: {reading:?}"),
        }
    };
    assert!(error.to_string().contains("darter --cluster repair"), "{error}");
    let seen = watch.next(PATIENCE);
    assert!(matches!(seen, Err(Error::WentBack { .. })), "{seen:?}");
    store.accept_as_it_is();
    change_surely(&mut store, next_term);
}
