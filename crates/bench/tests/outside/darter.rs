//! Every mode against Darter: it runs to its end, and every job is accounted for.

use blackbox::{Scratch, Server};

use crate::tool::{Said, bench, bench_at};

#[track_caller]
fn good(server: &Server, line: &str) -> Said {
    let said = bench(server.port(), line);
    assert!(said.is_success, "{line}: {said:?}");
    assert_eq!((said.number("/errors"), &said.report["is_good"]), (0, &true.into()), "{line}");
    said
}

#[test]
fn all_modes() {
    let server = Server::start(2, "auto", &[]);
    assert_eq!(good(&server, "raw -n 1000 -P 10 -t 2 SET k:__rand_int__ v").number("/operations"), 1000);
    let jobs = "--queues 3 --processes 4 --threads 3 --elements 50 --iterations 4 --fetch-timeout 0.05";
    for more in [
        "--sidekiq 6",
        "--sidekiq 7 --generator-threads 2",
        "--sidekiq 8 --assignment weighted --payload-bytes 5000",
        "--work-us 100",
    ] {
        let said = good(&server, &format!("jobs {jobs} {more}"));
        assert_eq!((said.number("/operations"), said.number("/account/fetched")), (600, 600), "{more}");
    }
    // On a busy machine there may be a complaint about the rate.
    let steady = bench(server.port(), &format!("jobs {jobs} --mode steady --rate 500 --seconds 1"));
    assert_eq!((steady.number("/account/pushed"), steady.number("/account/fetched")), (500, 500));
    assert_eq!((steady.number("/account/lost"), steady.number("/account/duplicates")), (0, 0));
    assert_eq!(good(&server, &format!("jobs {jobs} --mode push")).number("/account/left"), 600);
    let said = good(
        &server,
        "kv -t 2 -c 3 -n 100 --ratio 1:1 --key-pattern P:Z --key-maximum 9 --expiry-range 100-200",
    );
    assert_eq!(said.number("/operations"), 600);
    assert_eq!(good(&server, "script -c 5 -n 20").number("/operations"), 100);
    assert_eq!(good(&server, "script -c 5 -n 20 --shape poller").number("/operations"), 100);
    good(&server, "mastodon -c 5 -n 100 --accounts 50");
}

#[test]
fn a_unix_socket_a_password_and_a_database() {
    let scratch = Scratch::new("bench");
    let path = scratch.path("darter.sock");
    let server = Server::start(1, "auto", &["--unixsocket", &path, "--requirepass", "pw"]);
    for url in [format!("unix://:pw@{path}?db=3"), format!("redis://:pw@127.0.0.1:{}/3", server.port())] {
        let said = bench_at(&url, "raw -n 100 LPUSH list x");
        assert!(said.is_success, "{said:?}");
        assert!(!said.report.to_string().contains("pw"), "the report tells the password: {said:?}");
    }
    let mut client = server.client();
    client.call("AUTH pw");
    client.call("SELECT 3");
    assert_eq!(client.show("LLEN list"), "(integer) 200");
    let said = bench(server.port(), "raw -n 100 --errors-max 10 LPUSH list x");
    said.fails_with("NOAUTH");
}

#[test]
fn memory_of_keys_and_jobs() {
    // If compressed, the jobs would take less memory than their contents.
    let server = Server::start(2, "auto", &["--list-compress-bytes-min", "0"]);
    for with in ["keys", "jobs"] {
        let said = good(&server, &format!("memory --with {with} --count 20000 -d 500 --around 0"));
        assert_eq!(said.number("/operations"), 20_000);
        let used = said.figure("used memory each, bytes");
        assert!((500.0..1000.0).contains(&used), "{with}: {used} bytes");
    }
    assert_eq!(server.client().show("DBSIZE"), "(integer) 0", "it takes away what it brought");
}

#[test]
fn a_snapshot_is_timed_while_clients_write() {
    let Some(server) = blackbox::oracle() else { return };
    let said = good(&server, "snapshot --count 20000 --around 0.2 --rate 2000 --reload");
    assert!(said.figure("save, seconds") > 0.0 && said.figure("load, seconds") > 0.0);
    assert_eq!(said.report["kinds"].as_array().map(Vec::len), Some(3), "before, while saving, after");
}
