//! Clients that asked for notices of handovers (`CLIENT MAINT_NOTIFICATIONS`) or can be redirected (`CLIENT CAPA`), while
//! two servers change places.
//!
//! The clients here do what the libraries do that know notices; `gates/handover` has the libraries themselves.

use blackbox::replication::{follow, is_up};
use blackbox::{Client, Server, Signal, check, eventually, text};
use resp::Value;

const OPTIONS: [&str; 2] = ["--repl-diskless-sync-delay", "0"];
const ON: &str = "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip";

/// Two servers, of which the second follows the first.
fn pair(more: &[&str]) -> [Server; 2] {
    let servers = [3, 2].map(|threads| Server::start(threads, "auto", &[&OPTIONS, more].concat()));
    follow(&servers[1], &servers[0]);
    eventually("it follows", || is_up(&servers[1]));
    servers
}

/// A client that speaks RESP3 and has said `line`.
fn client(server: &Server, line: &str) -> Client {
    let mut client = server.client();
    client.call("HELLO 3");
    check(&mut client, line, "OK");
    client
}

/// The words of a notice.
fn words(notice: &Value) -> Vec<String> {
    let Value::Push(items) = notice else { panic!("no notice: {notice}") };
    let word = |item: &Value| match item {
        Value::Int(number) => number.to_string(),
        Value::Null => "null".to_owned(),
        other => text(other),
    };
    items.iter().map(word).collect()
}

/// Waits for a notice of this kind, and returns what it says beside its number.
fn expect_notice(client: &mut Client, kind: &str) -> Vec<String> {
    let words = words(&client.receive());
    assert_eq!(words[0], kind, "{words:?}");
    words[2..].to_vec()
}

fn begin(primary: &Server, replica: &Server) {
    let order = format!("FAILOVER TO 127.0.0.1 {}", replica.port());
    check(&mut primary.client(), &order, "OK");
}

fn expect_changed(primary: &Server, replica: &Server) {
    eventually("they have changed places", || {
        primary.client().info("replication", "role") == "slave" && is_up(primary)
    });
    assert_eq!(replica.client().info("replication", "role"), "master");
}

/// Clients are told before anything is held, a blocking pop ends, and those who come early find what they write.
#[test]
fn clients_leave_before_writes_are_held() {
    for more in [&[][..], &["--repl-sync-replicas", "1"]] {
        let [first, second] = pair(more);
        let endpoint = format!("127.0.0.1:{}", second.port());
        let (mut mover, mut popper) = (client(&first, ON), client(&first, ON));
        popper.send("BRPOP none 0");
        eventually("it waits", || first.client().info("clients", "blocked_clients") == "1");
        begin(&first, &second);
        for told in [&mut mover, &mut popper] {
            assert_eq!(expect_notice(told, "FAILING_OVER"), ["10", "1"]);
            assert_eq!(expect_notice(told, "MOVING"), ["10", &endpoint]);
        }
        assert_eq!(popper.receive(), Value::Null, "the reply of a timeout");
        drop(popper);
        // It comes while the other server leads.
        let mut early = client(&second, ON);
        early.send_bytes(b"*2\r\n$4\r\nINCR\r\n$7\r\ncounter\r\n*2\r\n$3\r\nGET\r\n$7\r\ncounter\r\n");
        drop(mover);
        assert_eq!(early.receive(), Value::Int(1));
        assert_eq!(text(&early.receive()), "1");
        expect_changed(&first, &second);
    }
}

/// Clients that do not leave are disconnected when they would be refused; reads are served.
#[test]
fn who_stays_is_disconnected_rather_than_refused() {
    let [first, second] = pair(&[]);
    let mut staying = client(&first, ON);
    begin(&first, &second);
    expect_changed(&first, &second);
    // It was silent, so nothing waited for it. One that comes later is told with its first write.
    let mut late = client(&first, ON);
    for kind in ["FAILING_OVER", "MOVING", "FAILED_OVER"] {
        expect_notice(&mut staying, kind);
    }
    for told in [&mut staying, &mut late] {
        assert_eq!(told.call("GET counter"), Value::Null);
        told.send("INCR counter");
    }
    assert_eq!(expect_notice(&mut late, "MOVING")[1], format!("127.0.0.1:{}", second.port()));
    staying.expect_end();
    late.expect_end();
    check(&mut second.client(), "GET counter", "(nil)");
    // Clients that know no notices are refused as ever.
    let refused = "(error) READONLY You can't write against a read only replica.";
    check(&mut first.client(), "INCR counter", refused);
}

/// `none`: the client connects again to what it knows. It is told when that is the other server's turn.
#[test]
fn where_a_name_moves_clients_are_told_no_address() {
    let [first, second] = pair(&["--maint-notifications-seconds", "4"]);
    let mut nameless = client(&first, "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none");
    begin(&first, &second);
    assert_eq!(expect_notice(&mut nameless, "FAILING_OVER"), ["4", "1"]);
    assert_eq!(expect_notice(&mut nameless, "MOVING"), ["4", "null"]);
    assert_eq!(expect_notice(&mut nameless, "FAILED_OVER"), ["1"]);
    expect_changed(&first, &second);
    let set = "CONFIG SET maint-notifications-endpoint";
    check(&mut second.client(), &format!("{set} none"), "OK");
    let mut addressed = client(&second, ON);
    begin(&second, &first);
    // Libraries that asked for an address fail without one.
    assert_eq!(expect_notice(&mut addressed, "FAILING_OVER"), ["4", "1"]);
    assert_eq!(expect_notice(&mut addressed, "FAILED_OVER"), ["1"]);
    expect_changed(&second, &first);
    check(&mut first.client(), &format!("{set} jobs.example:7000"), "OK");
    let mut addressed = client(&first, ON);
    begin(&first, &second);
    assert_eq!(expect_notice(&mut addressed, "FAILING_OVER"), ["4", "1"]);
    assert_eq!(expect_notice(&mut addressed, "MOVING"), ["4", "jobs.example:7000"]);
}

/// A handover that is aborted: who has left is sent back, and nothing that was held there was done.
#[test]
fn who_came_early_is_sent_back_if_the_handover_is_aborted() {
    let [first, second] = pair(&[]);
    let back = format!("127.0.0.1:{}", first.port());
    loop {
        let (mut mover, mut operator) = (client(&first, ON), first.client());
        begin(&first, &second);
        expect_notice(&mut mover, "FAILING_OVER");
        expect_notice(&mut mover, "MOVING");
        let mut early = client(&second, ON);
        early.send("INCR counter");
        // From here on it cannot take over.
        second.signal(Signal::STOP);
        let is_in_time = operator.show("FAILOVER ABORT") == "OK";
        second.signal(Signal::CONT);
        if !is_in_time || operator.info("replication", "role") != "master" {
            // The machine is slow: it took over before it was stopped.
            assert_eq!(early.receive(), Value::Int(1));
            expect_changed(&first, &second);
            check(&mut second.client(), "DEL counter", "(integer) 1");
            begin(&second, &first);
            expect_changed(&second, &first);
            continue;
        }
        expect_notice(&mut mover, "FAILED_OVER");
        check(&mut mover, "INCR counter", "(integer) 1");
        assert_eq!(expect_notice(&mut early, "MOVING")[1], back);
        early.expect_end();
        return;
    }
}

#[test]
fn notices_end_with_off_and_reset_and_resp2() {
    let [first, second] = pair(&[]);
    let ends = ["CLIENT MAINT_NOTIFICATIONS OFF", "HELLO 2", "RESET"];
    let mut clients = ends.map(|end| {
        let mut client = client(&first, ON);
        client.call(end);
        client
    });
    begin(&first, &second);
    expect_changed(&first, &second);
    clients.iter_mut().for_each(|client| check(client, "ECHO hi", "\"hi\""));
}

/// A server that ends has nobody to send its clients to. It tells them to be patient.
#[test]
fn a_shutdown_is_told_and_so_is_its_end() {
    let [first, second] = pair(&["--shutdown-timeout", "600"]);
    let (mut told, mut operator) = (client(&first, ON), first.client());
    second.signal(Signal::STOP);
    check(&mut operator, "SET k 1", "OK");
    // It waits for its replica.
    operator.send("SHUTDOWN NOSAVE");
    assert_eq!(expect_notice(&mut told, "MIGRATING"), ["600", "1"]);
    eventually("it is aborted", || first.client().show("SHUTDOWN ABORT") == "OK");
    assert_eq!(expect_notice(&mut told, "MIGRATED"), ["1"]);
    check(&mut told, "GET k", "\"1\"");
    second.signal(Signal::CONT);
}

/// As in Valkey, except that the address is that of the announcement.
#[test]
fn a_replica_redirects_who_can_be_redirected() {
    let [first, second] = pair(&[]);
    let redirect = format!("(error) REDIRECT 127.0.0.1:{}", first.port());
    let mut client = second.client();
    let refused = "(error) ERR This instance has cluster support disabled";
    check(&mut client, "READONLY", refused);
    check(&mut client, "CLIENT CAPA something redirect", "OK");
    assert!(client.show("CLIENT INFO").contains(" capa=r"));
    for line in ["GET k", "SET k 1", "MULTI", "SET k 1"] {
        check(&mut client, line, if line == "MULTI" { "OK" } else { &redirect });
    }
    check(&mut client, "EXEC", "(error) EXECABORT Transaction discarded because of previous errors.");
    check(&mut client, "PING", "PONG");
    check(&mut client, "READONLY", "OK");
    check(&mut client, "GET k", "(nil)");
    check(&mut client, "SET k 1", &redirect);
    check(&mut client, "READWRITE", "OK");
    check(&mut client, "GET k", &redirect);
    check(&mut client, "RESET", "RESET");
    check(&mut client, "GET k", "(nil)");
    // A command of a transaction that began when this server led.
    let mut client = first.client();
    check(&mut client, "CLIENT CAPA REDIRECT", "OK");
    check(&mut client, "MULTI", "OK");
    check(&mut client, "SET k 1", "QUEUED");
    begin(&first, &second);
    expect_changed(&first, &second);
    let redirect = format!("(error) REDIRECT 127.0.0.1:{}", second.port());
    check(&mut client, "EXEC", &redirect);
    check(&mut client, "GET k", &redirect);
}

/// Between the two roles neither server would serve it.
#[test]
fn nobody_is_redirected_before_the_other_server_leads() {
    let [first, second] = pair(&[]);
    let mut operator = first.client();
    check(&mut operator, "SET k 1", "OK");
    second.signal(Signal::STOP);
    check(&mut operator, "SET k 2", "OK");
    let order = format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 100 FORCE", second.port());
    check(&mut operator, &order, "OK");
    eventually("it is under way", || {
        operator.info("replication", "master_failover_state") == "failover-in-progress"
    });
    let mut client = first.client();
    check(&mut client, "CLIENT CAPA redirect", "OK");
    client.send("SET k 3");
    eventually("it waits", || operator.info("clients", "blocked_clients") == "1");
    second.signal(Signal::CONT);
    assert_eq!(client.receive().to_string(), format!("(error) REDIRECT 127.0.0.1:{}", second.port()));
}
