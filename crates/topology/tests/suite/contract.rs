//! The promises of every store.

use std::time::Duration;

use topology::{Announcement, Finding, Life, Reading, Revision, Sight, Store, Swap, Watch};

use crate::{PATIENCE, change_surely, document, done, found, next_term, why};

/// Two users of one empty store, and a way to write any text in the place of the document.
pub(crate) struct Subject<'s> {
    pub(crate) one: &'s mut dyn Store,
    pub(crate) other: &'s mut dyn Store,
    pub(crate) write_unchecked: &'s mut dyn FnMut(&str),
}

/// Checks all of it.
pub(crate) fn check(subject: &mut Subject<'_>) {
    creation_is_a_change(subject);
    of_two_changes_one_is_made(subject);
    proofs_are_read_with_the_document(subject);
    a_watch_tells_of_changes_and_deaths(subject);
    the_log_says_why(subject);
    nodes_are_announced(subject);
    a_broken_document_is_told_and_replaced(subject);
    as_random_users_see_it(subject);
    revisions_do_not_fall(subject);
}

/// Checks that users who change the document at the same time make one change after the other: each takes over ten times, and
/// no takeover is lost. The document exists.
pub(crate) fn check_together(stores: Vec<Box<dyn Store>>) {
    const TAKEOVERS: u64 = 10;
    let term = |reading: &Reading| found(reading).groups.values().next().unwrap().term.0;
    let users = stores.len() as u64;
    let mut last = None;
    std::thread::scope(|scope| {
        let act = |mut store: Box<dyn Store>| {
            for _ in 0..TAKEOVERS {
                change_surely(&mut *store, next_term);
            }
            store
        };
        let before: Vec<_> = stores.into_iter().map(|store| scope.spawn(move || act(store))).collect();
        last = before.into_iter().map(|thread| thread.join().unwrap()).last();
    });
    let mut store = last.expect("there are users");
    assert_eq!(term(&store.read().unwrap()), 1 + users * TAKEOVERS);
    let log = store.log(1_000).unwrap();
    let replaced: std::collections::BTreeSet<Revision> = log.iter().map(|entry| entry.on).collect();
    assert_eq!((replaced.len(), log.len() as u64), (log.len(), 1 + users * TAKEOVERS));
}

fn creation_is_a_change(subject: &mut Subject<'_>) {
    let nothing = subject.one.read().unwrap();
    assert_eq!((&nothing.found, nothing.revision), (&Finding::Nothing, Revision::NONE));
    let made = done(subject.one.compare_and_swap(&nothing, &document(), &why("create")));
    let reading = subject.other.read().unwrap();
    assert_eq!((found(&reading), reading.revision), (&document(), made));
    assert!(reading.as_of >= made && reading.as_of > nothing.as_of);
    match subject.other.compare_and_swap(&nothing, &document(), &why("create again")) {
        Swap::Lost(current) => assert_eq!(current.revision, made),
        other => panic!("{other:?}"),
    }
}

fn of_two_changes_one_is_made(subject: &mut Subject<'_>) {
    let before = subject.one.read().unwrap();
    let next = next_term(found(&before));
    let made = done(subject.one.compare_and_swap(&before, &next, &why("takeover")));
    assert!(made > before.revision);
    match subject.other.compare_and_swap(&before, found(&before), &why("too late")) {
        Swap::Lost(current) => assert_eq!((found(&current), current.revision), (&next, made)),
        other => panic!("{other:?}"),
    }
    // Any change settles what may be under way, one by the same document too.
    let reading = subject.other.read().unwrap();
    let touched = done(subject.other.compare_and_swap(&reading, &next, &why("touch")));
    assert!(touched > made);
    match subject.one.compare_and_swap(&reading, &next, &why("was under way")) {
        Swap::Lost(current) => assert_eq!(current.revision, touched),
        other => panic!("{other:?}"),
    }
}

fn proofs_are_read_with_the_document(subject: &mut Subject<'_>) {
    let before = subject.one.read().unwrap();
    assert!(before.dead.is_empty());
    for _ in 0..2 {
        subject.other.prove_dead(Life(0xaa), &why("its process has ended")).unwrap();
    }
    let after = subject.one.read().unwrap();
    assert_eq!(after.dead, [Life(0xaa)].into());
    assert!(after.as_of > before.as_of);
    assert_eq!(after.revision, before.revision, "the document has not changed");
    // It stays, whatever the document becomes.
    change_surely(subject.one, next_term);
    assert_eq!(subject.other.read().unwrap().dead, [Life(0xaa)].into());
}

/// Waits until a watch tells what `is_it` looks for.
#[track_caller]
fn wait_for(watch: &mut dyn Watch, is_it: impl Fn(&Reading) -> bool) {
    for _ in 0..100 {
        match watch.next(PATIENCE) {
            Ok(Sight::Changed(reading)) if is_it(&reading) => return,
            Ok(Sight::Silent) => panic!("it is silent"),
            Ok(Sight::Changed(_)) | Err(_) => {}
        }
    }
    panic!("it does not tell");
}

fn a_watch_tells_of_changes_and_deaths(subject: &mut Subject<'_>) {
    let mut watch = subject.one.watch().unwrap();
    let present = subject.other.read().unwrap();
    wait_for(&mut *watch, |reading| reading.revision == present.revision);
    assert_eq!(watch.next(Duration::from_millis(1)).unwrap(), Sight::Silent);
    let made = change_surely(subject.other, next_term);
    wait_for(&mut *watch, |reading| reading.revision == made);
    subject.other.prove_dead(Life(0xbb), &why("its node has started again")).unwrap();
    wait_for(&mut *watch, |reading| reading.dead.contains(&Life(0xbb)));
}

fn the_log_says_why(subject: &mut Subject<'_>) {
    let reading = subject.one.read().unwrap();
    let made = done(subject.one.compare_and_swap(&reading, found(&reading), &why("the last change")));
    let log = subject.other.log(10).unwrap();
    assert_eq!((log[0].why.text(), log[0].why.author()), ("the last change", "test"));
    assert_eq!((log[0].on, log[0].made), (reading.revision, made));
    assert!(log.windows(2).all(|pair| pair[0].made > pair[1].made), "the latest first: {log:?}");
    assert_eq!(log.last().unwrap().why.text(), "create");
    assert_eq!(subject.other.log(1).unwrap().len(), 1);
}

pub(crate) fn announcement(node: &str, life: u64) -> Announcement {
    Announcement {
        instance: (node.parse().unwrap(), Life(life)).into(),
        address: "192.0.2.1".to_owned(),
        port: Some(6379),
        tls_port: None,
        cluster_port: None,
        zone: "north".to_owned(),
        version: "1.2.3".to_owned(),
        cores: 4,
        memory_bytes_max: 1 << 30,
        started_ms: 1_700_000_000_000,
    }
}

fn nodes_are_announced(subject: &mut Subject<'_>) {
    let (mut a, b) = (announcement("a", 0xaa), announcement("b", 0xbb));
    subject.one.announce(&a).unwrap();
    subject.other.announce(&b).unwrap();
    a.zone = "south".to_owned();
    for _ in 0..2 {
        subject.one.announce(&a).unwrap();
    }
    assert_eq!(subject.one.live_nodes().unwrap(), [a.clone(), b]);
    // A data folder that was copied: at least one of the two is told.
    let copy = announcement("a", 0xcc);
    let told = [subject.other.announce(&copy), subject.one.announce(&a)];
    assert!(told.iter().any(|told| matches!(told, Err(topology::Error::SameId { .. }))), "{told:?}");
}

fn a_broken_document_is_told_and_replaced(subject: &mut Subject<'_>) {
    (subject.write_unchecked)(r#"{"version":1,"params":{"grnat_ms":1}}"#);
    let broken = subject.one.read().unwrap();
    match &broken.found {
        Finding::Broken(error) => assert!(error.to_string().contains("grnat_ms"), "{error}"),
        other => panic!("{other:?}"),
    }
    let made = done(subject.one.compare_and_swap(&broken, &document(), &why("repaired")));
    assert_eq!(subject.other.read().unwrap().revision, made);
}

/// Two users who act at random, on readings of any age: each change is made on the present document, or not at all.
fn as_random_users_see_it(subject: &mut Subject<'_>) {
    let mut entropy = proactor::Entropy::from_seed(7);
    let mut present = subject.one.read().unwrap();
    let mut old = present.clone();
    for step in 0..60 {
        let user: &mut dyn Store = if entropy.one_in(2) { &mut *subject.one } else { &mut *subject.other };
        let is_current = entropy.one_in(2);
        let on = if is_current { present.clone() } else { old.clone() };
        let next = if entropy.one_in(2) { next_term(found(&on)) } else { found(&on).clone() };
        match user.compare_and_swap(&on, &next, &why("at random")) {
            Swap::Done(made) => {
                assert_eq!(on.revision, present.revision, "step {step}: it was made on another document");
                assert!(made > present.revision);
                old = present;
                present = user.read().unwrap();
                assert_eq!((present.revision, found(&present)), (made, &next), "step {step}");
            }
            Swap::Lost(current) => {
                assert_ne!(on.revision, present.revision, "step {step}: it was not made on the present one");
                assert_eq!(current.revision, present.revision, "step {step}");
            }
            other => panic!("step {step}: {other:?}"),
        }
    }
}

fn revisions_do_not_fall(subject: &mut Subject<'_>) {
    let highest = subject.one.read().unwrap().as_of;
    let history = subject.one.history();
    assert!(history.highest >= highest && history.fallen_to.is_none());
    assert!(subject.other.read().unwrap().as_of >= highest);
}
