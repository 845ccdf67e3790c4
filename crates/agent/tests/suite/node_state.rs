//! `cluster.json`: what it keeps, and which copies and hostile contents are refused.

use std::fs;
use std::path::{Path, PathBuf};

use agent::{Adoption, Error, NodeState, ReplicationId, TERMS_MAX};
use proactor::{Disk, DiskFaults, Entropy, SimDisk};
use scratch::Scratch;
use topology::folder::FolderStore;
use topology::{History, Life, NodeId, Revision, Store, Term};

const ID: ReplicationId = [b'a'; 40];
const OTHER_ID: ReplicationId = [b'b'; 40];
const FORMER: Life = Life(0x7777_7777_7777_7777);
const PRESENT: Life = Life(0x8888_8888_8888_8888);

fn open(disk: &Disk, folder: &Path) -> Result<NodeState, Error> {
    NodeState::open(disk, folder, None, &mut Entropy::from_seed(7))
}

#[track_caller]
fn refused(folder: &Path, expected: &str) {
    let error = open(&Disk::real(), folder).expect_err(expected).to_string();
    assert!(error.contains(expected), "{error}");
}

/// A node that took part in terms 3 and 4, with its folder.
fn node(scratch: &Scratch) -> (PathBuf, NodeId) {
    let folder = PathBuf::from(scratch.path("data"));
    fs::create_dir(&folder).unwrap();
    let mut state = open(&Disk::real(), &folder).unwrap();
    state.begin_life(FORMER).unwrap();
    state.note_term(Term(3), &ID).unwrap();
    state.note_term(Term(4), &OTHER_ID).unwrap();
    (folder, state.node().clone())
}

#[test]
fn a_node_remembers_who_it_is_and_where_it_took_part() {
    let scratch = Scratch::new("state");
    let (folder, id) = node(&scratch);
    let mut state = open(&Disk::real(), &folder).unwrap();
    assert_eq!((state.node(), state.predecessor(), state.term()), (&id, Some(FORMER), Term(4)));
    assert_eq!((state.last_term_of(&ID), state.last_term_of(&[b'c'; 40])), (Some(Term(3)), None));
    let history = History { cluster: Some(9), highest: Revision(8), fallen_to: None };
    state.note_history(history).unwrap();
    state.begin_life(PRESENT).unwrap();
    assert_eq!(state.predecessor(), None, "it is this process now");
    for term in 5..30 {
        state.note_term(Term(term), &ID).unwrap();
        state.note_term(Term(term), &ID).unwrap();
    }
    let is_remembered = |state: &NodeState| (state.took_part_as(FORMER), state.took_part_as(PRESENT));
    assert_eq!(is_remembered(&state), (false, true), "the last {TERMS_MAX}");
    drop(state);
    let state = open(&Disk::real(), &folder).unwrap();
    assert_eq!((state.history(), state.term(), state.last_term_of(&ID)), (history, Term(29), Some(Term(29))));
    assert_eq!(state.last_term_of(&OTHER_ID), None, "it is forgotten");
}

#[test]
fn the_same_term_in_another_life_is_remembered() {
    let scratch = Scratch::new("state");
    let (folder, _) = node(&scratch);
    let mut state = open(&Disk::real(), &folder).unwrap();
    state.begin_life(PRESENT).unwrap();
    assert!(!state.took_part_as(PRESENT));
    state.note_term(Term(4), &OTHER_ID).unwrap();
    assert!(state.took_part_as(FORMER) && state.took_part_as(PRESENT));
}

#[test]
fn a_start_proves_that_the_last_process_is_dead() {
    let scratch = Scratch::new("state");
    let (folder, _) = node(&scratch);
    let path = PathBuf::from(scratch.path("store"));
    let mut store = FolderStore::open(&path, &"c".parse().unwrap(), History::default()).unwrap();
    let mut state = open(&Disk::real(), &folder).unwrap();
    state.prove_predecessor(&mut store, 1).unwrap();
    state.begin_life(PRESENT).unwrap();
    state.prove_predecessor(&mut store, 2).unwrap();
    assert_eq!(store.read().unwrap().dead, [FORMER].into());
}

#[test]
fn a_folder_has_one_process() {
    let scratch = Scratch::new("state");
    let (folder, _) = node(&scratch);
    let state = open(&Disk::real(), &folder).unwrap();
    refused(&folder, "is in use by another process");
    drop(state);
    assert!(open(&Disk::real(), &folder).is_ok());
}

#[test]
fn another_id_than_that_of_the_folder_is_refused() {
    let scratch = Scratch::new("state");
    let (folder, id) = node(&scratch);
    let wanted = "other".parse().unwrap();
    let opened = NodeState::open(&Disk::real(), &folder, Some(&wanted), &mut Entropy::from_seed(1));
    let error = opened.unwrap_err().to_string();
    assert!(error.contains(&format!("set cluster-node-id to {id}")), "{error}");
    assert!(NodeState::open(&Disk::real(), &folder, Some(&id), &mut Entropy::from_seed(1)).is_ok());
}

#[test]
fn copies_are_refused_until_a_person_adopts_them() {
    let scratch = Scratch::new("state");
    let (folder, id) = node(&scratch);
    let (disk, entropy) = (Disk::real(), &mut Entropy::from_seed(1));
    let copy = PathBuf::from(scratch.path("copy"));
    fs::create_dir(&copy).unwrap();
    fs::copy(folder.join("cluster.json"), copy.join("cluster.json")).unwrap();
    refused(&copy, "was copied, restored or edited");
    let error = NodeState::adopt(&disk, &copy, Adoption::NewNode, Some(&id), entropy).unwrap_err();
    assert!(error.to_string().contains("set another one"), "{error}");
    let new = NodeState::adopt(&disk, &copy, Adoption::NewNode, None, entropy).unwrap();
    let state = open(&disk, &copy).unwrap();
    assert!(state.node() == &new && new != id);
    assert_eq!(
        (state.predecessor(), state.term()),
        (None, Term(4)),
        "it proves no life of the original dead"
    );
    assert_eq!(open(&disk, &folder).unwrap().predecessor(), Some(FORMER), "the original starts");

    let moved = PathBuf::from(scratch.path("moved"));
    fs::create_dir(&moved).unwrap();
    fs::copy(folder.join("cluster.json"), moved.join("cluster.json")).unwrap();
    assert_eq!(NodeState::adopt(&disk, &moved, Adoption::Moved, None, entropy).unwrap(), id);
    assert_eq!(open(&disk, &moved).unwrap().predecessor(), Some(FORMER));
    let nothing = NodeState::adopt(&disk, scratch.folder(), Adoption::Moved, None, entropy).unwrap_err();
    assert!(nothing.to_string().contains("nothing has to be adopted"), "{nothing}");
}

#[test]
fn a_folder_of_hard_links_and_a_restored_file_are_copies_and_a_renamed_folder_is_not() {
    let scratch = Scratch::new("state");
    let (folder, _) = node(&scratch);
    let links = PathBuf::from(scratch.path("links"));
    fs::create_dir(&links).unwrap();
    fs::hard_link(folder.join("cluster.json"), links.join("cluster.json")).unwrap();
    refused(&links, "was copied, restored or edited");
    let renamed = PathBuf::from(scratch.path("renamed"));
    fs::rename(&folder, &renamed).unwrap();
    assert!(open(&Disk::real(), &renamed).is_ok());
    // Backup programs write a file beside the old one and rename it.
    fs::copy(renamed.join("cluster.json"), renamed.join("restored")).unwrap();
    fs::rename(renamed.join("restored"), renamed.join("cluster.json")).unwrap();
    refused(&renamed, "was copied, restored or edited");
}

#[test]
fn contents_that_make_no_sense_are_refused_with_a_sentence() {
    let scratch = Scratch::new("state");
    let (folder, _) = node(&scratch);
    let path = folder.join("cluster.json");
    let text = fs::read_to_string(&path).unwrap();
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        text.replace(from, to)
    };
    let (id, other) = ("a".repeat(40), "b".repeat(40));
    let entry = format!(r#"[4,"{other}","7777777777777777"]"#);
    let many = vec![entry.as_str(); TERMS_MAX + 1].join(",");
    for (hostile, expected) in [
        (String::new(), "is damaged"),
        ("\0\u{1}[".to_owned(), "is damaged"),
        ("[".repeat(60_000), "is damaged"),
        (" ".repeat(70_000), "it has more than 65536 bytes"),
        (r#"{"version":2,"more":1}"#.to_owned(), "is of version 2, and this release knows version 1 only"),
        (with(r#""version":1"#, r#""version":1,"extra":1"#), "unknown field"),
        (with(r#""node":"n-"#, r#""node":"../"#), "a name has 1 to 64"),
        (with("7777777777777777", "7"), "a life has 16"),
        (with(r#"[[3,"#, r#"[[9,"#), "its terms do not ascend"),
        (with(r#"[[3,"#, r#"[[0,"#), "its terms do not ascend"),
        (with(&id, "short"), "the replication id of term 3 is none"),
        (with(&id, &"\u{e9}".repeat(20)), "the replication id of term 3 is none"),
        (with(&entry, &many), "more than 16 terms"),
        (with(r#""life":"7"#, r#""life":7,"life":"7"#), "is damaged"),
        (text[..text.len() / 2].to_owned(), "is damaged"),
    ] {
        fs::write(&path, hostile).unwrap();
        refused(&folder, expected);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused(&folder, "cannot read");
}

#[test]
fn what_was_noted_outlives_a_power_failure_and_an_error_changes_nothing() {
    for seed in 1..200 {
        let sim = SimDisk::new(seed);
        let folder = Path::new("/data");
        let mut state = open(&sim.disk(), folder).unwrap();
        state.begin_life(Life(1)).unwrap();
        let mut entropy = Entropy::from_seed(seed);
        let mut noted = Term(0);
        sim.set_faults(DiskFaults { write_error_one_in: 9, sync_error_one_in: 9, ..DiskFaults::default() });
        let mut last_try = Term(0);
        for term in 1..=1 + entropy.below(20) {
            last_try = Term(term);
            if state.note_term(Term(term), &ID).is_ok() {
                noted = Term(term);
            }
            assert_eq!(state.term(), noted);
        }
        sim.set_faults(DiskFaults::default());
        sim.crash();
        drop(state);
        let state = open(&sim.disk(), folder).unwrap();
        assert!((noted..=last_try).contains(&state.term()), "seed {seed}: {noted}, {}", state.term());
        assert_eq!(state.predecessor(), Some(Life(1)));
    }
}
