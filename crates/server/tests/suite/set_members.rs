//! Members of sets that expire: without being read, after restarts, and on replicas.

use blackbox::replication::{expect_same, follow};
use blackbox::{Scratch, Server, check, eventually, on_each_server};

#[test]
fn expired_members_are_removed_in_the_background() {
    on_each_server(|server| {
        let client = &mut server.client();
        for index in 0..100 {
            let members: String = (0..20).map(|member| format!(" m{member}")).collect();
            client.call(&format!("SADD s{index}{members}"));
        }
        for index in 0..100 {
            let members: String = (0..15).map(|member| format!(" m{member}")).collect();
            client.call(&format!("SPEXPIRE s{index} 1 MEMBERS 15{members}"));
        }
        eventually("the members are removed", || client.info("stats", "expired_subkeys") == "1500");
        check(client, "SCARD s7", "(integer) 5");
        check(client, "DBSIZE", "(integer) 100");
        for index in 0..100 {
            client.call(&format!("SADDEX s{index} PX 1 MEMBERS 5 m15 m16 m17 m18 m19"));
        }
        eventually("the sets are gone", || client.show("DBSIZE") == "(integer) 0");
    });
}

#[test]
fn members_expire_after_a_restart_and_on_a_replica() {
    for options in [
        &["--snapshot-format", "rdb"][..],
        &["--snapshot-format", "darter"],
        &["--snapshot-format", "rdb", "--rdb-version", "10"],
        &["--appendonly", "yes", "--appendfsync", "always"],
    ] {
        let scratch = Scratch::new("set-members");
        let folder = scratch.path("");
        let options = [&["--dir", &folder, "--dbfilename", "dump.rdb"], options].concat();
        let server = Server::start(2, "auto", &options);
        let client = &mut server.client();
        let big: String = (0..30_000).map(|number| format!(" member:{number}")).collect();
        for line in [
            "SADD small a b c",
            "SPEXPIREAT small 33177117420123 MEMBERS 2 a b",
            "SPERSIST small MEMBERS 1 b",
            "SADDEX numbers PXAT 33177117420124 MEMBERS 3 1 2 3",
            &format!("SADD big{big}"),
            "SPEXPIREAT big 33177117420125 MEMBERS 2 member:7 member:29999",
            "SADD soon a b",
            "SPEXPIRE soon 200 MEMBERS 1 a",
        ] {
            client.call(line);
        }
        client.send("SHUTDOWN SAVE");
        client.expect_end();
        drop(server);
        let server = Server::start(2, "auto", &options);
        let client = &mut server.client();
        check(
            client,
            "SPEXPIRETIME small MEMBERS 3 a b c",
            "1) (integer) 33177117420123\n2) (integer) -1\n3) (integer) -1",
        );
        check(client, "SPEXPIRETIME numbers MEMBERS 2 1 4", "1) (integer) 33177117420124\n2) (integer) -2");
        check(
            client,
            "SPEXPIRETIME big MEMBERS 3 member:7 member:8 member:29999",
            "1) (integer) 33177117420125\n2) (integer) -1\n3) (integer) 33177117420125",
        );
        check(client, "SCARD big", "(integer) 30000");
        eventually("it expires", || client.show("SMEMBERS soon") == "1) \"b\"");
        let replica = Server::start(2, "auto", &[]);
        follow(&replica, &server);
        let theirs = &mut replica.client();
        eventually("it follows", || theirs.show("SCARD big") == "(integer) 30000");
        client.call("SEXPIRE small 9000 MEMBERS 1 c");
        expect_same(&replica, &server);
        let times = "SPEXPIRETIME small MEMBERS 2 a c";
        eventually("it expires there, too", || theirs.show(times) == client.show(times));
        // A member that expires there is not seen there before its removal has come.
        client.call("SADDEX gone PX 1 MEMBERS 1 a");
        eventually("it is gone", || theirs.show("EXISTS gone") == "(integer) 0");
    }
}
