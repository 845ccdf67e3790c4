//! With any misbehaving server, the run ends, says why, and reports its measurements.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fake::{Answer, server};
use crate::tool::{bench, bench_at};

const DRAIN: &str = "jobs --queues 1 --processes 1 --threads 2 --elements 10 --iterations 10 --fetch-timeout 0.01 --sidekiq 6";

/// True for the request with this name and this number, counted from 0.
fn nth(name: &'static str, number: u64) -> impl Fn(&[String]) -> bool {
    let count = AtomicU64::new(0);
    move |words| words[0].eq_ignore_ascii_case(name) && count.fetch_add(1, Ordering::Relaxed) == number
}

fn when(
    is_it: impl Fn(&[String]) -> bool + Send + Sync,
    answer: fn() -> Answer,
) -> impl Fn(&[String]) -> Answer + Send + Sync {
    move |words| if is_it(words) { answer() } else { Answer::Serve }
}

#[test]
fn a_server_that_behaves_is_fine() {
    let said = bench(server(|_| Answer::Serve), DRAIN);
    assert!(said.is_success, "{said:?}");
    assert_eq!((said.number("/operations"), said.number("/account/pushed")), (100, 100));
    assert_eq!((said.number("/account/fetched"), said.number("/account/lost")), (100, 0));
}

#[test]
fn nobody_is_there() {
    let port = blackbox::free_port().expect("a free port");
    for mode in ["raw GET k", "jobs", "kv", "script", "mastodon"] {
        let said = bench(port, mode);
        assert!(!said.is_success && said.errors.contains("Connection refused"), "{mode}: {said:?}");
        assert!(said.report.is_null(), "nothing was measured");
    }
}

#[test]
fn the_password_is_refused() {
    let port = server(|words| match words[0].as_str() {
        "AUTH" => Answer::Say("-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
        _ => Answer::Serve,
    });
    let said = bench_at(&format!("redis://me:secret@127.0.0.1:{port}"), "raw GET k");
    assert!(!said.is_success && said.errors.contains("AUTH is refused: WRONGPASS"), "{said:?}");
    assert!(!said.errors.contains("secret"), "{said:?}");
}

#[test]
fn every_reply_is_an_error() {
    let port = server(|words| match words[0].as_str() {
        "GET" => Answer::Say("-NOAUTH Authentication required.\r\n"),
        _ => Answer::Serve,
    });
    let said = bench(port, "raw -c 2 --errors-max 5 GET k");
    said.fails_with("6 error replies (--errors-max 5): NOAUTH Authentication required.");
    assert_eq!(said.number("/operations"), 0);
    assert!(said.number("/errors") >= 6, "{said:?}");
}

#[test]
fn a_few_errors_are_counted_by_their_text() {
    let port = server(when(nth("get", 7), || Answer::Say("-LOADING not yet\r\n")));
    let said = bench(port, "raw -c 2 -n 50 GET k");
    said.fails_with("1 replies were errors");
    assert_eq!((said.number("/operations"), said.number("/errors")), (49, 1));
    assert_eq!(said.report["errors_by_text"][0][0], "LOADING not yet");
}

#[test]
fn a_connection_is_closed_half_way() {
    let port = server(when(nth("get", 30), || Answer::HangUp));
    let said = bench(port, "raw -c 1 -P 10 -n 1000 GET k");
    said.fails_with("the server closed a connection");
    assert_eq!(said.number("/operations"), 30);
}

#[test]
fn it_does_not_speak_the_protocol() {
    let port = server(|words| match words[0].as_str() {
        "GET" => Answer::Say("HTTP/1.1 400 Bad Request\r\n\r\n"),
        _ => Answer::Serve,
    });
    bench(port, "raw -c 1 -n 10 GET k").fails_with("not a reply of the protocol");
    let port = server(when(nth("get", 30), || Answer::Say("HTTP/1.1 400 Bad Request\r\n\r\n")));
    let said = bench(port, "raw -c 1 -P 100 -n 1000 GET k");
    assert_eq!(said.fails_with("not a reply of the protocol").number("/operations"), 30);
    let port = server(|_| Answer::Say("HTTP/1.1 400 Bad Request\r\n\r\n"));
    let said = bench(port, "raw GET k");
    assert!(!said.is_success && said.errors.contains("not a Redis reply"), "{said:?}");
}

#[test]
fn it_falls_silent() {
    let port = server(when(nth("get", 30), || Answer::Ignore));
    let said = bench(port, "raw -c 1 -n 1000 --silence-ms 2000 GET k");
    said.fails_with("the server has not answered for 2s; 1 replies are missing");
    assert_eq!(said.number("/operations"), 30);
}

#[test]
fn an_interrupt_ends_the_run_with_a_report() {
    let (sender, replies) = std::sync::mpsc::channel();
    let port = server(move |words| {
        if words[0] == "GET" {
            // The test may have finished already.
            let _ = sender.send(());
        }
        Answer::Serve
    });
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_darter-bench"))
        .args(["raw", "-p", &port.to_string(), "-c", "1", "-n", "1000000000", "--json", "-", "GET", "k"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program runs");
    replies.recv().expect("a request comes");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, blackbox::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!((output.status.code(), &report["complaints"][0]), (Some(1), &"interrupted".into()));
}

#[test]
fn it_runs_out_of_memory() {
    let port = server(|words| match words[0].as_str() {
        "lpush" if words[2].contains("[42,") => {
            Answer::Say("-OOM command not allowed when used memory > 'maxmemory'.\r\n")
        }
        _ => Answer::Serve,
    });
    let said = bench(port, "jobs --mode push --queues 1 --elements 10 --iterations 10 --producers 3");
    said.fails_with("1 replies were errors");
    assert!(
        said.report["errors_by_text"][0][0].as_str().is_some_and(|text| text.starts_with("OOM ")),
        "{said:?}"
    );
    // Jobs that were not acknowledged are not lost.
    assert_eq!((said.number("/account/pushed"), said.number("/account/left")), (99, 99));
    assert_eq!(said.number("/account/lost"), 0);
}

#[test]
fn a_fill_that_fails_is_not_drained() {
    let port = server(when(nth("lpush", 3), || Answer::Say("-OOM no\r\n")));
    let said = bench(port, DRAIN);
    said.fails_with("1 replies were errors");
    assert_eq!((said.number("/account/fetched"), said.number("/account/left")), (0, 90));
}

#[test]
fn it_loses_a_job() {
    let port = server(when(nth("lpush", 3), || Answer::Say(":1\r\n")));
    let said = bench(port, DRAIN);
    said.fails_with("10 JOBS LOST");
    assert_eq!((said.number("/account/pushed"), said.number("/account/fetched")), (100, 90));
}

#[test]
fn it_hands_a_job_out_twice() {
    const AGAIN: &str = "*2\r\n$8\r\nqueue:q0\r\n$12\r\n\"args\":[4,0]\r\n";
    let port = server(when(nth("brpop", 50), || Answer::Say(AGAIN)));
    let said = bench(port, DRAIN);
    said.fails_with("1 JOBS DUPLICATED");
    assert_eq!((said.number("/account/fetched"), said.number("/account/lost")), (100, 0));
}

#[test]
fn it_does_not_save() {
    let port = server(|words| match words[0].as_str() {
        "BGSAVE" => Answer::Say("-ERR Background save already in progress\r\n"),
        _ => Answer::Serve,
    });
    bench(port, "snapshot --count 100 --around 0.1 --rate 1000")
        .fails_with("it does not save: BGSAVE is refused: ERR Background save already in progress");
}

#[test]
fn foreign_jobs_are_left_alone() {
    let port = server(|_| Answer::Serve);
    let first = bench(port, "jobs --mode push --queues 1 --elements 5 --iterations 1");
    assert!(first.is_success, "{first:?}");
    let said = bench(port, DRAIN);
    assert!(!said.is_success && said.errors.contains("queue:q0 holds 5 jobs already; --clear"), "{said:?}");
}

#[test]
fn wrong_options_name_the_right_ones() {
    for (line, right) in [
        ("jobs --mode fill", "possible values: drain, push, steady"),
        ("jobs --sidekiq 5", "possible values: 6, 7, 8"),
        ("kv --key-pattern Q:R", "each one of R, G, Z, S, P"),
        ("kv --ratio 5", "SETS:GETS"),
        ("kv --data-size-range 9", "MIN-MAX"),
        ("jobs --fetch-timeout 60", "at most 5 seconds"),
        ("jobs --queues 3 --processes 2", "as many processes as queues"),
        ("jobs --proceses 5", "--processes"),
        ("drain", "unrecognized subcommand"),
    ] {
        let said = bench(1, line);
        assert!(!said.is_success && said.errors.contains(right), "{line}: {said:?}");
    }
}
