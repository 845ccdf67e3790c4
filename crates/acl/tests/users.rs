//! All users: their changes, the effect of a change on clients that act as one of them, and the texts that declare
//! them.

use acl::{Access, CallerDb, DEFAULT, Denied, Grammar, Lack, Reason, UserLine, Users};
use engine::{Entry, Flag, KeyFlag, KeySpec, Keys, Table};

/// The first of 16 databases.
const CALLER_DB: CallerDb = CallerDb { db: 0, count: 16 };

const ENTRIES: &[Entry] = &[
    Entry { name: "auth", flags: &[Flag::NoAuth], ..Entry::DEFAULT },
    Entry {
        name: "get",
        flags: &[Flag::ReadOnly],
        keys: &[KeySpec::one(1, &[KeyFlag::RO, KeyFlag::Access])],
        ..Entry::DEFAULT
    },
    Entry {
        name: "pfmerge",
        arity: -2,
        flags: &[Flag::Write],
        keys: &[
            KeySpec::one(1, &[KeyFlag::RW, KeyFlag::Insert]),
            KeySpec::range(2, -1, 1, &[KeyFlag::RO, KeyFlag::Access]),
        ],
        ..Entry::DEFAULT
    },
];

fn table() -> Table {
    Table::new(&[ENTRIES])
}

fn grammar(table: &Table) -> Grammar<'_> {
    Grammar { table, all_channels: false }
}

fn set(users: &Users, table: &Table, name: &str, rules: &str) -> bool {
    let rules: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    users.set(grammar(table), name.as_bytes(), &rules).expect("good rules")
}

#[track_caller]
fn check(access: &Access, table: &Table, call: &str, expected: Result<(), Lack>) {
    let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
    let command = table.named(&args).expect("a command");
    assert_eq!(access.check(CALLER_DB, command, &args), expected, "{call}");
}

fn lines_of(users: &Users) -> Vec<String> {
    users.latest().users().map(|user| String::from_utf8_lossy(&user.line()).into_owned()).collect()
}

const NO_KEY: Result<(), Lack> = Err(Lack::Permission(Denied { reason: Reason::Key, index: 1 }));
const NO_COMMAND: Result<(), Lack> = Err(Lack::Permission(Denied { reason: Reason::Command, index: 0 }));

#[test]
fn clients_need_no_check_until_something_changes() {
    let table = &table();
    let users = Users::new(grammar(table), None);
    let mut access = users.access();
    assert!(access.is_authenticated() && !access.is_limited() && !access.needs_check(&users));
    // Another user, but it might have been this one.
    assert!(!set(&users, table, "x", "on nopass"));
    assert!(access.has_missed_change(&users) && access.is_of(&users.latest()));
    access.follow(&users.latest()).expect("it is still there");
    assert!(!access.needs_check(&users));
    assert!(set(&users, table, "default", "-get"));
    assert!(access.needs_check(&users) && !access.is_of(&users.latest()));
    // The client has not heard of the change yet.
    check(&access, table, "get a", Ok(()));
    let before = access.follow(&users.latest()).expect("it is still there");
    assert!(before.user.is_unrestricted() && access.is_limited() && !access.has_missed_change(&users));
    check(&access, table, "get a", NO_COMMAND);
    access.lift_limits();
    check(&access, table, "get a", Ok(()));
}

#[test]
fn nobody_runs_anything_before_authenticating_where_a_password_is_asked_for() {
    let table = &table();
    let users = Users::new(grammar(table), Some(b"p"));
    assert!(!users.takes_any_password());
    let access = users.access();
    assert!(!access.is_authenticated() && access.needs_check(&users));
    check(&access, table, "get a", Err(Lack::Authentication));
    check(&access, table, "auth p", Ok(()));
    assert!(users.authenticate(DEFAULT, b"q").is_none() && users.authenticate(b"x", b"p").is_none());
    let access = users.authenticate(DEFAULT, b"p").expect("the right password");
    assert!(access.is_authenticated() && !access.is_limited());
    users.set_default_password(None);
    assert!(users.takes_any_password() && users.access().is_authenticated());
}

#[test]
fn a_user_of_the_same_name_is_another_one() {
    let table = &table();
    let users = Users::new(grammar(table), None);
    set(&users, table, "x", "on nopass +get ~a");
    let mut access = users.authenticate(b"x", b"").expect("any password");
    let number = access.user_number();
    check(&access, table, "get b", NO_KEY);
    set(&users, table, "x", "~b");
    access.follow(&users.latest()).expect("it is still there");
    assert_eq!(access.user_number(), number);
    check(&access, table, "get b", Ok(()));
    assert_eq!(users.remove(&[b"x", b"y"]), 1);
    set(&users, table, "x", "on nopass +@all ~* &*");
    assert!(access.follow(&users.latest()).is_none());
    assert!(users.authenticate(b"x", b"").expect("any password").user_number() != number);
}

#[test]
fn users_of_a_file_are_new_and_replace_all_others() {
    let table = &table();
    let users = Users::new(grammar(table), None);
    set(&users, table, "x", "on nopass");
    set(&users, table, "y", "on nopass");
    set(&users, table, "default", "-get");
    let (before, mut x, mut default) =
        (lines_of(&users), users.authenticate(b"x", b"").expect("any password"), users.access());
    users.load(grammar(table), "f", b"user x on\nuser z bad").expect_err("a bad rule");
    assert_eq!(lines_of(&users), before);
    users.load(grammar(table), "f", b"user x on nopass").expect("a good file");
    let expected = [
        "user default on nopass sanitize-payload ~* &* +@all",
        "user x on nopass sanitize-payload resetchannels -@all",
    ];
    assert_eq!(lines_of(&users), expected);
    assert_eq!(users.file_text(), (expected.join("\n") + "\n").into_bytes());
    assert!(x.follow(&users.latest()).is_none());
    default.follow(&users.latest()).expect("it is always there");
    assert!(!default.is_limited());
}

#[test]
fn lines_of_the_configuration_declare_users() {
    let table = &table();
    let line = |number: usize, text: &str| UserLine {
        place: format!("line {number}"),
        words: text.split_terminator(' ').map(|word| word.as_bytes().to_vec()).collect(),
    };
    let users = Users::new(grammar(table), Some(b"p"));
    assert!(users.declarations(grammar(table), Some(b"p")).is_empty());
    users.declare(grammar(table), &[line(1, "x on (+get ~a)"), line(2, "default off")]).expect("good lines");
    let declared = users.declarations(grammar(table), Some(b"p"));
    assert_eq!(declared, [users.find(DEFAULT), users.find(b"x")].map(|known| known.unwrap().user.line()));
    for (text, expected) in [
        ("", "bad user '' line 2: a name is missing"),
        ("a\tb on", "bad user 'a …' line 2: names cannot contain spaces"),
        ("y bad", "bad user 'y' line 2: a user can only be defined once"),
        ("z (+get", "bad user 'z' line 2: unmatched parenthesis at '(+get'"),
        ("z +no", "bad user 'z' line 2: '+no': Unknown command or category name in ACL"),
        ("z secret", "bad user 'z' line 2: Syntax error"),
    ] {
        let users = Users::new(grammar(table), None);
        let error = users.declare(grammar(table), &[line(1, "y on"), line(2, text)]).expect_err(text);
        assert_eq!(error.to_string(), expected);
        assert!(users.find(b"y").is_some() && users.find(b"z").is_none());
    }
}

#[test]
fn keys_are_checked_even_if_others_are_missing() {
    let table = &table();
    let users = Users::new(grammar(table), None);
    set(&users, table, "x", "on nopass ~a* %W~w +@all");
    let access = users.authenticate(b"x", b"").expect("needs no password");
    check(&access, table, "pfmerge a", Ok(()));
    check(&access, table, "pfmerge b", NO_KEY);
    check(&access, table, "pfmerge a b", Err(Lack::Permission(Denied { reason: Reason::Key, index: 2 })));
}

#[test]
fn a_key_beside_those_of_a_command_has_to_be_read_and_written() {
    let table = &table();
    let users = Users::new(grammar(table), None);
    set(&users, table, "x", "on nopass ~a ~b:* ~c?* %W~w +@all (~s* +pfmerge)");
    let access = users.authenticate(b"x", b"").expect("needs no password");
    let command = table.by_name(b"pfmerge").expect("it is there");
    let may = |key: &[u8]| access.may_change(CALLER_DB, command, &[&b"pfmerge"[..], b"a"], Keys::One(key));
    assert_eq!([may(b"a"), may(b"b:1"), may(b"w"), may(b"b"), may(b"s1")], [true, true, false, false, false]);
    let may_all = |begin: &[u8]| {
        access.may_change(CALLER_DB, command, &[&b"pfmerge"[..], b"a"], Keys::AllThatBegin(begin))
    };
    assert_eq!(
        [may_all(b"b:"), may_all(b"b:x"), may_all(b"b"), may_all(b"cc"), may_all(b"a")],
        [true, true, false, false, false]
    );
}
