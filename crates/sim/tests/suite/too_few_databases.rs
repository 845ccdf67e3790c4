//! A replica with fewer databases than its primary cannot have the same data. It says so once, and asks its primary for
//! a snapshot now and then, not each second. Writes of the primary to the databases that the replica has are not
//! applied to other databases.

use proactor::Entropy;
use resp::Value;
use sim::{Setup, Stage, World, for_each_seed, request};

struct Pair(World);

impl Stage for Pair {
    fn world(&mut self) -> &mut World {
        &mut self.0
    }

    fn step(&mut self) {
        self.0.step();
    }
}

impl Pair {
    fn new(mut entropy: Entropy) -> Pair {
        let mut setup = Setup::any(&mut entropy);
        setup.replicates = true;
        setup.more = vec!["--repl-diskless-sync-delay=0".to_owned()];
        let mut world = World::new(entropy, &setup);
        setup.more.push("--databases=2".to_owned());
        world.add(&setup);
        Pair(world)
    }

    fn set(&mut self, db: &str, key: &str) {
        let told = self.ask(0, &[request("SELECT", [db]), request("SET", [key, db])]);
        assert_eq!(told.map(|reply| reply.to_string()).as_deref(), Some("OK"));
    }

    fn keys(&mut self, db: &str) -> String {
        let told = self.ask(1, &[request("SELECT", [db]), request("DBSIZE", [] as [&str; 0])]);
        told.map(|reply| reply.to_string()).unwrap_or_default()
    }

    fn says(&mut self, number: usize, section: &str, name: &str) -> String {
        let told = self.ask(number, &[request("INFO", [section])]);
        let Some(reply @ Value::Bulk(_)) = told else { return String::new() };
        sim::facts(&reply).remove(name).unwrap_or_default()
    }
}

#[test]
fn a_replica_with_fewer_databases_neither_mixes_them_nor_asks_each_second() {
    for_each_seed("databases", 3, |entropy| {
        let mut pair = Pair::new(entropy);
        pair.set("1", "a");
        pair.follow(1, 0);
        pair.run_for(3_000);
        assert_eq!(pair.says(1, "replication", "master_link_status"), "up");
        pair.set("0", "b");
        // From here on the stream cannot be applied.
        pair.set("5", "c");
        pair.set("5", "d");
        pair.run_for(5_000);
        assert_eq!(pair.says(1, "replication", "master_link_status"), "down");
        assert_eq!([pair.keys("0"), pair.keys("1")], ["(integer) 1", "(integer) 1"]);
        let partial: u64 = pair.says(0, "stats", "sync_partial_ok").parse().expect("a number");
        pair.run_for(30_000);
        let later: u64 = pair.says(0, "stats", "sync_partial_ok").parse().expect("a number");
        assert!(later <= partial + 1, "{partial} {later}");
        // A snapshot of it neither.
        pair.ask(1, &[request("REPLICAOF", ["NO", "ONE"])]);
        pair.ask(1, &[request("SET", ["own", "1"])]);
        pair.follow(1, 0);
        pair.run_for(30_000);
        assert_eq!(pair.says(0, "stats", "sync_full"), "2");
        assert_eq!([pair.keys("0"), pair.keys("1")], ["(integer) 2", "(integer) 1"]);
        pair.run_for(50_000);
        assert_eq!(pair.says(0, "stats", "sync_full"), "3", "after a minute");
    });
}
