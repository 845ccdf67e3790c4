//! Single rules, step by step.

use std::collections::BTreeMap;
use std::sync::Arc;

use effectlog::StreamPosition;
use topology::{
    Document, Error, Finding, GroupId, Instance, Life, Params, Reading, ReplicaGroup, Revision, Swap, Term,
    Unsettled,
};

use crate::{Ack, Data, GroupChange, LinkId, Member, Role, Trouble};

fn instance(node: &str, life: u64) -> Instance {
    Instance { node: node.parse().expect("a name"), life: Life(life) }
}

fn id() -> GroupId {
    "g".parse().expect("a name")
}

/// A group of a, b and c with these members in sync, the first of which leads.
fn group(term: u64, in_sync: &[(&str, u64)]) -> ReplicaGroup {
    let members = in_sync.iter().map(|(node, life)| instance(node, *life));
    ReplicaGroup {
        term: Term(term),
        leader: instance(in_sync[0].0, in_sync[0].1),
        in_sync: members.map(|instance| (instance.node, instance.life)).collect(),
        members: ["a", "b", "c"].map(|node| node.parse().expect("a name")).into(),
    }
}

fn reading(revision: u64, group: ReplicaGroup) -> Reading {
    let document = Document {
        params: Params::default(),
        groups: BTreeMap::from([(id(), group)]),
        slots: Vec::new(),
        place: BTreeMap::new(),
        moves: BTreeMap::new(),
    };
    let found = Finding::Document(Arc::new(document));
    Reading { revision: Revision(revision), as_of: Revision(revision), found, dead: [].into() }
}

fn data(written: u64) -> Data {
    let (written, durable) = (StreamPosition::new(written), StreamPosition::new(written));
    Data { written, durable, is_whole: true, term: Term(1), last_term: Term(1) }
}

/// The primary a of term 1 with b and c in sync, at the moment 0.
fn primary() -> Member {
    let mut member = Member::new(instance("a", 1), id());
    let role = member.learn(&reading(1, group(1, &[("a", 1), ("b", 2), ("c", 3)])), &data(0), 0);
    assert_eq!(role, Ok(Role::Primary(Term(1))));
    member
}

fn ack(node: &str, life: u64, link: LinkId, offset: u64, beat_ms: u64) -> Ack {
    Ack {
        term: Term(1),
        from: instance(node, life),
        to: Life(1),
        link,
        offset: StreamPosition::new(offset),
        beat_ms,
    }
}

/// Both others answer a beat that was sent at this moment.
fn granted(member: &mut Member, offset: u64, beat_ms: u64) -> [LinkId; 2] {
    [("b", 2), ("c", 3)].map(|(node, life)| {
        let link = member.link(&instance(node, life).node);
        member.receive(&ack(node, life, link, offset, beat_ms), beat_ms + 10);
        link
    })
}

#[test]
fn the_primary_answers_until_half_a_second_before_the_first_grant_ends() {
    let mut member = primary();
    assert_eq!(member.serves_until_ms(), 0);
    let [b, _] = granted(&mut member, 5, 100);
    assert_eq!(member.serves_until_ms(), 2_600);
    member.receive(&ack("b", 2, b, 5, 900), 910);
    assert_eq!(member.serves_until_ms(), 2_600, "the one of c ends first");
    assert_eq!(member.committed(&data(7)), StreamPosition::new(5));
}

#[test]
fn what_comes_from_elsewhere_says_nothing() {
    let mut member = primary();
    let link = member.link(&instance("b", 2).node);
    let newer = member.link(&instance("b", 2).node);
    let not_ours = [
        ack("b", 2, link, 9, 0),
        Ack { term: Term(2), ..ack("b", 2, newer, 9, 0) },
        Ack { to: Life(7), ..ack("b", 2, newer, 9, 0) },
        ack("b", 2, newer, 9, 1_000),
        ack("stranger", 2, newer, 9, 0),
    ];
    for ack in not_ours {
        member.receive(&ack, 10);
        assert!(member.primary.heard().next().is_none(), "{ack:?}");
    }
}

#[test]
fn a_member_that_says_nothing_is_left_out_and_is_waited_for_until_that_is_known() {
    let mut member = primary();
    let [b, _] = granted(&mut member, 5, 100);
    member.receive(&ack("b", 2, b, 8, 1_100), 1_200);
    assert!(member.next_change(&data(8), &[], 1_100).is_none());
    let proposal = member.next_change(&data(8), &[], 1_200).expect("c is silent");
    assert_eq!(proposal.change, GroupChange::Shrink(instance("c", 3)));
    assert_eq!(member.committed(&data(8)), StreamPosition::new(5), "c may stay a member");
    let unknown = || Swap::Unknown(Unsettled::new(Revision(1), Error::Failed("no answer".to_owned())));
    member
        .settled(unknown(), |revision| proposal.made(revision), &data(8), 1_300)
        .expect("it is the same document");
    assert_eq!(member.committed(&data(8)), StreamPosition::new(5));
    // Nothing else is begun: the old revision is written again, so that the change can no longer be made unseen.
    let settling = member.next_change(&data(8), &[], 1_400).expect("the outcome is unknown");
    assert_eq!((settling.change.clone(), settling.on.revision), (GroupChange::Settle, Revision(1)));
    // That this was not made says nothing of the change before.
    let not_done = Swap::NotDone(Error::Failed("full".to_owned()));
    member.settled(not_done, |_| unreachable!(), &data(8), 1_450).expect("it is the same document");
    assert_eq!(member.committed(&data(8)), StreamPosition::new(5));
    let again = member.next_change(&data(8), &[], 1_460).expect("the outcome is still unknown");
    assert_eq!(again.change, GroupChange::Settle);
    // It had been made: the next revision says so.
    member.learn(&proposal.made(Revision(2)), &data(8), 1_500).expect("a document");
    assert_eq!(member.committed(&data(8)), StreamPosition::new(8));
    // Two of three members: if fewer were left, writes would stop instead.
    assert!(member.next_change(&data(8), &[], 60_000).is_none());
}

#[test]
fn writes_wait_for_a_replica_that_is_about_to_join_but_not_for_long() {
    let mut member = Member::new(instance("a", 1), id());
    member.learn(&reading(1, group(1, &[("a", 1), ("b", 2)])), &data(0), 0).expect("a document");
    let b = member.link(&instance("b", 2).node);
    let c = member.link(&instance("c", 3).node);
    let say = |member: &mut Member, b_has: u64, c_has: u64, now_ms: u64| {
        member.receive(&ack("b", 2, b, b_has, now_ms), now_ms);
        member.receive(&ack("c", 3, c, c_has, now_ms), now_ms);
    };
    say(&mut member, 10, 4, 100);
    assert_eq!(member.committed(&data(10)), StreamPosition::new(10));
    assert!(member.next_change(&data(10), &[], 100).is_none(), "it lacks something");
    say(&mut member, 20, 9, 200);
    assert_eq!(
        member.committed(&data(20)),
        StreamPosition::new(10),
        "writes wait for c, and none is taken back"
    );
    // It never catches up.
    assert!(member.next_change(&data(20), &[], 1_100).is_none());
    assert_eq!(member.committed(&data(20)), StreamPosition::new(20));
    // Later it does.
    say(&mut member, 30, 30, 6_000);
    let proposal = member.next_change(&data(30), &[], 6_000).expect("it has all");
    assert_eq!(proposal.change, GroupChange::Grow(instance("c", 3)));
}

#[test]
fn a_member_keeps_its_promise_and_then_takes_over() {
    let mut member = Member::new(instance("b", 2), id());
    let document = reading(1, group(1, &[("a", 1), ("b", 2)]));
    assert_eq!(member.learn(&document, &data(5), 0), Ok(Role::Replica(Term(1))));
    member.follow(LinkId(1));
    assert!(member.acknowledge(&data(5)).is_none(), "there was no beat");
    let beat = crate::Beat { term: Term(1), from: Life(1), link: LinkId(1), sent_ms: 77 };
    member.hear(&beat);
    let ack = member.acknowledge(&data(5)).expect("it is linked");
    assert_eq!((ack.offset, ack.beat_ms), (StreamPosition::new(5), 77));
    assert!(member.next_change(&data(5), &[], 1_000_000).is_none(), "the answer may not have been sent yet");
    member.sent(2_000);
    assert!(member.next_change(&data(5), &[], 4_999).is_none());
    let proposal = member.next_change(&data(5), &[], 5_000).expect("the grant is over");
    assert_eq!(proposal.change, GroupChange::TakeOver(instance("a", 1)));
    assert_eq!(proposal.durable_first, Some(StreamPosition::new(5)), "it will be alone");
    assert!(member.acknowledge(&data(5)).is_none(), "from now on it grants nothing");
    // A proof of death ends the wait at once.
    let mut other = Member::new(instance("b", 2), id());
    let dead = Reading { dead: [Life(1)].into(), ..document };
    other.learn(&dead, &data(5), 0).expect("a document");
    assert!(other.next_change(&data(5), &[], 1).is_some());
}

#[test]
fn a_handover_that_does_not_succeed_in_time_is_given_up() {
    let mut member = primary();
    let [b, c] = granted(&mut member, 5, 0);
    assert!(!member.hand_over(&instance("stranger", 9).node, 1_000, 0));
    assert!(member.hand_over(&instance("b", 2).node, 1_000, 0));
    assert_eq!(member.serves_until_ms(), 0);
    assert!(member.next_change(&data(6), &[], 500).is_none(), "b lacks the last write");
    for (node, life, link) in [("b", 2, b), ("c", 3, c)] {
        member.receive(&ack(node, life, link, 5, 900), 900);
    }
    assert!(member.next_change(&data(6), &[], 1_000).is_none());
    assert_eq!(member.serves_until_ms(), 3_400);
    assert!(member.hand_over(&instance("b", 2).node, 1_000, 1_000));
    let proposal = member.next_change(&data(5), &[], 1_001).expect("b has everything");
    assert_eq!(proposal.change, GroupChange::HandOver(instance("b", 2)));
    member
        .settled(Swap::NotDone(Error::Failed("full".to_owned())), |_| unreachable!(), &data(5), 1_100)
        .expect("known");
    member.next_change(&data(6), &[], 2_000);
    assert!(member.serves_until_ms() > 0, "it failed, and is over");
}

#[test]
fn a_document_that_cannot_be_followed_changes_nothing() {
    let mut member = primary();
    granted(&mut member, 5, 0);
    let older = reading(2, group(1, &[("a", 1)]));
    let known = Data { term: Term(4), ..data(5) };
    let trouble = Trouble::OlderTerm { found: Term(1), known: Term(4) };
    assert_eq!(member.learn(&older, &known, 10), Err(trouble));
    let nothing = Reading { found: Finding::Nothing, ..older.clone() };
    assert_eq!(member.learn(&nothing, &data(5), 10), Err(Trouble::NoDocument));
    let mut other = reading(2, group(1, &[("a", 1)]));
    if let Finding::Document(document) = &mut other.found {
        let document = Arc::make_mut(document);
        let group = document.groups.remove(&id()).expect("it is there");
        document.groups.insert("other".parse().expect("a name"), group);
    }
    assert_eq!(member.learn(&other, &data(5), 10), Err(Trouble::NoGroup(id())));
    assert_eq!((member.role(), member.serves_until_ms()), (Role::Primary(Term(1)), 2_500));
}
