//! Rules of users: how they are shown, what they allow, what is refused.

mod checks;

use acl::{CallerDb, Denied, Grammar, Reason, User, parse_file};
use checks::{check_file, check_rules, table};
use proptest::prelude::*;

/// The user that these rules make, or the error.
fn made(rules: &str) -> Result<User, String> {
    let table = table();
    let grammar = Grammar { table: &table, all_channels: false };
    let words: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    User::new(b"u", grammar).changed(grammar, &words).map_err(|error| error.to_string())
}

#[track_caller]
fn check_shown(rules: &str, expected: &str) {
    let user = made(rules).expect(rules);
    assert_eq!(String::from_utf8_lossy(&user.describe()), expected, "{rules}");
}

#[track_caller]
fn check_refused(rules: &str, expected: &str) {
    let expected = match rules {
        rules if rules.contains(' ') => expected.to_owned(),
        rule => format!("ERR Error in ACL SETUSER modifier '{rule}': {expected}"),
    };
    assert_eq!(made(rules).expect_err(rules), expected);
}

#[test]
fn rules_are_shown_in_one_form() {
    let off = "off sanitize-payload resetchannels -@all";
    check_shown("", off);
    check_shown("ON NOPASS allkeys AllChannels allcommands", "on nopass sanitize-payload ~* &* +@all");
    check_shown("on nopass allkeys allchannels allcommands (+get) reset", off);
    check_shown("skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all");
    let hash = "148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940";
    let with_password = format!("off sanitize-payload #{hash} resetchannels -@all");
    check_shown(&format!("nopass >p #{hash}"), &with_password);
    check_shown(">p <p", off);
    check_shown(&format!(">p !{hash}"), off);
    check_shown(">p nopass", "off nopass sanitize-payload resetchannels -@all");
    check_shown(">p resetpass", off);
    check_shown("~a %R~b %w~c %wR~d ~a %W~b", "off sanitize-payload ~a ~b %W~c ~d resetchannels -@all");
    check_shown("~a ~*", "off sanitize-payload ~* resetchannels -@all");
    check_shown("%R~* %W~*", "off sanitize-payload ~* resetchannels -@all");
    check_shown("~a resetkeys", off);
    check_shown("&a &b &a", "off sanitize-payload resetchannels &a &b -@all");
    check_shown("&a &*", "off sanitize-payload &* -@all");
    check_shown("&* resetchannels &b", "off sanitize-payload resetchannels &b -@all");
    check_shown(
        "(+get ~a) (~b +@read &c)",
        "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get) (~b resetchannels &c -@all +@read)",
    );
    check_shown("(+get) clearselectors", off);
    let with_empty = "off sanitize-payload resetchannels -@all (resetchannels -@all)";
    check_shown("()", with_empty);
    // Text with unbalanced quotes has no rules.
    check_shown("(+get' ~a)", with_empty);
}

#[test]
fn rules_about_commands_keep_their_order_and_lose_what_is_superfluous() {
    let check = |rules, expected: &str| {
        check_shown(rules, &format!("off sanitize-payload resetchannels {expected}"));
    };
    check("+GET +Get", "-@all +get");
    check("+get +copy -get", "-@all +copy -get");
    check("+@all -get +@all", "+@all");
    check("+@all -get +get", "+@all +get");
    check("+@read -@READ", "-@all -@read");
    check("+config|get +config|SET -config", "-@all -config");
    check("+config -config|get", "-@all +config -config|get");
    check("+select|A +select|b +select|a", "-@all +select|b +select|a");
    check("+select|1 +select", "-@all +select");
    check("+get nocommands", "-@all");
}

#[test]
fn wrong_rules_are_refused() {
    for rule in ["a", "+select|", "%", "%R", "%~a", "%RR~a", "%X~a", "~a\tb", "&a\rb", "(on)", ")"] {
        check_refused(rule, "Syntax error");
    }
    // Rules that would not be read back as they are written.
    for rule in ["(~a\\))", "(\"~a'b\")", "(\"~a\\\"b\")"] {
        check_refused(rule, "Syntax error");
    }
    for rule in
        ["+", "+nope", "-nope", "+@nope", "-@nope", "+@", "-select|1", "+config|nope", "+get|a|b", "(+nope)"]
    {
        check_refused(rule, "Unknown command or category name in ACL");
    }
    check_refused("+config|get|a", "Allowing first-arg of a subcommand is not supported");
    check_refused("<p", "The password you are trying to remove from the user does not exist");
    for rule in ["#a", "!a"] {
        check_refused(
            rule,
            "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
        );
    }
    check_refused(
        "~* ~a",
        "ERR Error in ACL SETUSER modifier '~a': Adding a pattern after the * pattern (or the 'allkeys' flag) is not \
         valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns",
    );
    check_refused(
        "&* &a",
        "ERR Error in ACL SETUSER modifier '&a': Adding a pattern after the * pattern (or the 'allchannels' flag) is \
         not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels",
    );
    check_refused("on (+get (+set)", "ERR Error in ACL SETUSER modifier '(+get (+set)': Syntax error");
    check_refused("on (+get ~a", "ERR Unmatched parenthesis in acl selector starting at '(+get'.");
    check_refused(&format!("~{}", "a".repeat(1 << 16)), "Too many rules, or too long a rule");
    let many: Vec<String> = (0..10_000).map(|number| format!("~{number}")).collect();
    assert!(made(&many.join(" ")).expect_err("many").ends_with("Too many rules, or too long a rule"));
}

/// Checks whether the user of `rules` may run the call `line`.
#[track_caller]
fn check(rules: &str, line: &str, expected: Result<(), (Reason, usize)>) {
    let table = table();
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let command = table.named(&args).expect(line);
    let outcome = made(rules).expect(rules).check(CallerDb { db: 1, count: 16 }, command, &args);
    assert_eq!(outcome, expected.map_err(|(reason, index)| Denied { reason, index }), "{rules}: {line}");
}

#[test]
fn commands_are_allowed_one_by_one() {
    let denied = Err((Reason::Command, 0));
    check("~*", "get a", denied);
    check("~*", "auth p", Ok(()));
    check("~* +get", "get a", Ok(()));
    check("~* +@read -get", "get a", denied);
    check("~* +@read -get", "exists a", Ok(()));
    check("+@all -config|set", "config set a b", denied);
    check("+@all -config|set", "config get a", Ok(()));
    check("+@slow", "config set a b", Ok(()));
    check("+config|get", "config get a", Ok(()));
    check("+config|get", "config set a b", denied);
    check("+select|1", "select 1", Ok(()));
    check("+select|1", "select 2", denied);
    check("+select|1", "select", denied);
    check("+select|1 -@connection", "select 1", denied);
}

#[test]
fn keys_are_allowed_for_what_is_done_with_them() {
    check("~a +get", "get a", Ok(()));
    check("~a +get", "get b", Err((Reason::Key, 1)));
    check("%W~a +get", "get a", Err((Reason::Key, 1)));
    check("%R~a %W~b +copy", "copy a b", Ok(()));
    check("%R~a %W~b +copy", "copy b a", Err((Reason::Key, 1)));
    check("~a %R~b +copy", "copy a b", Err((Reason::Key, 2)));
    check("%W~a +exists", "exists a", Ok(()));
    check("+exists", "exists a", Err((Reason::Key, 1)));
    check("~job:* +get", "get job:1", Ok(()));
}

#[test]
fn channels_are_matched_and_patterns_compared() {
    check("+@all &a*", "publish ab m", Ok(()));
    check("+@all &a*", "publish b m", Err((Reason::Channel, 1)));
    check("+@all &a*", "subscribe a ab b", Err((Reason::Channel, 3)));
    check("+@all &a*", "psubscribe a*", Ok(()));
    check("+@all &a*", "psubscribe ab", Err((Reason::Channel, 1)));
    check("+@all &*", "psubscribe ab", Ok(()));
}

#[test]
fn selectors_do_not_add_up() {
    let rules = "+get ~a (+copy ~b) (+publish ~c)";
    check(rules, "get a", Ok(()));
    check(rules, "copy b b", Ok(()));
    check(rules, "get b", Err((Reason::Key, 1)));
    check(rules, "copy a b", Err((Reason::Key, 1)));
    check(rules, "copy b a", Err((Reason::Key, 2)));
    // The most telling reason, and the last of its kind.
    check(rules, "publish a m", Err((Reason::Channel, 1)));
    check("+copy ~a (+copy ~b)", "copy b a", Err((Reason::Key, 2)));
    check("+copy ~a (+copy %R~b)", "copy b c", Err((Reason::Key, 2)));
}

#[test]
fn reading_all_keys_is_a_matter_of_one_selector() {
    let table = table();
    let args: [&[u8]; 2] = [b"get", b"a"];
    let command = table.named(&args).unwrap();
    for (rules, expected) in [
        ("+get ~*", true),
        ("+get %R~*", true),
        ("+get ~a", false),
        ("+get ~a (~*)", false),
        ("(+get ~*)", true),
        ("+get %W~* ~a", false),
    ] {
        assert_eq!(
            made(rules).unwrap().may_read_all(CallerDb { db: 1, count: 16 }, command, &args),
            expected,
            "{rules}"
        );
    }
}

#[test]
fn subscriptions_are_lost_with_their_channels() {
    for (before, after, expected) in [
        ("&a &b", "&b &a &c", true),
        ("&a &b", "&a (&b)", true),
        ("&a &b", "&a", false),
        ("&a", "&*", true),
        ("&*", "&a", false),
        ("&* (&a)", "(&*)", true),
    ] {
        let (before, after) = (made(before).unwrap(), made(after).unwrap());
        assert_eq!(after.keeps_channels_of(&before), expected);
    }
}

#[test]
fn only_everything_is_unrestricted() {
    for (rules, expected) in [
        ("+@all ~* &*", true),
        ("(+@all ~* &*)", true),
        ("+@all ~* (&*)", false),
        ("+@all -get +get ~* &*", true),
        ("+@all -get ~* &*", false),
        ("+@all %R~* &*", false),
    ] {
        assert_eq!(made(rules).unwrap().is_unrestricted(), expected, "{rules}");
    }
}

#[test]
fn files_are_read_as_a_whole() {
    let table = table();
    let grammar = Grammar { table: &table, all_channels: false };
    let read = |text: &str| parse_file(grammar, "f", text.as_bytes());
    let users = read("\nuser a on (+get\t ~x)\r\n\n  user b  +get \n").unwrap();
    let lines: Vec<String> =
        users.iter().map(|user| String::from_utf8_lossy(&user.line()).into_owned()).collect();
    assert_eq!(
        lines,
        [
            "user a on sanitize-payload resetchannels -@all (~x resetchannels -@all +get)",
            "user b off sanitize-payload resetchannels -@all +get"
        ]
    );
    let ending = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
    for (text, expected) in [
        ("user a on\nfoo", "f:2 should start with user keyword followed by the username. "),
        ("user", "f:1 should start with user keyword followed by the username. "),
        ("user a\u{b}b", "'f:1: username 'a\u{b}b' contains invalid characters. "),
        (
            "user a +nope\n\nuser a",
            "f:1: Error in applying operation '+nope': Unknown command or category name in ACL. WARNING: Duplicate user 'a' found on line 3. ",
        ),
        (
            "user a x y +no",
            "f:1: Syntax error. f:1: Error in applying operation '+no': Unknown command or category name in ACL. ",
        ),
        ("user a (+get", "f:1: Unmatched parenthesis in selector definition."),
    ] {
        let errors = read(text).expect_err(text);
        assert_eq!(String::from_utf8_lossy(&errors), format!("{expected}{ending}"), "{text}");
    }
}

/// Rules of all kinds, good and bad.
fn rule() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("on"),
        Just("off"),
        Just("nopass"),
        Just("resetpass"),
        Just("reset"),
        Just(">p"),
        Just("<p"),
        Just("allkeys"),
        Just("resetkeys"),
        Just("~*"),
        Just("%R~*"),
        Just("%W~*"),
        Just("%RW~a"),
        Just("~a*"),
        Just("allchannels"),
        Just("resetchannels"),
        Just("&a*"),
        Just("+@all"),
        Just("-@all"),
        Just("clearselectors"),
        Just("skip-sanitize-payload"),
        Just("("),
        Just(")"),
        Just("()"),
        Just("(~a"),
        Just("+get)"),
        Just("(%W~b &c -@read)"),
    ];
    let command = prop_oneof![
        Just("get"),
        Just("copy"),
        Just("config"),
        Just("config|get"),
        Just("config|SET"),
        Just("select|1"),
        Just("select"),
        Just("SELECT|a'b"),
        Just("@read"),
        Just("@slow"),
        Just("@Fast"),
        Just("@admin"),
        Just("@connection"),
        Just("@pubsub"),
    ];
    prop_oneof![
        word.prop_map(str::to_owned),
        ("[-+]", command.clone()).prop_map(|(sign, name)| format!("{sign}{name}")),
        ("[-+]", command).prop_map(|(sign, name)| format!("(~x {sign}{name})")),
        "[-+~%&<>#!(][^\\n]{0,8}",
        ".{0,8}",
    ]
}

proptest! {
    #[test]
    fn users_are_read_again_as_they_are_shown(rules in proptest::collection::vec(rule(), 0..30)) {
        check_rules(rules.join("\n").as_bytes());
    }

    #[test]
    fn any_file_is_taken_or_refused(lines in proptest::collection::vec(proptest::collection::vec(rule(), 0..6), 0..5)) {
        let lines: Vec<String> =
            lines.iter().enumerate().map(|(number, rules)| format!("user u{} {}", number % 4, rules.join(" "))).collect();
        check_file(lines.join("\n").as_bytes());
    }
}

#[test]
fn databases_are_allowed_by_their_numbers() {
    check_shown("db=2,0,2", "off sanitize-payload resetchannels db=0,2 -@all");
    check_shown("db=0 db=1", "off sanitize-payload resetchannels db=1 -@all");
    check_shown("resetdbs", "off sanitize-payload resetchannels resetdbs -@all");
    check_shown("db=0 ALLDBS", "off sanitize-payload resetchannels -@all");
    check_shown(
        "db=2147483647 (DB=3 +get)",
        "off sanitize-payload resetchannels db=2147483647 -@all (resetchannels db=3 -@all +get)",
    );
    for rule in ["db=", "db=x", "db=,0", "db=0,", "db=0,,1", "db= 0", "db=1.5", "db=0x1"] {
        let words: Vec<&[u8]> = vec![rule.as_bytes()];
        let table = table();
        let grammar = Grammar { table: &table, all_channels: false };
        let error = User::new(b"u", grammar).changed(grammar, &words).expect_err(rule).to_string();
        assert_eq!(error, format!("ERR Error in ACL SETUSER modifier '{rule}': Syntax error"));
    }
    for rule in ["db=-1", "db=2147483648", "db=0,12345678987654321"] {
        check_refused(rule, "The provided database ID is out of range");
    }
    // The calls come from database 1 of 16.
    let own = Err((Reason::Database, 0));
    check("~* +@all db=1", "get a", Ok(()));
    check("~* +@all db=0", "get a", own);
    check("~* +@all resetdbs", "exists a", own);
    check("~* +@all &* db=0", "publish c m", Ok(()));
    check("~* +@all db=0", "auth p", Ok(()));
    check("~* +@all db=0", "select 0", Ok(()));
    check("~* +@all db=1", "select 0", Err((Reason::Database, 1)));
    check("~* +@all db=1", "select 16", Ok(()));
    check("~* +@all db=1", "select x", Ok(()));
    check("~* +@all db=1", "copy a b", Ok(()));
    check("~* +@all db=1", "copy a b DB 1", Ok(()));
    check("~* +@all db=1", "copy a b replace db 2", Err((Reason::Database, 5)));
    check("~* +@all db=0", "copy a b DB 0", own);
    check("~* +@all db=1", "copy a b DB", Ok(()));
    check("~* +@all db=1", "flushall", own);
    check("~* +@all", "flushall", Ok(()));
    // Of several selectors that deny, the reason is the one that comes last.
    check("~* +get db=0 (~* +exists)", "get a", Err((Reason::Command, 0)));
    check("~* +get db=0 (~* +get db=1)", "get a", Ok(()));
}
