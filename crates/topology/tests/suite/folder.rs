//! The store in a folder.

use std::fs;
use std::process::{Command, Stdio};

use scratch::Scratch;
use topology::folder::FolderStore;
use topology::{Error, Finding, History, Life, Store};

use crate::contract::{Subject, check, check_together};
use crate::{change_surely, document, done, found, next_term, why};

fn open(scratch: &Scratch) -> FolderStore {
    FolderStore::open(scratch.folder(), &"shop".parse().unwrap(), History::default()).unwrap()
}

#[test]
fn keeps_the_contract() {
    let scratch = Scratch::new("topology");
    let (mut one, mut other, mut editor) = (open(&scratch), open(&scratch), open(&scratch));
    let mut write_unchecked = |text: &str| assert!(editor.write_unchecked(text).is_ok());
    check(&mut Subject { one: &mut one, other: &mut other, write_unchecked: &mut write_unchecked });
}

#[test]
fn users_at_the_same_time_change_one_after_the_other() {
    let scratch = Scratch::new("topology");
    let mut store = open(&scratch);
    let nothing = store.read().unwrap();
    done(store.compare_and_swap(&nothing, &document(), &why("create")));
    check_together((0..4).map(|_| Box::new(open(&scratch)) as Box<dyn Store>).collect());
}

#[test]
fn what_goes_back_or_is_broken_is_told() {
    let scratch = Scratch::new("topology");
    let mut store = open(&scratch);
    let nothing = store.read().unwrap();
    done(store.compare_and_swap(&nothing, &document(), &why("create")));
    let path = scratch.folder().join("shop/topology.json");
    let backup = fs::read(&path).unwrap();
    change_surely(&mut store, next_term);
    fs::write(&path, &backup).unwrap();
    assert!(matches!(store.read(), Err(Error::WentBack { .. })));
    let reading = open(&scratch).read().unwrap();
    let swap = store.compare_and_swap(&reading, &next_term(found(&reading)), &why("on an old store"));
    assert!(matches!(swap, topology::Swap::NotDone(Error::WentBack { .. })), "{swap:?}");
    // Nor after a restart, since the node keeps what it knew.
    let history = store.history();
    let mut again = FolderStore::open(scratch.folder(), &"shop".parse().unwrap(), history).unwrap();
    assert!(matches!(again.read(), Err(Error::WentBack { .. })));
    again.accept_as_it_is();
    assert_eq!(again.read().unwrap(), reading);

    fs::write(&path, &backup[..backup.len() / 2]).unwrap();
    assert!(matches!(open(&scratch).read(), Err(Error::File { .. })));
}

#[test]
fn a_node_is_announced_for_as_long_as_its_process_lives() {
    let scratch = Scratch::new("topology");
    let (mut one, mut other) = (open(&scratch), open(&scratch));
    let ours = crate::contract::announcement("a", 0xaa);
    one.announce(&ours).unwrap();
    assert_eq!(other.live_nodes().unwrap(), std::slice::from_ref(&ours));
    drop(one);
    assert!(other.live_nodes().unwrap().is_empty());
    other.announce(&ours).unwrap();
    assert_eq!(other.live_nodes().unwrap(), [ours]);
}

/// The program that [`survives_kill_at_any_point`] kills: this test again, with the folder in the environment.
const VICTIM: &str = "TOPOLOGY_VICTIM_FOLDER";

#[test]
fn survives_kill_at_any_point() {
    if let Ok(folder) = std::env::var(VICTIM) {
        let mut store =
            FolderStore::open(folder.as_ref(), &"shop".parse().unwrap(), History::default()).unwrap();
        for life in 0.. {
            change_surely(&mut store, next_term);
            store.prove_dead(Life(life), &why("next")).unwrap();
        }
    }
    let scratch = Scratch::new("topology");
    let mut store = open(&scratch);
    let nothing = store.read().unwrap();
    done(store.compare_and_swap(&nothing, &document(), &why("create")));
    let mut entropy = proactor::Entropy::from_seed(1);
    for _ in 0..10 {
        let before = store.read().unwrap();
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "folder::survives_kill_at_any_point", "--nocapture"])
            .env(VICTIM, scratch.folder())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It is killed when it has made some changes, wherever it is by then.
        let enough = before.as_of.0 + 1 + entropy.below(20);
        while store.read().unwrap().as_of.0 < enough {
            assert!(victim.try_wait().unwrap().is_none(), "it ended by itself");
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        let after = store.read().unwrap();
        assert!(matches!(after.found, Finding::Document(_)), "{after:?}");
        // Its lock is free, and what it left does no harm.
        assert!(change_surely(&mut store, next_term) > after.revision);
    }
}
