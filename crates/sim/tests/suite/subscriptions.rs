//! CLIENT LIST is truthful: if it shows that a client has unsubscribed, no more messages reach that client.

use resp::Value;
use sim::{Client, Setup, World, for_each_seed, request};

const ROUNDS: usize = 12;
const CHANNELS: [&str; 3] = ["a", "b", "c"];

/// All clients except the one that asks.
struct Others {
    subscriber: Client,
    /// Number of messages that arrived for the subscriber and were not looked at.
    confirmed: usize,
    /// Clients that keep the shards busy.
    noise: Vec<Client>,
}

impl Others {
    fn step(&mut self, world: &mut World) {
        for client in &mut self.noise {
            world.pump(client);
            while client.unanswered() < 6 {
                let key = format!("busy:{}", world.below(8));
                client.send(&request("INCR", [key]));
            }
            world.pump(client);
        }
        self.confirmed += world.pump(&mut self.subscriber).len();
        world.step();
    }

    /// Waits until the subscriber has a confirmation for each channel.
    fn wait_for_confirmations(&mut self, world: &mut World) {
        while self.confirmed < CHANNELS.len() {
            self.step(world);
        }
        self.confirmed = 0;
    }
}

/// A call, during which others keep the shards busy.
fn call(world: &mut World, client: &mut Client, others: &mut Others, words: &[&str]) -> Value {
    client.send(&request(words[0], &words[1..]));
    loop {
        if let Some(reply) = world.pump(client).pop() {
            return reply;
        }
        others.step(world);
    }
}

#[test]
fn who_has_unsubscribed_is_not_counted() {
    for_each_seed("subscriptions", 60, |mut entropy| {
        let setup = Setup::any(&mut entropy);
        let mut world = World::new(entropy, &setup);
        let mut observer = world.connect();
        let noise = (0..4).map(|_| world.connect()).collect();
        let mut others = Others { subscriber: world.connect(), confirmed: 0, noise };
        for _ in 0..ROUNDS {
            others.subscriber.send(&request("SUBSCRIBE", CHANNELS));
            others.wait_for_confirmations(&mut world);
            others.subscriber.send(&request("UNSUBSCRIBE", CHANNELS));
            loop {
                let list = call(&mut world, &mut observer, &mut others, &["CLIENT", "LIST"]);
                let Value::Bulk(list) = list else { panic!("{list:?}") };
                if String::from_utf8(list).expect("a text").contains(" cmd=unsubscribe ") {
                    break;
                }
            }
            for channel in CHANNELS {
                let reply = call(&mut world, &mut observer, &mut others, &["PUBLISH", channel, "news"]);
                assert_eq!(reply, Value::Int(0), "{channel}");
            }
            others.wait_for_confirmations(&mut world);
        }
    });
}
