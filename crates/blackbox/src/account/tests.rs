//! Tests of the account: it must detect each mistake that a server can make, constructed by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use super::queue::{MOVED, POPPED};
use super::*;

/// A crash at 100. Everything acknowledged by then must be there.
const CRASH: Crash = Crash { at: 100, promised: 100 };

fn span(sent: Moment, acked: Moment) -> Span {
    Span { sent, acked: Some(acked) }
}

fn set(key: &str, value: &str) -> Deed {
    Deed::Set(key.to_owned(), value.into())
}

fn step(deeds: &[Deed]) -> Step {
    Step { deeds: deeds.to_vec(), form: if deeds.len() > 1 { Form::Transaction } else { Form::Alone } }
}

/// A server's data after these commands in database 0.
fn found(deeds: &[Deed]) -> Found {
    let mut model = Model::new();
    deeds.iter().for_each(|deed| deed.apply(&mut model));
    Found { databases: BTreeMap::from([(0, model)]), read_ms: (1000, 1001) }
}

/// Checks the complaint if the clients of an account have done this, and that data was found.
#[track_caller]
fn check(crash: Crash, fill: impl FnOnce(&mut Account), found: &Found, expected: Option<&str>) {
    let mut account = Account::default();
    fill(&mut account);
    let complaints = account.check(found, crash);
    match expected {
        None => assert!(complaints.is_empty(), "{complaints:?}"),
        Some(text) => assert!(complaints.iter().any(|complaint| complaint.contains(text)), "{complaints:?}"),
    }
}

/// Three steps of one client: two acknowledged, one not.
fn three_steps(account: &mut Account) {
    account.owners[0].history = vec![
        (step(&[set("c0:s0", "a")]), span(1, 2)),
        (step(&[set("c0:s0", "b"), set("c0:s1", "b")]), span(3, 4)),
        (step(&[set("c0:s0", "c"), set("c0:s1", "c")]), Span::from(5)),
    ];
}

#[test]
fn a_client_finds_one_of_its_states() {
    let state = |first, second| found(&[set("c0:s0", first), set("c0:s1", second)]);
    check(CRASH, three_steps, &state("b", "b"), None);
    check(CRASH, three_steps, &state("c", "c"), None);
    check(CRASH, three_steps, &found(&[set("c0:s0", "a")]), Some("1 acknowledged steps are lost"));
    check(CRASH, three_steps, &found(&[]), Some("2 acknowledged steps are lost"));
    check(CRASH, three_steps, &state("c", "b"), Some("a state that it never made"));
    check(CRASH, three_steps, &state("b", "x"), Some("a state that it never made"));
    check(
        CRASH,
        three_steps,
        &found(&[set("c0:s0", "b"), set("c0:s1", "b"), set("c0:s2", "b")]),
        Some("never made"),
    );
    check(
        CRASH,
        three_steps,
        &found(&[set("c0:s0", "b"), set("c0:s1", "b"), set("who", "b")]),
        Some("nobody made"),
    );
}

#[test]
fn what_may_be_lost_depends_on_the_moment() {
    // Before the second step was sent, it cannot be there.
    let second = found(&[set("c0:s0", "b"), set("c0:s1", "b")]);
    check(Crash { at: 2, promised: 2 }, three_steps, &second, Some("never made"));
    check(Crash { at: 3, promised: 3 }, three_steps, &second, None);
    let lenient = Crash::new(100, Duration::from_nanos(97));
    check(lenient, three_steps, &found(&[set("c0:s0", "a")]), None);
    check(lenient, three_steps, &found(&[]), Some("1 acknowledged steps are lost"));
}

#[test]
fn keys_go_when_their_time_has_come_and_not_before() {
    let until = |at| Deed::SetUntil("c0:e0".to_owned(), "v".into(), at);
    let fill =
        |at| move |account: &mut Account| account.owners[0].history = vec![(step(&[until(at)]), span(1, 2))];
    check(CRASH, fill(1001), &found(&[]), None);
    check(CRASH, fill(2000), &found(&[]), Some("lost"));
    check(CRASH, fill(2000), &found(&[until(2000)]), None);
    check(CRASH, fill(2000), &found(&[until(2001)]), Some("never made"));
    check(CRASH, fill(900), &found(&[until(900)]), Some("never made"));
}

#[test]
fn what_has_been_seen_to_expire_begins_with_nothing() {
    let raise = |by| Deed::Increment("c0:e1".to_owned(), by);
    let until = |at| Deed::Expire("c0:e1".to_owned(), at);
    let fill = |account: &mut Account| {
        let deeds = [raise(3), until(900), Deed::SeeExpired("c0:e1".to_owned()), raise(4)];
        let steps = deeds.into_iter().zip(0..);
        account.owners[0].history =
            steps.map(|(deed, at)| (step(&[deed]), span(10 * at + 1, 10 * at + 2))).collect();
    };
    check(CRASH, fill, &found(&[raise(4)]), None);
    check(CRASH, fill, &found(&[raise(7)]), Some("never made"));
    check(CRASH, fill, &found(&[]), Some("lost"));
    check(Crash { at: 25, promised: 25 }, fill, &found(&[]), None);
}

#[test]
fn what_survives_is_a_prefix_over_all_clients() {
    let lenient = Crash { at: 100, promised: 0 };
    let fill = |account: &mut Account| {
        account.owners[0].history = vec![(step(&[set("c0:s0", "a")]), span(1, 10))];
        account.owners[1].history = vec![(step(&[set("c1:s0", "a")]), span(11, 12))];
    };
    check(lenient, fill, &found(&[set("c0:s0", "a")]), None);
    check(lenient, fill, &found(&[set("c1:s0", "a")]), Some("not a prefix"));
    let at_once = |account: &mut Account| {
        fill(account);
        account.owners[1].history[0].1.sent = 9;
    };
    check(lenient, at_once, &found(&[set("c1:s0", "a")]), None);
}

fn push(element: &str) -> Doing {
    Doing::Push(vec![element.into()])
}

fn list(key: &str, items: &[&str]) -> Found {
    let deeds: Vec<Deed> = items.iter().map(|item| Deed::PushTail(key.to_owned(), (*item).into())).collect();
    found(&deeds)
}

#[test]
fn popped_elements_add_up() {
    let fill = |pop: Span, got: bool| {
        move |account: &mut Account| {
            let workers = &mut account.queues[0].workers;
            workers[0].history = vec![(push("p0-1"), span(1, 2)), (push("p0-2"), span(3, 4))];
            workers[2].history = vec![(Doing::Take(got.then(|| b"p0-1".to_vec())), pop)];
        }
    };
    let popped = || fill(span(1, 5), true);
    check(CRASH, popped(), &list(POPPED, &["p0-2"]), None);
    check(CRASH, popped(), &list(POPPED, &["p0-2", "p0-1"]), Some("it is there again"));
    check(CRASH, popped(), &list(POPPED, &[]), Some("p0-2 is lost"));
    check(CRASH, popped(), &list(POPPED, &["p0-2", "p0-2"]), Some("twice"));
    check(CRASH, popped(), &list(POPPED, &["p0-3", "p0-2"]), Some("not pushed by anybody"));
    // A pop in progress may have taken one element, but only one.
    let open = || fill(Span::from(1), false);
    check(CRASH, open(), &list(POPPED, &["p0-2", "p0-1"]), None);
    check(CRASH, open(), &list(POPPED, &["p0-2"]), None);
    check(CRASH, open(), &list(POPPED, &[]), Some("is lost"));
    check(CRASH, open(), &list(POPPED, &["p0-1", "p0-2"]), Some("lies behind"));
}

#[test]
fn a_push_of_several_is_whole() {
    let fill = |account: &mut Account| {
        let elements = ["p0-1", "p0-2"].map(|element| element.into()).to_vec();
        account.queues[0].workers[0].history = vec![(Doing::Push(elements), Span::from(1))];
    };
    check(CRASH, fill, &list(POPPED, &[]), None);
    check(CRASH, fill, &list(POPPED, &["p0-2", "p0-1"]), None);
    check(CRASH, fill, &list(POPPED, &["p0-1"]), Some("of a push of"));
}

#[test]
fn reliable_fetch_loses_nothing() {
    let own = "q:m1:l";
    let fill = |finish: Option<Span>| {
        move |account: &mut Account| {
            let workers = &mut account.queues[1].workers;
            workers[0].history = vec![(push("m0-1"), span(1, 2))];
            workers[1].history = vec![(Doing::Take(None), Span::from(1))];
            workers[1].history.extend(finish.map(|span| (Doing::Finish(b"m0-1".to_vec()), span)));
        }
    };
    check(CRASH, fill(None), &list(MOVED, &["m0-1"]), None);
    check(CRASH, fill(None), &list(own, &["m0-1"]), None);
    check(CRASH, fill(None), &list(own, &[]), Some("is lost"));
    check(CRASH, fill(Some(Span::from(3))), &list(own, &["m0-1"]), None);
    check(CRASH, fill(Some(Span::from(3))), &list(own, &[]), None);
    check(CRASH, fill(Some(span(3, 4))), &list(own, &["m0-1"]), Some("it is there again"));
    let both = [list(own, &["m0-1"]), list(MOVED, &["m0-1"])].map(|found| found.databases[&0].clone());
    let twice =
        Found { databases: BTreeMap::from([(0, both.into_iter().flatten().collect())]), read_ms: (0, 0) };
    check(CRASH, fill(None), &twice, Some("twice"));
}

#[test]
fn counters_are_not_taken_back() {
    let number = |number: &str| found(&[set(COUNTER, number)]);
    let fill = |account: &mut Account| {
        account.counter.raisers[0].history = vec![(span(1, 2), 1), (span(3, 4), 2), (Span::from(5), 0)];
    };
    check(CRASH, fill, &number("2"), None);
    check(CRASH, fill, &number("3"), None);
    check(CRASH, fill, &number("1"), Some("at least 2"));
    check(CRASH, fill, &number("4"), Some("at most 3"));
    // A listener has seen what was not yet acknowledged.
    let seen = |account: &mut Account| {
        fill(account);
        account.listeners[0].history = vec![(6, 0, COUNTER.to_owned(), 3)];
    };
    check(CRASH, seen, &number("3"), None);
    check(CRASH, seen, &number("2"), Some("was seen as 3"));
}
