//! Documents that are taken, and those that are refused, with the reason.

use super::*;

/// A document of one group with three members, two of them in sync.
pub(crate) fn small() -> Document {
    Document::decode(SMALL.as_bytes()).expect("it is right")
}

const SMALL: &str = r#"{"version":1,"params":{"grant_ms":3000,"ack":"applied","alone":"durable"},"groups":{"g1":{"term":17,"leader":["a","00000000000000aa"],"in_sync":[["a","00000000000000aa"],["b","00000000000000bb"]],"members":["a","b","c"]}},"slots":[[0,16383,"g1"]],"place":[],"moves":{}}"#;

/// A document of two groups with everything that there is.
const LARGE: &str = r#"{"version":1,"params":{"grant_ms":1000,"min_in_sync":2,"ack":"durable","alone":"applied"},"groups":{"g1":{"term":17,"leader":["a","00000000000000aa"],"in_sync":[["a","00000000000000aa"],["b","00000000000000bb"]],"members":["a","b","c"]},"g2":{"term":1,"leader":["d","00000000000000dd"],"in_sync":[["d","00000000000000dd"]],"members":["d"]}},"slots":[[0,5460,"g1"],[5461,10922,"g2"],[10923,16383,"g1"]],"place":[["queue:mail","g2"]],"moves":{"m8":{"ranges":[[100,199]],"from":"g1","to":"g2","state":"cancelled"},"m9":{"ranges":[[100,199],[300,300]],"from":"g1","to":"g2","state":"copying"}}}"#;

#[test]
fn texts_are_stable() {
    for text in [SMALL, LARGE] {
        let document = Document::decode(text.as_bytes()).unwrap();
        assert_eq!(document.encode(), text);
    }
    // The order in which a person wrote it does not count.
    let other = LARGE
        .replace(r#"[0,5460,"g1"],[5461,10922,"g2"]"#, r#"[5461,10922,"g2"],[0,5460,"g1"]"#)
        .replace(r#"["a","b","c"]"#, r#"["c","a","b"]"#)
        .replace(r#"[[100,199],[300,300]]"#, r#"[[300,300],[100,199]]"#);
    assert_eq!(Document::decode(other.as_bytes()).unwrap().encode(), LARGE);
}

/// Replaces `old` in the large document by `new`, and expects that the error says `why`.
#[track_caller]
fn check_refused(old: &str, new: &str, why: &str) {
    assert!(LARGE.contains(old), "{old}");
    let error = Document::decode(LARGE.replacen(old, new, 1).as_bytes()).unwrap_err().to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn what_cannot_be_read_is_refused() {
    check_refused(r#""version":1"#, r#""version":2"#, "is of version 2; this release knows version 1 only");
    check_refused(r#""version":1,"#, "", "missing field `version`");
    check_refused(r#""grant_ms""#, r#""grnat_ms""#, "unknown field `grnat_ms`, expected one of `grant_ms`");
    check_refused(r#""moves":"#, r#""future":1,"moves":"#, "unknown field `future`");
    check_refused(r#""term":17,"#, "", "missing field `term` at line 1 column");
    check_refused(r#""term":17"#, r#""term":-1"#, "invalid value: integer `-1`");
    check_refused(r#""term":17"#, r#""term":17,"term":18"#, "duplicate field `term`");
    check_refused(r#""g2":{"#, r#""g1":{"#, "g1 stands twice");
    check_refused(r#""m8":{"#, r#""m9":{"#, "m9 stands twice");
    check_refused("00000000000000aa", "00000000000000AA", "16 lowercase hexadecimal digits");
    check_refused(r#"["a","b","c"]"#, r#"["a","b","../c"]"#, "a name has 1 to 64 letters");
    check_refused(r#""durable","#, r#""sometimes","#, "unknown variant `sometimes`");
    check_refused(r#""copying""#, r#""done""#, "unknown variant `done`");
    check_refused(r#"[0,5460"#, r#"[0,70000"#, "invalid value: integer `70000`");
    check_refused("}", "", "line 1 column");
    let error = Document::decode(b"\xff{").unwrap_err();
    assert!(matches!(error, DocumentError::Unreadable(_)), "{error}");
    let deep = "[".repeat(100_000);
    assert!(matches!(Document::decode(deep.as_bytes()), Err(DocumentError::Unreadable(_))));
}

#[test]
fn contradictions_are_refused() {
    check_refused(
        r#""grant_ms":1000"#,
        r#""grant_ms":100"#,
        "params.grant_ms: 100 is not between 1000 and 60000",
    );
    check_refused(r#""grant_ms":1000"#, r#""grant_ms":86400000"#, "params.grant_ms: 86400000 is not between");
    check_refused(
        r#""min_in_sync":2"#,
        r#""min_in_sync":0"#,
        "params.min_in_sync: 0 is not between 1 and 16",
    );
    check_refused(r#""term":17"#, r#""term":0"#, "groups.g1.term: 0 is not between 1 and");
    check_refused(
        r#""term":17"#,
        r#""term":18446744073709551615"#,
        "groups.g1.term: 18446744073709551615 is not",
    );
    check_refused(
        r#""term":17"#,
        r#""term":9007199254740991"#,
        "9007199254740991 is not between 1 and 4503599627370495",
    );
    check_refused(
        r#"[["a","00000000000000aa"],["b","00000000000000bb"]]"#,
        "[]",
        "groups.g1.in_sync: it names nobody",
    );
    check_refused(
        r#""leader":["a","00000000000000aa"]"#,
        r#""leader":["a","00000000000000a1"]"#,
        "groups.g1.leader: a (life 00000000000000a1) is not in in_sync",
    );
    check_refused(r#"["a","b","c"]"#, r#"["a","c"]"#, "groups.g1.in_sync: b is not in members");
    check_refused(r#"["a","b","c"]"#, r#"["a","b","a"]"#, "groups.g1.members: a stands twice");
    check_refused(r#"["a","b","c"]"#, r#"["a","b","d"]"#, "groups.g2.members: d is also a member of g1");
    check_refused(
        r#"["b","00000000000000bb"]"#,
        r#"["a","00000000000000bb"]"#,
        "groups.g1.in_sync: a stands twice",
    );
    check_refused(
        "00000000000000bb",
        "00000000000000aa",
        "groups.g1.in_sync: life 00000000000000aa is that of b and of a",
    );
}

#[test]
fn slots_without_one_owner_are_refused() {
    check_refused("[5461,10922", "[5460,10922", "slots: [0, 5460] and [5460, 10922] overlap");
    check_refused("[10923,16383", "[10923,16384", "slots: [10923, 16384] is no range of slots");
    check_refused("[0,5460", "[5460,0", "is no range of slots");
    check_refused(r#"16383,"g1""#, r#"16383,"g3""#, "slots: there is no group g3");
    check_refused(r#"["queue:mail","g2"]"#, r#"["queue:mail","g3"]"#, "place: there is no group g3");
    check_refused(r#"["queue:mail","g2"]"#, r#"["","g2"]"#, "place: a name has 0 bytes");
    check_refused(
        r#"["queue:mail","g2"]"#,
        r#"["queue:mail","g2"],["queue:mail","g1"]"#,
        r#"place: "queue:mail" stands twice"#,
    );
    check_refused("[300,300]", "[199,300]", "moves.m9: [100, 199] and [199, 300] overlap");
    check_refused("[300,300]", "[6000,6000]", "moves.m9: g1 does not own all of [6000, 6000]");
    check_refused(
        r#""cancelled""#,
        r#""copying""#,
        "moves: slot 100 is in m8 and in m9, which are both copying",
    );
    check_refused(
        r#""from":"g1","to":"g2","state":"copying""#,
        r#""from":"g1","to":"g1","state":"copying""#,
        "moves.m9",
    );
    check_refused("[[100,199]]", "[]", "moves.m8: it has no slots");
}

#[test]
fn a_group_or_a_document_without_anything_is_refused() {
    let no_groups = r#"{"version":1,"params":{"grant_ms":3000,"ack":"applied","alone":"durable"},"groups":{},"slots":[],"place":[],"moves":{}}"#;
    let error = Document::decode(no_groups.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "groups: there is no group");
    let nobody = SMALL.replace(r#"["a","b","c"]"#, "[]");
    let error = Document::decode(nobody.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "groups.g1.members: it names nobody");
}

#[test]
fn large_documents_are_refused_at_both_ends() {
    let text = vec![b' '; DOCUMENT_BYTES_MAX + 1];
    assert_eq!(
        Document::decode(&text).unwrap_err().to_string(),
        "the document has 102401 bytes, 102400 at most"
    );
    let mut document = small();
    let group: GroupId = "g1".parse().unwrap();
    for number in 0..PLACES_MAX {
        document.place.insert(format!("{number:0>120}"), group.clone());
    }
    assert!(matches!(document.check(), Err(DocumentError::TooLarge { .. })), "it would not be read again");
    // Errors do not quote a whole document.
    let long = SMALL.replace("place", &"x".repeat(50_000));
    assert!(Document::decode(long.as_bytes()).unwrap_err().to_string().len() < 400);
}

#[test]
fn a_term_has_one_leader_and_does_not_fall() {
    let before = small();
    let id: GroupId = "g1".parse().unwrap();
    let changed = |change: &dyn Fn(&mut ReplicaGroup)| {
        let mut after = before.clone();
        change(after.groups.get_mut(&id).unwrap());
        after.check().unwrap();
        after.check_succession(&before).map_err(|error| error.to_string())
    };
    let (b, life): (NodeId, Life) = ("b".parse().unwrap(), Life(0xbb));
    assert_eq!(changed(&|_| {}), Ok(()));
    assert_eq!(changed(&|group| assert!(group.in_sync.remove(&b).is_some())), Ok(()));
    let new_leader = |group: &mut ReplicaGroup| group.leader = Instance { node: b.clone(), life };
    assert!(changed(&new_leader).unwrap_err().contains("in term 17 it is a (life"));
    let next = |group: &mut ReplicaGroup| {
        new_leader(group);
        group.term = group.term.next();
    };
    assert_eq!(changed(&next), Ok(()));
    assert!(changed(&|group| group.term = Term(16)).unwrap_err().contains("16 comes after 17"));
    assert!(changed(&|group| group.term = Term(19)).unwrap_err().contains("19 skips"));
}
