//! Users on several threads: the effect of changed rules on clients, the log of denials, and files.

use blackbox::{Client, Scratch, Server, StartError, check, eventually, on_each_server, oracle, run, text};
use resp::Value;

const NO_KEY: &str = "(error) NOPERM No permissions to access a key";
const NO_CHANNEL: &str = "(error) NOPERM No permissions to access a channel";

/// A client that acts as `name`, who needs no password.
fn client_of(server: &Server, name: &str) -> Client {
    let mut client = server.client();
    check(&mut client, &format!("AUTH {name} x"), "OK");
    client
}

/// Makes, or changes, a user.
#[track_caller]
fn set(admin: &mut Client, rules: &str) {
    check(admin, &format!("ACL SETUSER {rules}"), "OK");
}

#[test]
fn changed_rules_hold_from_the_reply_on() {
    on_each_server(|server| {
        let admin = &mut server.client();
        set(admin, "x on nopass ~a +@all");
        let mut clients: Vec<Client> = (0..8).map(|_| client_of(server, "x")).collect();
        for round in 0..20 {
            set(admin, "x resetkeys");
            for client in &mut clients {
                check(client, &format!("SET a {round}"), NO_KEY);
            }
            set(admin, "x ~a");
            for client in &mut clients {
                check(client, &format!("SET a {round}"), "OK");
            }
        }
        check(admin, "GET a", "\"19\"");
        // The default user, too, and with a pipeline of plain commands on its way.
        let other = &mut server.client();
        set(admin, "default -get");
        let denied = "(error) NOPERM User default has no permissions to run the 'get' command";
        other.send_bytes(&b"GET a\r\nSET a 5\r\n".repeat(50));
        for _ in 0..50 {
            assert_eq!(other.receive().to_string(), denied);
            assert_eq!(other.receive().to_string(), "OK");
        }
        set(admin, "default +get");
        check(other, "GET a", "\"5\"");
        // And for what the same client has sent behind the change.
        admin.send_bytes(b"ACL SETUSER default -get\r\nGET a\r\nACL SETUSER default +get\r\nGET a\r\n");
        let replies: Vec<String> = (0..4).map(|_| admin.receive().to_string()).collect();
        assert_eq!(replies, ["OK", denied, "OK", "\"5\""]);
    });
}

#[test]
fn who_may_do_everything_from_now_on_may_sort_by_other_keys() {
    on_each_server(|server| {
        let admin = &mut server.client();
        set(admin, "x on nopass ~a +@all");
        let client = &mut client_of(server, "x");
        check(client, "RPUSH a 2 1", "(integer) 2");
        let refused = "(error) ERR BY option of SORT denied due to insufficient ACL permissions.";
        check(client, "SORT a BY w_*", refused);
        set(admin, "x ~* &*");
        check(client, "SORT a BY w_*", "1) \"1\"\n2) \"2\"");
    });
}

#[test]
fn clients_of_removed_users_are_disconnected() {
    on_each_server(|server| {
        let admin = &mut server.client();
        for name in ["x", "y"] {
            set(admin, &format!("{name} on nopass ~* &* +@all"));
        }
        let mut gone: Vec<Client> = (0..6).map(|_| client_of(server, "x")).collect();
        gone[0].send("SUBSCRIBE a");
        gone[0].receive();
        gone[1].send("BLPOP nothing 0");
        check(&mut gone[2], "MULTI", "OK");
        let stays = &mut client_of(server, "y");
        check(admin, "ACL DELUSER x nobody", "(integer) 1");
        for client in &mut gone {
            client.expect_end();
        }
        check(admin, "AUTH x x", "(error) WRONGPASS invalid username-password pair or user is disabled.");
        check(stays, "ACL WHOAMI", "\"y\"");
        // A user that deletes itself gets the reply, and nothing after it.
        stays.send("ACL DELUSER y");
        stays.send("SET late 1");
        assert_eq!(stays.receive().to_string(), "(integer) 1");
        stays.expect_end();
        check(admin, "EXISTS late", "(integer) 0");
        // A new user of the same name is a different user.
        set(admin, "x on nopass +ping");
        let old = &mut client_of(server, "x");
        admin.send_bytes(b"ACL DELUSER x\r\nACL SETUSER x on nopass +ping\r\n");
        assert_eq!((admin.receive(), admin.receive()), (Value::Int(1), Value::Simple(b"OK".into())));
        old.expect_end();
    });
}

#[test]
fn subscriptions_end_with_the_permission() {
    on_each_server(|server| {
        let admin = &mut server.client();
        set(admin, "x on nopass resetchannels &a &p* +@all");
        let subscribers = ["SUBSCRIBE a", "SUBSCRIBE pa", "PSUBSCRIBE p*", "SSUBSCRIBE pb"];
        let mut clients: Vec<Client> = subscribers
            .iter()
            .map(|line| {
                let mut client = client_of(server, "x");
                check(&mut client, "SUBSCRIBE b", NO_CHANNEL);
                check(&mut client, "PSUBSCRIBE pa*", NO_CHANNEL);
                client.send(line);
                client.receive();
                client
            })
            .collect();
        // More is allowed, or the same by another selector: all stay.
        set(admin, "x &b");
        set(admin, "x resetchannels &a (&p* &b)");
        check(admin, "PUBLISH a m", "(integer) 1");
        clients[0].receive();
        set(admin, "x resetchannels clearselectors &a &pa");
        admin.call("PUBLISH a m");
        admin.call("PUBLISH pa m");
        admin.call("SPUBLISH pb m");
        for client in &mut clients[..2] {
            client.receive();
        }
        for client in &mut clients[2..] {
            client.expect_end();
        }
    });
}

#[test]
fn who_waits_for_what_is_forbidden_now_is_told() {
    on_each_server(|server| {
        let admin = &mut server.client();
        set(admin, "x on nopass ~a ~b +@all");
        let clients = &mut [client_of(server, "x"), client_of(server, "x")];
        clients[0].send("BLPOP a 0");
        clients[1].send("BLPOP b 0");
        eventually("both wait", || admin.info("clients", "blocked_clients") == "2");
        set(admin, "x resetkeys ~b");
        assert_eq!(clients[0].receive().to_string(), NO_KEY);
        check(admin, "LPUSH a 1", "(integer) 1");
        check(admin, "LPUSH b 1", "(integer) 1");
        assert_eq!(clients[1].receive().to_string(), "1) \"b\"\n2) \"1\"");
        check(admin, "LLEN a", "(integer) 1");
        check(&mut clients[0], "LPUSH b 2", "(integer) 1");
        // An element pushed right after the change is not given to the waiting client.
        for _ in 0..20 {
            set(admin, "x ~c");
            clients[0].send("BLPOP c 0");
            eventually("it waits", || admin.info("clients", "blocked_clients") == "1");
            admin.send_bytes(b"ACL SETUSER x resetkeys ~b\r\nRPUSH c 1\r\n");
            assert_eq!((admin.receive(), admin.receive()), (Value::Simple(b"OK".into()), Value::Int(1)));
            assert_eq!(clients[0].receive().to_string(), NO_KEY);
            eventually("it is put back", || admin.show("LPOP c") == "\"1\"");
        }
    });
}

#[test]
fn rules_that_change_within_a_transaction_hold_in_it() {
    let server = Server::start(2, "auto", &[]);
    let (admin, client) = (&mut server.client(), &mut server.client());
    set(admin, "x on nopass ~a +@all &c");
    check(client, "AUTH x x", "OK");
    for line in ["MULTI", "SET a 1", "PUBLISH c m", "DEL a"] {
        client.call(line);
    }
    set(admin, "x resetkeys resetchannels -del");
    let reason = |what| {
        format!(
            "(error) NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
             This command is no longer allowed for the following reason: {what}"
        )
    };
    let expected = [
        reason("no permission to touch the specified keys"),
        reason("no permission to access one of the channels used as argument to the command"),
        reason("no permission to execute the command or subcommand"),
    ];
    let Value::Array(replies) = client.call("EXEC") else { panic!("no array") };
    assert_eq!(replies.iter().map(Value::to_string).collect::<Vec<_>>(), expected);
    set(admin, "x ~a");
    for line in ["MULTI", "ACL SETUSER x resetkeys", "GET a"] {
        client.call(line);
    }
    assert_eq!(client.show("EXEC"), format!("1) OK\n2) {}", expected[0]));
}

/// The fields of an entry of the log.
fn fields(entry: &Value) -> Vec<(String, Value)> {
    let Value::Array(items) = entry else { panic!("{entry}") };
    items.chunks(2).map(|pair| (text(&pair[0]), pair[1].clone())).collect()
}

#[test]
fn what_is_denied_is_logged_by_all_threads() {
    on_each_server(|server| {
        let admin = &mut server.client();
        set(admin, "x on >p ~a &c +get +eval +multi +publish");
        for number in 0..4 {
            let client = &mut server.client();
            check(client, "AUTH x p", "OK");
            check(client, "GET b", NO_KEY);
            check(client, "PUBLISH d m", NO_CHANNEL);
            client.call("CONFIG GET port");
            client.call("EVAL \"return redis.pcall('GET', 'b')\" 0");
            client.call("MULTI");
            client.call("GET b");
            check(client, "AUTH x q", "QUEUED");
            let other = &mut server.client();
            other.call("auth y q");
            other.call(&format!("HELLO 3 AUTH x q{number}"));
        }
        let Value::Array(entries) = admin.call("ACL LOG") else { panic!("no array") };
        let shown: Vec<String> = entries
            .iter()
            .map(|entry| {
                let fields = fields(entry);
                let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
                assert_eq!(
                    names,
                    [
                        "count",
                        "reason",
                        "context",
                        "object",
                        "username",
                        "age-seconds",
                        "client-info",
                        "entry-id",
                        "timestamp-created",
                        "timestamp-last-updated"
                    ]
                );
                let info = text(&fields[6].1);
                assert!(info.starts_with("id=") && info.contains(" user="), "{info}");
                let words: Vec<String> = fields[1..5].iter().map(|(_, value)| text(value)).collect();
                format!("{} {}", fields[0].1, words.join(" "))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "(integer) 4 auth toplevel HELLO x",
                "(integer) 4 auth toplevel auth y",
                "(integer) 4 key multi b x",
                "(integer) 4 key lua b x",
                "(integer) 4 command toplevel config|get x",
                "(integer) 4 channel toplevel d x",
                "(integer) 4 key toplevel b x",
            ]
        );
        let info = text(&fields(&entries[3])[6].1);
        assert!(info.contains(" cmd=eval user=x "), "of a script its caller is logged: {info}");
        assert!(matches!(&admin.call("ACL LOG 2"), Value::Array(entries) if entries.len() == 2));
        for (field, expected) in [("auth", "8"), ("cmd", "4"), ("key", "12"), ("channel", "4")] {
            assert_eq!(admin.info("stats", &format!("acl_access_denied_{field}")), expected);
        }
        check(admin, "CONFIG SET acllog-max-len 1", "OK");
        check(admin, "AUTH z z", "(error) WRONGPASS invalid username-password pair or user is disabled.");
        assert!(matches!(&admin.call("ACL LOG"), Value::Array(entries) if entries.len() == 1));
        check(admin, "ACL LOG RESET", "OK");
        check(admin, "ACL LOG", "(empty array)");
    });
}

#[test]
fn scripts_of_restricted_users_see_their_user_wherever_the_keys_lie() {
    for options in [&["--shard-entry=home"][..], &[]] {
        let server = Server::start(4, "epoll", options);
        let (admin, client) = (&mut server.client(), &mut server.client());
        set(admin, "x on nopass ~a* +@all -del");
        check(client, "AUTH x x", "OK");
        let library = "#!lua name=l\nredis.register_function('f', function(KEYS) redis.call('SET', KEYS[1], 1) \
                       return redis.pcall('DEL', KEYS[1]) end)";
        admin.send_args(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
        assert_eq!(text(&admin.receive()), "l");
        let expected =
            "(error) NOPERM ACL failure in script: User x has no permissions to run the 'del' command";
        for number in 0..50 {
            let script = "redis.call('SET', KEYS[1], 1) return redis.pcall('DEL', KEYS[1])";
            for call in [format!("EVAL \"{script}\""), "FCALL f".to_owned()] {
                check(client, &format!("{call} 1 a{number}"), expected);
                check(admin, &format!("{call} 1 b{number}"), "(integer) 1");
            }
        }
        check(admin, "DBSIZE", "(integer) 50");
    }
}

#[test]
fn every_key_that_may_be_the_target_must_be_allowed() {
    let server = Server::start(2, "auto", &[]);
    let (admin, client) = (&mut server.client(), &mut server.client());
    set(admin, "x on nopass ~g ~t +@all");
    check(client, "AUTH x x", "OK");
    check(client, "GEOADD g 1 1 a", "(integer) 1");
    check(client, "GEORADIUS g 1 1 9 km STORE t", "(integer) 1");
    for line in ["STORE t STORE u", "STORE u STORE t", "STOREDIST t STORE u"] {
        check(client, &format!("GEORADIUS g 1 1 9 km {line}"), NO_KEY);
    }
}

#[test]
fn users_are_shown_and_found_among_clients() {
    let server = Server::start(2, "auto", &[]);
    let admin = &mut server.client();
    set(admin, "x on nopass +@all");
    let clients = &mut [client_of(&server, "x"), client_of(&server, "x")];
    let ids = [clients[0].id(), clients[1].id()];
    assert_eq!(admin.field_of(ids[1], "user"), "x");
    let own = admin.id();
    assert_eq!(admin.field_of(own, "user"), "default");
    // MONITOR hides administrative commands.
    let monitor = &mut server.client();
    check(monitor, "MONITOR", "OK");
    check(admin, "ACL SETUSER y >secret", "OK");
    check(admin, "PING", "PONG");
    assert!(text(&monitor.receive()).ends_with("\"PING\""));
    check(admin, "CONFIG SET slowlog-log-slower-than 0", "OK");
    check(admin, "ACL SETUSER y >secret", "OK");
    let slow = admin.show("SLOWLOG GET 1");
    assert!(slow.contains("\"(redacted)\"") && !slow.contains("secret"), "{slow}");
    for command in [
        "HELLO 2 SETNAME auth AUTH nobody secret",
        "MIGRATE 127.0.0.1 1 none 0 100 AUTH secret",
        "MIGRATE 127.0.0.1 1 none 0 100 COPY AUTH2 secret secret",
        "CONFIG SET primaryauth secret",
        "CONFIG SET masteruser secret",
        // Misspelt settings, and commands that another user could run.
        "CONFIG SET requirepas secret",
        "ACL DRYRUN x AUTH secret",
    ] {
        admin.call(command);
        let slow = admin.show("SLOWLOG GET 1");
        assert!(slow.contains("\"(redacted)\"") && !slow.contains("secret"), "{command}: {slow}");
    }
    check(admin, "CLIENT KILL USER x", "(integer) 2");
    for client in clients {
        client.expect_end();
    }
}

#[test]
fn the_password_of_the_default_user_is_a_setting() {
    let server = Server::start(2, "auto", &["--requirepass", "one"]);
    let (admin, client) = (&mut server.client(), &mut server.client());
    let no_auth = "(error) NOAUTH Authentication required.";
    let wrong = "(error) WRONGPASS invalid username-password pair or user is disabled.";
    check(client, "PING", no_auth);
    check(client, "AUTH two", wrong);
    check(admin, "AUTH one", "OK");
    assert!(admin.show("ACL LIST").starts_with("1) \"user default on sanitize-payload #7692c3ad"));
    check(admin, "CONFIG SET requirepass two", "OK");
    check(admin, "PING", "PONG");
    check(client, "AUTH default one", wrong);
    check(client, "AUTH default two", "OK");
    // A client that has not authenticated is served once no password is needed, and not when one is needed again.
    let late = &mut server.client();
    check(late, "PING", no_auth);
    check(admin, "CONFIG SET requirepass \"\"", "OK");
    check(late, "PING", "PONG");
    check(admin, "ACL LIST", "1) \"user default on nopass sanitize-payload ~* &* +@all\"");
    check(admin, "ACL SETUSER default off", "OK");
    check(late, "PING", no_auth);
    check(admin, "PING", "PONG");
    check(late, "AUTH default x", wrong);
    check(late, "QUIT", "OK");
}

#[test]
fn files_of_users_are_taken_whole_or_not_at_all() {
    let scratch = Scratch::new("aclfile");
    let path =
        scratch.file("users.acl", "\nuser x on nopass ~a* +get\nuser default on nopass ~* &* +@all\n\n");
    let server = Server::start(2, "auto", &["--aclfile", &path]);
    let admin = &mut server.client();
    let list = "1) \"user default on nopass sanitize-payload ~* &* +@all\"\n\
                2) \"user x on nopass sanitize-payload ~a* resetchannels -@all +get\"";
    check(admin, "ACL LIST", list);
    let client = &mut client_of(&server, "x");
    scratch.file(
        "users.acl",
        "user x on nopass\nuser y +nope &c\nusers\nuser x\nuser z (+get ~a\nuser v foo bar",
    );
    check(
        admin,
        "ACL LOAD",
        &format!(
            "(error) ERR {path}:2: Error in applying operation '+nope': Unknown command or category name in ACL. \
             {path}:3 should start with user keyword followed by the username. WARNING: Duplicate user 'x' found on \
             line 4. {path}:5: Unmatched parenthesis in selector definition.{path}:6: Syntax error. WARNING: ACL \
             errors detected, no change to the previously active ACL rules was performed"
        ),
    );
    check(admin, "ACL LIST", list);
    check(client, "GET a", "(nil)");
    set(admin, "y on >p (%R~b +get)");
    set(admin, "default -debug");
    check(admin, "ACL SAVE", "OK");
    let saved = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        saved,
        "user default on nopass sanitize-payload ~* &* +@all -debug\n\
         user x on nopass sanitize-payload ~a* resetchannels -@all +get\n\
         user y on sanitize-payload #148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 resetchannels \
         -@all (%R~b resetchannels -@all +get)\n"
    );
    set(admin, "z on");
    check(admin, "ACL LOAD", "OK");
    check(admin, "ACL USERS", "1) \"default\"\n2) \"x\"\n3) \"y\"");
    // Users of a file are others than those before: only clients of the default one stay.
    client.expect_end();
    check(admin, "DEBUG JMAP", "(error) NOPERM User default has no permissions to run the 'debug' command");
    std::fs::remove_file(&path).unwrap();
    check(
        admin,
        "ACL LOAD",
        &format!("(error) ERR Error loading ACLs, opening file '{path}': No such file or directory"),
    );
    check(
        admin,
        "CONFIG SET aclfile x",
        "(error) ERR CONFIG SET failed (possibly related to argument 'aclfile') - can't set immutable config",
    );
}

#[test]
fn users_of_the_configuration_are_rewritten() {
    let scratch = Scratch::new("acl");
    let path = scratch
        .file("redis.conf", "user x on >p ~a +get\nuser default on nopass +@all (~b &* +@all)\ntimeout 0\n");
    let server = Server::start(2, "auto", &[&path, "--dir", &scratch.path("")]);
    let admin = &mut server.client();
    check(admin, "GET b", "(nil)");
    check(admin, "GET a", NO_KEY);
    set(admin, "y %W~a\u{e9} &b");
    check(admin, "CONFIG REWRITE", "OK");
    let text = std::fs::read_to_string(&path).unwrap();
    let (users, added) = text.split_once("# Generated by CONFIG REWRITE\n").expect("settings were added");
    assert!(!added.contains("user"), "{added}");
    assert_eq!(
        users,
        "user default on nopass sanitize-payload resetchannels +@all (~b &* +@all)\n\
         user x on sanitize-payload \"#148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940\" ~a \
         resetchannels -@all +get\nuser y off sanitize-payload \"%W~a\u{e9}\" resetchannels &b -@all\ntimeout 0\n"
    );
    let list = admin.show("ACL LIST");
    drop(server);
    let server = Server::start(2, "auto", &[&path, "--dir", &scratch.path("")]);
    check(&mut server.client(), "ACL LIST", &list);
}

#[test]
fn wrong_users_keep_the_server_from_starting() {
    let scratch = Scratch::new("wrong-users");
    let file = scratch.file("users.acl", "user x on\nuser y foo\n");
    let missing = scratch.path("missing.acl");
    for (conf, expected) in [
        ("user x +nope", "bad user 'x' in {conf}, line 1: '+nope': Unknown command or category name in ACL"),
        (
            "\nuser x #secret",
            "bad user 'x' in {conf}, line 2: The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
        ),
        ("user x on\nuser x off", "bad user 'x' in {conf}, line 2: a user can only be defined once"),
        ("user x (+get", "bad user 'x' in {conf}, line 1: unmatched parenthesis at '(+get'"),
        ("user \"x y\" on", "bad user 'x …' in {conf}, line 1: names cannot contain spaces"),
        ("user", "bad user '' in {conf}, line 1: a name is missing"),
        (
            "user x on\naclfile {file}",
            "users are declared both in the configuration and in the aclfile: use only one of them",
        ),
        (
            "aclfile {file}",
            "cannot load the aclfile: {file}:2: Syntax error. WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
        ),
        (
            "aclfile {missing}",
            "cannot load the aclfile: Error loading ACLs, opening file '{missing}': No such file or directory",
        ),
    ] {
        let filled = |text: &str, conf: &str| {
            text.replace("{conf}", conf).replace("{file}", &file).replace("{missing}", &missing)
        };
        let path = scratch.file("redis.conf", &filled(conf, ""));
        let output = run(&[], &[&path, "--port", "0"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(errors.trim_end(), format!("darter: {}", filled(expected, &path)), "{conf}");
        assert_eq!(output.status.code(), Some(1));
    }
    // Both are accepted where there is nothing wrong with them.
    let started = Server::darter(&["--user", "x", "on", "nopass", "--acl-pubsub-default", "allchannels"]);
    let server = started.unwrap_or_else(|error: StartError| panic!("{error}"));
    check(
        &mut server.client(),
        "ACL LIST",
        "1) \"user default on nopass sanitize-payload ~* &* +@all\"\n2) \"user x on nopass sanitize-payload &* -@all\"",
    );
}

#[test]
fn the_log_has_the_client_with_the_command_that_was_denied() {
    on_each_server(|server| {
        let (admin, client) = (&mut server.client(), &mut server.client());
        check(admin, "ACL SETUSER tenant on nopass ~a* +@all -getdel", "OK");
        check(client, "AUTH tenant x", "OK");
        for (line, cmd) in [
            ("GETDEL a", "cmd=getdel "),
            ("STRLEN b", "cmd=strlen "),
            ("EVAL \"return redis.pcall('set', 'b', 1)\" 0", "cmd=eval "),
            ("AUTH tenant2 x", "cmd=auth "),
        ] {
            check(client, "STRLEN a", "(integer) 0");
            assert!(client.show(line).contains("(error) "), "{line}");
            let log = admin.show("ACL LOG 1");
            assert!(log.contains(cmd), "{line}: {log}");
        }
    });
}

#[test]
fn an_option_of_sort_takes_what_follows_it_whatever_it_is_called() {
    let mut servers: Vec<Server> = vec![Server::start(2, "auto", &[])];
    servers.extend(oracle());
    for server in &servers {
        let client = &mut server.client();
        check(client, "ACL SETUSER tenant on nopass ~a* +@all", "OK");
        check(client, "RPUSH a 2 1", "(integer) 2");
        check(client, "AUTH tenant x", "OK");
        check(client, "SORT a BY STORE LIMIT 0 1", "1) \"2\"");
        check(client, "SORT a BY STORE STORE ab", "(integer) 2");
        assert!(client.show("SORT a BY STORE STORE b").starts_with("(error) NOPERM"), "{}", server.name());
        assert!(client.show("SORT a STORE ab STORE b").starts_with("(error) NOPERM"), "{}", server.name());
        check(client, "EXISTS ab", "(integer) 1");
    }
}
