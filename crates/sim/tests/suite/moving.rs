//! Connections go from thread to thread, and a question to all threads still reaches each client once.

use resp::Value;
use sim::{Client, ENTRIES, Setup, World, for_each_seed, request};

const CLIENTS: usize = 8;
const QUESTIONS: usize = 40;

/// Clients that are asked about, by id, and keep the threads busy.
struct Others(Vec<(i64, Client)>);

impl Others {
    fn connect(world: &mut World) -> (i64, Client) {
        let mut client = world.connect();
        match world.call(&mut client, &request("CLIENT", ["ID"])) {
            Value::Int(id) => (id, client),
            other => panic!("{other:?}"),
        }
    }

    fn step(&mut self, world: &mut World) {
        // Two do nothing: they can leave their thread at any time.
        for (_, client) in self.0.iter_mut().skip(2) {
            world.pump(client);
            while client.unanswered() < 3 {
                let key = format!("k{}", world.below(16));
                client.send(&request("INCR", [key]));
            }
            world.pump(client);
        }
        world.step();
    }

    /// Asks, while they go on.
    fn ask(&mut self, world: &mut World, asker: &mut Client, words: &[&str]) -> Value {
        asker.send(&request(words[0], &words[1..]));
        loop {
            if let Some(reply) = world.pump(asker).pop() {
                return reply;
            }
            self.step(world);
        }
    }
}

#[test]
fn each_client_is_asked_once() {
    let mut moves = 0;
    for_each_seed("moving", 40, |mut entropy| {
        let mut setup = Setup::any(&mut entropy);
        let entry = ENTRIES[entropy.below(3) as usize];
        setup = setup.with(3 + entropy.below(2), 4, entry);
        setup.interrupt_one_in = [2, 3, 10][entropy.below(3) as usize];
        setup.off_core_one_in = [0, 20, 100][entropy.below(3) as usize];
        let mut world = World::new(entropy, &setup);
        let mut asker = world.connect();
        let mut others = Others((0..CLIENTS).map(|_| Others::connect(&mut world)).collect());
        for _ in 0..QUESTIONS {
            let Value::Bulk(list) = others.ask(&mut world, &mut asker, &["CLIENT", "LIST"]) else {
                panic!("it is not a list")
            };
            let list = String::from_utf8(list).expect("a text");
            for (id, _) in &others.0 {
                let count = list.lines().filter(|line| line.starts_with(&format!("id={id} "))).count();
                assert_eq!(count, 1, "{id} of {list}");
            }
            let index = world.below(CLIENTS);
            let (id, victim) = others.0.remove(index);
            let killed = others.ask(&mut world, &mut asker, &["CLIENT", "KILL", "ID", &id.to_string()]);
            assert_eq!(killed, Value::Int(1), "{id}");
            drop(victim);
            others.0.insert(index, Others::connect(&mut world));
        }
        moves += world.server().moved();
    });
    println!("{moves} moves");
    assert!(moves > 0);
}

/// The end of a pause runs what was postponed. While that gives way, the thread answers the questions after it.
#[test]
fn questions_are_answered_in_order_while_what_was_postponed_runs() {
    for_each_seed("asked at the end of a pause", 60, |mut entropy| {
        let entry = ENTRIES[entropy.below(3) as usize];
        let setup = Setup::any(&mut entropy).with(2 + entropy.below(2), 4, entry);
        let mut world = World::new(entropy, &setup);
        let mut askers = [(); 2].map(|()| world.connect());
        let mut writers: Vec<Client> = (0..CLIENTS).map(|_| world.connect()).collect();
        for _ in 0..8 {
            world.call(&mut askers[0], &request("CLIENT", ["PAUSE", "1000000", "WRITE"]));
            for writer in &mut writers {
                writer.send(&request("MULTI", [""; 0]));
                (0..8).for_each(|key| writer.send(&request("INCR", [format!("k{key}")])));
                writer.send(&request("EXEC", [""; 0]));
            }
            world.run_for(5, |_| {});
            askers[0].send(&request("CLIENT", ["UNPAUSE"]));
            (0..4).for_each(|_| askers[1].send(&request("CLIENT", ["LIST"])));
            while askers.iter().chain(&writers).any(|client| client.unanswered() > 0) {
                askers.iter_mut().chain(&mut writers).for_each(|client| drop(world.pump(client)));
                world.step();
            }
        }
    });
}
