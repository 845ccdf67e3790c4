//! Connections: handshake, authentication, CLIENT, limits.

use std::io::Write;
use std::net::Shutdown;

use blackbox::{Client, Server, check, eventually, on_each_server, text};
use resp::Value;

#[test]
fn handshakes() {
    let server = Server::start(2, "auto", &[]);
    let client = &mut server.client();
    let id = client.id();
    check(client, "HELLO x", "(error) ERR Protocol version is not an integer or out of range");
    check(client, "HELLO 4", "(error) NOPROTO unsupported protocol version");
    check(client, "HELLO 3 foo", "(error) ERR Syntax error in HELLO option 'foo'");
    check(client, "HELLO 3 auth a", "(error) ERR Syntax error in HELLO option 'auth'");
    check(
        client,
        "HELLO 3 auth a b",
        "(error) WRONGPASS invalid username-password pair or user is disabled.",
    );
    check(
        client,
        r#"HELLO 3 SETNAME "a b""#,
        "(error) ERR Client names cannot contain spaces, newlines or special characters.",
    );
    let Value::Map(fields) = client.call("HELLO 3 AUTH default x SETNAME jobs") else { panic!("no map") };
    let names: Vec<String> = fields.iter().map(|(name, _)| text(name)).collect();
    assert_eq!(names, ["server", "version", "proto", "id", "mode", "role", "modules"]);
    assert_eq!((&fields[2].1, &fields[3].1), (&Value::Int(3), &Value::Int(id)));
    check(client, "CLIENT GETNAME", "\"jobs\"");
    check(client, "GET nothing", "(nil)");
    check(client, "RESET", "RESET");
    check(client, "CLIENT GETNAME", "(nil)");
    assert!(matches!(client.call("HELLO"), Value::Array(fields) if fields.len() == 14));
}

#[test]
fn one_user_without_password() {
    let server = Server::start(1, "auto", &[]);
    let client = &mut server.client();
    check(
        client,
        "AUTH x",
        "(error) ERR AUTH <password> called without any password configured for the default user. Are you sure \
         your configuration is correct?",
    );
    check(client, "AUTH default x", "OK");
    check(client, "AUTH other x", "(error) WRONGPASS invalid username-password pair or user is disabled.");
    check(client, "AUTH a b c", "(error) ERR syntax error");
}

#[test]
fn names_and_switches() {
    let server = Server::start(2, "epoll", &[]);
    let client = &mut server.client();
    let id = client.id();
    check(client, "CLIENT SETNAME worker-1", "OK");
    check(client, "CLIENT SETINFO lib-name redis-rb", "OK");
    check(client, "CLIENT SETINFO LIB-VER 5.0", "OK");
    check(client, "CLIENT SETINFO foo 5.0", "(error) ERR Unrecognized option 'foo'");
    check(
        client,
        r#"CLIENT SETINFO lib-name "a b""#,
        "(error) ERR lib-name cannot contain spaces, newlines or special characters.",
    );
    check(client, "CLIENT NO-EVICT ON", "OK");
    check(client, "CLIENT NO-TOUCH on", "OK");
    check(client, "CLIENT NO-TOUCH maybe", "(error) ERR syntax error");
    check(client, "SELECT 3", "OK");
    check(client, "WATCH a b", "OK");
    check(client, "MULTI", "OK");
    check(client, "PING", "QUEUED");
    let other = &mut server.client();
    for (field, expected) in [
        ("name", "worker-1"),
        ("lib-name", "redis-rb"),
        ("lib-ver", "5.0"),
        ("flags", "xeT"),
        ("db", "3"),
        ("watch", "2"),
        ("multi", "1"),
        ("cmd", "ping"),
        ("user", "default"),
        ("resp", "2"),
        ("events", "r"),
    ] {
        assert_eq!(other.field_of(id, field), expected, "{field}");
    }
    let address = client.stream().local_addr().unwrap().to_string();
    assert_eq!(other.field_of(id, "addr"), address);
    assert_eq!(other.field_of(id, "laddr"), format!("127.0.0.1:{}", server.port()));
    check(client, "EXEC", "1) PONG");
    let info = text(&client.call("CLIENT INFO"));
    assert!(
        info.contains(&format!("id={id} addr={address} ")) && info.contains(" cmd=client|info "),
        "{info}"
    );
    let names: Vec<&str> = info.split_whitespace().map(|field| field.split('=').next().unwrap()).collect();
    assert_eq!(
        names.join(" "),
        "id addr laddr fd name age idle flags db sub psub ssub multi watch qbuf qbuf-free argv-mem multi-mem rbs \
         rbp obl oll omem tot-mem events cmd user redir resp lib-name lib-ver"
    );
}

#[test]
fn settings_count_from_the_next_command_on() {
    // More clients than threads.
    let server = Server::start(2, "auto", &[]);
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for round in 0..200 {
        let (limit, encoding) = if round % 2 == 0 { (0, "hashtable") } else { (9, "listpack") };
        let setting = format!("CONFIG SET hash-max-listpack-entries {limit}\r\n");
        let looking = format!("DEL h{round}\r\nHSET h{round} f v\r\nOBJECT ENCODING h{round}\r\n");
        let (setter, reader) = (round % 4, round / 4 % 4);
        if setter == reader {
            clients[setter].stream().write_all(format!("{setting}{looking}").as_bytes()).unwrap();
            assert_eq!(clients[setter].receive().to_string(), "OK");
        } else {
            clients[setter].stream().write_all(setting.as_bytes()).unwrap();
            assert_eq!(clients[setter].receive().to_string(), "OK");
            clients[reader].stream().write_all(looking.as_bytes()).unwrap();
        }
        clients[reader].receive();
        clients[reader].receive();
        assert_eq!(clients[reader].receive().to_string(), format!("\"{encoding}\""));
    }
}

#[test]
fn lists_of_clients() {
    on_each_server(|server| {
        let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
        let ids: Vec<i64> = clients.iter_mut().map(Client::id).collect();
        let mut in_order = ids.clone();
        in_order.sort_unstable();
        let subscriber_id = clients[7].id();
        clients[7].call("SUBSCRIBE news");
        let client = &mut clients[0];
        let ids_of = |list: Value| -> Vec<i64> {
            let id = |line: &str| line.split(' ').next().and_then(|id| id.strip_prefix("id=")?.parse().ok());
            text(&list).lines().filter_map(id).collect()
        };
        assert_eq!(ids_of(client.call("CLIENT LIST")), in_order);
        assert_eq!(ids_of(client.call("CLIENT LIST TYPE pubsub")), [subscriber_id]);
        assert_eq!(ids_of(client.call("CLIENT LIST TYPE normal")).len(), 7);
        assert!(ids_of(client.call("CLIENT LIST TYPE replica")).is_empty());
        let line = format!("CLIENT LIST ID {} 99999 {}", ids[5], ids[2]);
        assert_eq!(ids_of(client.call(&line)), [ids[5], ids[2]]);
        check(client, "CLIENT LIST TYPE foo", "(error) ERR Unknown client type 'foo'");
        check(client, "CLIENT LIST ID x", "(error) ERR Invalid client ID");
        check(client, "CLIENT LIST ID", "(error) ERR syntax error");
    });
}

#[test]
fn clients_are_killed() {
    on_each_server(|server| {
        let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
        let ids: Vec<i64> = clients.iter_mut().map(Client::id).collect();
        let address = |client: &mut Client| client.stream().local_addr().unwrap().to_string();
        let (victim, blocked) = (address(&mut clients[1]), address(&mut clients[2]));
        clients[2].send("BLPOP nothing 0");
        clients[3].call("SUBSCRIBE news");
        let [client, rest @ ..] = &mut clients[..] else { unreachable!() };
        eventually("blocked", || client.field_of(ids[2], "flags") == "b");
        check(client, &format!("CLIENT KILL {victim}"), "OK");
        rest[0].expect_end();
        check(client, &format!("CLIENT KILL {victim}"), "(error) ERR No such client");
        check(client, &format!("CLIENT KILL ADDR {blocked} ID {}", ids[4]), "(integer) 0");
        check(client, &format!("CLIENT KILL ADDR {blocked}"), "(integer) 1");
        rest[1].expect_end();
        check(client, "CLIENT KILL TYPE pubsub SKIPME no", "(integer) 1");
        rest[2].expect_end();
        check(client, "PUBLISH news x", "(integer) 0");
        for (line, error) in [
            ("ID 0", "ERR client-id should be greater than 0"),
            ("ID x", "ERR client-id should be greater than 0"),
            ("TYPE foo", "ERR Unknown client type 'foo'"),
            ("USER foo", "ERR No such user 'foo'"),
            ("SKIPME maybe", "ERR syntax error"),
            ("ID 1 ADDR", "ERR syntax error"),
            ("FOO 1", "ERR syntax error"),
        ] {
            check(client, &format!("CLIENT KILL {line}"), &format!("(error) {error}"));
        }
        check(client, &format!("CLIENT KILL ID {}", ids[0]), "(integer) 0");
        check(client, "CLIENT KILL USER default", "(integer) 2");
        rest[3].expect_end();
        rest[4].expect_end();
        client.send("CLIENT KILL TYPE normal SKIPME no");
        client.send("PING");
        assert_eq!(client.receive(), Value::Int(1));
        client.expect_end();
    });
}

#[test]
fn blocked_clients_are_unblocked() {
    on_each_server(|server| {
        let client = &mut server.client();
        for _ in 0..4 {
            let blocked = &mut server.client();
            let id = blocked.id();
            check(client, &format!("CLIENT UNBLOCK {id}"), "(integer) 0");
            for (reason, expected) in [
                ("", "(nil)"),
                (" TIMEOUT", "(nil)"),
                (" ERROR", "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            ] {
                blocked.send("BLPOP q1 q2 0");
                blocked.send("PING");
                eventually("blocked", || client.field_of(id, "flags") == "b");
                check(client, &format!("CLIENT UNBLOCK {id}{reason}"), "(integer) 1");
                assert_eq!(blocked.receive().to_string(), expected);
                assert_eq!(blocked.receive().to_string(), "PONG");
            }
            // Nothing of the ended waits takes what comes now.
            check(client, "RPUSH q1 a", "(integer) 1");
            check(client, "LPOP q1", "\"a\"");
        }
        check(client, "CLIENT UNBLOCK x", "(error) ERR value is not an integer or out of range");
        check(client, "CLIENT UNBLOCK 1 x", "(error) ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    });
}

#[test]
fn replies_are_switched_off() {
    on_each_server(|server| {
        let client = &mut server.client();
        for line in ["CLIENT REPLY OFF", "SET a 1", "nonsense", "GET a", "MULTI", "GET a", "EXEC"] {
            client.send(line);
        }
        check(client, "CLIENT REPLY ON", "OK");
        for line in ["CLIENT REPLY SKIP", "SET a 2", "GET a"] {
            client.send(line);
        }
        assert_eq!(client.receive(), Value::Bulk(b"2".into()));
        client.send("CLIENT REPLY SKIP");
        client.send("nonsense");
        check(client, "GET a", "\"2\"");
        check(client, "CLIENT REPLY maybe", "(error) ERR syntax error");
        // Published messages, and the confirmations of subscriptions, are not suppressed.
        client.send("HELLO 3");
        client.receive();
        client.send("CLIENT REPLY OFF");
        client.send("SUBSCRIBE news");
        assert!(matches!(client.receive(), Value::Push(_)));
        check(&mut server.client(), "PUBLISH news x", "(integer) 1");
        assert!(matches!(client.receive(), Value::Push(_)));
        check(client, "CLIENT REPLY ON", "OK");
    });
}

#[test]
fn all_commands_are_paused() {
    on_each_server(|server| {
        let client = &mut server.client();
        check(client, "CLIENT PAUSE x", "(error) ERR timeout is not an integer or out of range");
        check(client, "CLIENT PAUSE -1", "(error) ERR timeout is negative");
        check(client, "CLIENT PAUSE 1 foo", "(error) ERR CLIENT PAUSE mode must be WRITE or ALL");
        check(client, "CLIENT PAUSE 9223372036854775807", "(error) ERR timeout is out of range");
        let mut others: Vec<Client> = (0..4).map(|_| server.client()).collect();
        others.iter_mut().for_each(|other| _ = other.id());
        let start = std::time::Instant::now();
        check(client, "CLIENT PAUSE 200", "OK");
        for other in &mut others {
            for line in ["INCR n", "PING", "INCR n"] {
                other.send(line);
            }
        }
        let mut counts = Vec::new();
        for other in &mut others {
            counts.push(other.show("INCR n"));
            assert_eq!(other.receive().to_string(), "PONG");
            other.receive();
            other.receive();
        }
        let elapsed = start.elapsed();
        assert!(elapsed >= std::time::Duration::from_millis(199), "{elapsed:?}");
        check(client, "GET n", "\"12\"");
    });
}

#[test]
fn writes_are_paused() {
    on_each_server(|server| {
        let (client, reader, writer) = (&mut server.client(), &mut server.client(), &mut server.client());
        let blocked = &mut server.client();
        let (blocked_id, writer_id) = (blocked.id(), writer.id());
        blocked.send("BLPOP nothing 0.05");
        eventually("taken up", || client.field_of(blocked_id, "cmd") == "blpop");
        check(client, "CLIENT PAUSE 100000 WRITE", "OK");
        check(reader, "GET n", "(nil)");
        check(reader, "MULTI", "OK");
        check(reader, "GET n", "QUEUED");
        check(reader, "EXEC", "1) (nil)");
        writer.send("PING");
        writer.send("SET n 1");
        writer.send("GET n");
        assert_eq!(writer.receive().to_string(), "PONG");
        eventually("postponed", || client.field_of(writer_id, "flags") == "b");
        check(client, &format!("CLIENT UNBLOCK {writer_id}"), "(integer) 0");
        check(reader, "GET n", "(nil)");
        assert_eq!(blocked.receive().to_string(), "(nil)");
        // A reader in a transaction that writes waits at EXEC.
        check(reader, "MULTI", "OK");
        reader.send("PUBLISH a b");
        check(client, "CLIENT UNPAUSE", "OK");
        assert_eq!(writer.receive().to_string(), "OK");
        assert_eq!(writer.receive().to_string(), "\"1\"");
        assert_eq!(reader.receive().to_string(), "QUEUED");
        check(reader, "EXEC", "1) (integer) 0");
        // A client that goes away while it waits leaves nothing behind.
        check(client, "CLIENT PAUSE 100000 WRITE", "OK");
        writer.send("SET n 2");
        eventually("postponed", || client.field_of(writer_id, "flags") == "b");
        writer.stream().shutdown(Shutdown::Both).unwrap();
        eventually("gone", || client.field_of(writer_id, "flags").is_empty());
        check(client, "CLIENT UNPAUSE", "OK");
        check(client, "GET n", "\"1\"");
    });
}

#[test]
fn scripts_are_paused_by_what_they_declare() {
    let library = "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function{function_name = 'reads', callback = function() \
        return 7 end, flags = {'no-writes'}}\\nredis.register_function('writes', function() return 8 end)\"";
    on_each_server(|server| {
        let (client, reader) = (&mut server.client(), &mut server.client());
        check(client, library, "\"lib\"");
        check(client, "CLIENT PAUSE 100000 WRITE", "OK");
        let reads = "EVAL \"#!lua flags=no-writes\\nreturn redis.call('GET', 'n')\" 1 n";
        check(reader, reads, "(nil)");
        check(reader, "EVAL_RO \"return 1\" 0", "(integer) 1");
        check(reader, "FCALL reads 0", "(integer) 7");
        check(reader, "MULTI", "OK");
        check(reader, reads, "QUEUED");
        check(reader, "EXEC", "1) (nil)");
        let writes = ["EVAL \"return 8\" 0", "EVAL \"#!lua\\nreturn 8\" 0", "FCALL writes 0"];
        let mut writers = writes.map(|line| {
            let mut writer = server.client();
            let id = writer.id();
            writer.send(line);
            eventually("postponed", || client.field_of(id, "flags") == "b");
            writer
        });
        check(client, "CLIENT UNPAUSE", "OK");
        writers.iter_mut().for_each(|writer| assert_eq!(writer.receive().to_string(), "(integer) 8"));
    });
}

#[test]
fn a_replica_cannot_read_or_write_data() {
    on_each_server(|server| {
        let (client, replica) = (&mut server.client(), &mut server.client());
        let id = replica.id();
        // Otherwise it is disconnected because of the reply.
        check(replica, "CLIENT REPLY ON", "OK");
        replica.send("CLIENT REPLY OFF");
        replica.send("PSYNC ? -1");
        for (line, name) in [("SET n 1", "set"), ("EVAL \"return redis.call('SET', 'n', 1)\" 0", "eval")] {
            replica.send(line);
            eventually("it was refused", || client.field_of(id, "cmd") == name);
            check(client, "EXISTS n", "(integer) 0");
        }
        replica.stream().shutdown(Shutdown::Both).unwrap();
        eventually("it is gone", || client.info("replication", "connected_slaves") == "0");
    });
}

#[test]
fn whoever_closes_his_sending_side_gets_his_replies() {
    on_each_server(|server| {
        for _ in 0..20 {
            let mut client = server.client();
            let count = 300;
            let mut requests = Vec::new();
            for number in 0..count {
                requests
                    .extend_from_slice(format!("SET key{number} {number}\r\nGET key{number}\r\n").as_bytes());
            }
            client.stream().write_all(&requests).unwrap();
            client.stream().shutdown(Shutdown::Write).unwrap();
            for number in 0..count {
                assert_eq!(client.receive().to_string(), "OK");
                assert_eq!(client.receive(), Value::Bulk(number.to_string().into_bytes()));
            }
            client.expect_end();
        }
    });
}

#[test]
fn input_of_a_waiting_client_is_left_in_its_socket() {
    let server = Server::start(2, "epoll", &[]);
    let (client, flooder) = (&mut server.client(), &mut server.client());
    let id = flooder.id();
    flooder.send("BLPOP nothing 0");
    eventually("blocked", || client.field_of(id, "flags") == "b");
    flooder.stream().set_nonblocking(true).unwrap();
    let chunk = b"PING\r\n".repeat(10_000);
    while flooder.stream().write(&chunk).is_ok() {}
    let kept: usize = client.field_of(id, "qbuf").parse().unwrap();
    assert!(kept <= 256 * 1024, "{kept}");
    check(client, &format!("CLIENT KILL ID {id}"), "(integer) 1");
}

#[test]
fn leaving() {
    let server = Server::start(2, "auto", &[]);
    let client = &mut server.client();
    client.send("QUIT");
    client.send("PING");
    assert_eq!(client.receive().to_string(), "OK");
    client.expect_end();
}

#[test]
fn clients_are_selected_by_what_the_list_shows_of_them() {
    let server = Server::start(2, "auto", &[]);
    let asker = &mut server.client();
    let mut others: Vec<_> = ["CLIENT SETNAME worker-1", "CLIENT SETINFO lib-name redis-rb", "SELECT 3"]
        .map(|line| {
            let mut client = server.client();
            check(&mut client, line, "OK");
            client
        })
        .into();
    check(&mut others[1], "CLIENT SETINFO lib-ver 5.0", "OK");
    check(&mut others[2], "CLIENT CAPA redirect", "OK");
    check(&mut others[2], "MULTI", "OK");
    let ids: Vec<i64> = others[..2].iter_mut().map(Client::id).collect();
    let own = asker.id();
    let id_of = |line: &str| line["id=".len()..].split(' ').next().unwrap().parse::<i64>().unwrap();
    let third = id_of(&text(&asker.call("CLIENT LIST DB 3")));
    let all = [own, ids[0], ids[1], third];
    for (filter, wanted) in [
        ("NAME worker-1", &[all[1]][..]),
        ("NOT-NAME worker-1", &[all[0], all[2], all[3]]),
        ("LIB-NAME redis-rb LIB-VER 5.0", &[all[2]]),
        ("LIB-NAME redis-rb LIB-VER 6.0", &[]),
        ("NOT-LIB-VER 5.0 SKIPME yes", &[all[1], all[3]]),
        ("DB 3", &[all[3]]),
        ("NOT-DB 0", &[all[3]]),
        ("CAPA r", &[all[3]]),
        ("NOT-CAPA r SKIPME yes", &[all[1], all[2]]),
        ("FLAGS x", &[all[3]]),
        ("FLAGS N SKIPME yes", &[all[1], all[2]]),
        ("NOT-FLAGS N", &[all[3]]),
        ("FLAGS xN", &[]),
        ("FLAGS x FLAGS N SKIPME yes", &[all[1], all[2]]),
        ("IP 127.0.0.1", &all),
        ("IP 127.0.0", &[]),
        ("NOT-IP 127.0.0.1", &[]),
        ("USER default NOT-TYPE pubsub", &all),
        ("NOT-USER default", &[]),
        ("MAXAGE 1000000", &[]),
        ("IDLE 1000000", &[]),
    ] {
        let reply = text(&asker.call(&format!("CLIENT LIST {filter}")));
        let mut shown: Vec<i64> = reply.lines().map(id_of).collect();
        shown.sort_unstable();
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        assert_eq!(shown, wanted, "{filter}");
    }
    let not_these = format!("CLIENT LIST NOT-ID {own} {} NOT-FLAGS x", ids[0]);
    assert!(text(&asker.call(&not_these)).starts_with(&format!("id={} ", ids[1])));
    check(asker, &format!("CLIENT KILL ID {} ID {} NOT-DB 3", ids[0], third), "(integer) 1");
    others[0].expect_end();
    check(asker, "CLIENT KILL FLAGS x", "(integer) 1");
    others[2].expect_end();
    check(asker, "CLIENT KILL LIB-NAME redis-rb NOT-NAME x", "(integer) 1");
    others[1].expect_end();
}
