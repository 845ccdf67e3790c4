//! Channels: Redis' promises to publishers and subscribers, with a channel's subscribers on several threads.
//!
//! - a client that is subscribed throughout the publishing of a message gets it, a client that is not subscribed does not, and
//!   the publisher is told how many got it;
//! - the messages of one publisher arrive in order, whatever their channels;
//! - all subscribers of a channel get its messages in the same order;
//! - what was published before a subscriber sent a request arrives before the reply.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use resp::Value;
use sim::{Client, Setup, World, for_each_seed, request};

/// Messages per world.
const MESSAGES: usize = 150;
const CHANNELS: usize = 4;
/// Most requests that a client has in progress.
const PIPELINE: usize = 3;
const PUBLISHERS: usize = 3;
/// Factor that separates the message numbers of the publishers.
const STRIDE: u64 = 1_000_000;
/// A channel that every subscriber stays subscribed to, so that all replies have the same form.
const ALWAYS: &str = "always";
const SCRIPT: &str = "return redis.call(ARGV[1], ARGV[2], ARGV[3])";

/// A channel: whether it is for `SSUBSCRIBE`, and its name.
type Channel = (bool, String);

/// The kind of subscription that a message arrives by: to a channel or to a pattern.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Route {
    Channel(Channel),
    Pattern(String),
}

/// A request of a subscriber.
#[derive(Clone, Debug)]
enum Deed {
    Begin(Route),
    End(Route),
    Ping(u64),
}

/// A message to a subscriber.
#[derive(Clone, Debug)]
enum Heard {
    Message { route: Route, channel: Channel, number: u64 },
    Pong(u64),
}

struct Subscriber {
    client: Client,
    asked: VecDeque<(Deed, u64)>,
    heard: Vec<Heard>,
    /// For each route, when it was confirmed, and when its end was requested.
    times: BTreeMap<Route, Vec<(u64, u64)>>,
    /// For each route, when it was requested, and when its end was confirmed.
    wide_times: BTreeMap<Route, Vec<(u64, u64)>>,
    wants: BTreeSet<Route>,
    pinged: BTreeMap<u64, u64>,
}

/// A message as its publisher saw it.
#[derive(Clone, Debug)]
struct Publication {
    channel: Channel,
    sent: u64,
    answered: u64,
    count: i64,
}

struct Publisher {
    client: Client,
    asked: VecDeque<(u64, Channel, u64, usize)>,
    next: u64,
}

fn text(value: &Value) -> String {
    let Value::Bulk(text) = value else { panic!("{value} is no text") };
    String::from_utf8_lossy(text).into_owned()
}

fn number(value: &Value) -> u64 {
    text(value).parse().expect("messages are numbers")
}

fn any_channel(world: &mut World) -> Channel {
    (world.one_in(4), format!("c{}", world.below(CHANNELS)))
}

impl Subscriber {
    fn new(world: &mut World, number: usize) -> Subscriber {
        let mut client = world.connect();
        if number.is_multiple_of(2) {
            world.call(&mut client, &request("HELLO", ["3"]));
        }
        world.call(&mut client, &request("SUBSCRIBE", [ALWAYS]));
        if world.one_in(4) {
            client.set_window(64);
        }
        Subscriber {
            client,
            asked: VecDeque::new(),
            heard: Vec::new(),
            times: BTreeMap::new(),
            wide_times: BTreeMap::new(),
            wants: BTreeSet::new(),
            pinged: BTreeMap::new(),
        }
    }

    fn ask(&mut self, world: &mut World, next_ping: &mut u64) {
        let route = match world.below(5) {
            0 => Route::Pattern(["c*", "c[01]", "c1"][world.below(3)].to_owned()),
            _ => Route::Channel(any_channel(world)),
        };
        let now = world.event;
        if world.one_in(3) {
            *next_ping += 1;
            self.client.send(&request("PING", [next_ping.to_string()]));
            self.pinged.insert(*next_ping, now);
            return self.asked.push_back((Deed::Ping(*next_ping), now));
        }
        let begins = self.wants.insert(route.clone());
        let command = match (&route, begins) {
            (Route::Channel((false, _)), true) => "SUBSCRIBE",
            (Route::Channel((false, _)), false) => "UNSUBSCRIBE",
            (Route::Channel((true, _)), true) => "SSUBSCRIBE",
            (Route::Channel((true, _)), false) => "SUNSUBSCRIBE",
            (Route::Pattern(_), true) => "PSUBSCRIBE",
            (Route::Pattern(_), false) => "PUNSUBSCRIBE",
        };
        let (Route::Channel((_, name)) | Route::Pattern(name)) = &route;
        self.client.send(&request(command, [name]));
        if begins {
            self.wide_times.entry(route.clone()).or_default().push((now, u64::MAX));
            self.asked.push_back((Deed::Begin(route), now));
        } else {
            self.wants.remove(&route);
            self.asked.push_back((Deed::End(route), now));
        }
    }

    fn pump(&mut self, world: &World) {
        for value in world.pump(&mut self.client) {
            let (Value::Array(items) | Value::Push(items)) = &value else {
                // The reply to PING in RESP3.
                self.answered(&value, world.event);
                continue;
            };
            let is_shard = text(&items[0]) == "smessage";
            match &*text(&items[0]) {
                "message" | "smessage" => {
                    let channel = (is_shard, text(&items[1]));
                    let route = Route::Channel(channel.clone());
                    self.heard.push(Heard::Message { route, channel, number: number(&items[2]) });
                }
                "pmessage" => {
                    let (route, channel) = (Route::Pattern(text(&items[1])), (false, text(&items[2])));
                    self.heard.push(Heard::Message { route, channel, number: number(&items[3]) });
                }
                _ => self.answered(&items[1], world.event),
            }
        }
    }

    /// The reply to the first open request has arrived, with `name`.
    fn answered(&mut self, name: &Value, now: u64) {
        let (deed, sent) = self.asked.pop_front().expect("a reply belongs to a request");
        match deed {
            Deed::Ping(ping) => {
                assert_eq!(number(name), ping, "replies are in order");
                self.heard.push(Heard::Pong(ping));
            }
            Deed::Begin(route) => self.times.entry(route).or_default().push((now, u64::MAX)),
            Deed::End(route) => {
                self.times.get_mut(&route).and_then(|times| times.last_mut()).expect("it began").1 = sent;
                let times = self.wide_times.get_mut(&route).expect("it began");
                times.iter_mut().find(|(_, end)| *end == u64::MAX).expect("it has not ended").1 = now;
            }
        }
    }

    /// Whether it was subscribed by `route` from `from` to `to`: certainly or, with `wide_times`, possibly.
    fn was_in(
        times: &BTreeMap<Route, Vec<(u64, u64)>>,
        route: &Route,
        from: u64,
        to: u64,
        all: bool,
    ) -> bool {
        times
            .get(route)
            .into_iter()
            .flatten()
            .any(|&(begin, end)| if all { begin < from && to < end } else { begin <= to && from <= end })
    }

    fn routes_to(&self, (is_shard, name): &Channel) -> Vec<Route> {
        let fits = |route: &&Route| match route {
            Route::Channel(channel) => *channel == (*is_shard, name.clone()),
            Route::Pattern(pattern) => {
                !is_shard && ds::glob::matches(pattern.as_bytes(), name.as_bytes(), false)
            }
        };
        self.wide_times.keys().filter(fits).cloned().collect()
    }
}

impl Publisher {
    fn ask(&mut self, world: &mut World) -> usize {
        let (channel, sent) = (any_channel(world), world.event);
        let command = if channel.0 { "SPUBLISH" } else { "PUBLISH" };
        let mut publish = |client: &mut Client, is_script: bool, channel: &Channel| {
            let message = self.next.to_string();
            self.next += 1;
            match is_script {
                true => client.send(&request("EVAL", [SCRIPT, "0", command, &channel.1, &message])),
                false => client.send(&request(command, [&channel.1, &message])),
            }
            self.next - 1
        };
        match world.below(6) {
            0 => {
                self.client.send(&request("MULTI", [""; 0]));
                let first = publish(&mut self.client, false, &channel);
                publish(&mut self.client, world.one_in(2), &channel);
                self.client.send(&request("EXEC", [""; 0]));
                self.asked.push_back((first, channel, sent, 2));
                2
            }
            chance => {
                let number = publish(&mut self.client, chance == 1, &channel);
                self.asked.push_back((number, channel, sent, 1));
                1
            }
        }
    }

    fn pump(&mut self, world: &World, published: &mut BTreeMap<u64, Publication>) {
        for value in world.pump(&mut self.client) {
            let counts: Vec<i64> = match value {
                Value::Simple(_) => continue,
                Value::Int(count) => vec![count],
                Value::Array(items) => {
                    items.iter().map(|item| if let Value::Int(count) = item { *count } else { -1 }).collect()
                }
                other => panic!("PUBLISH answered {other}"),
            };
            let (first, channel, sent, expected) = self.asked.pop_front().expect("it asked");
            assert_eq!(counts.len(), expected);
            for (number, count) in (first..).zip(counts) {
                let channel = channel.clone();
                published.insert(number, Publication { channel, sent, answered: world.event, count });
            }
        }
    }
}

fn check_deliveries(subscribers: &[Subscriber], published: &BTreeMap<u64, Publication>, setup: &Setup) {
    let (mut got, mut maybe) = (BTreeMap::<u64, i64>::new(), BTreeMap::<u64, i64>::new());
    for (who, subscriber) in subscribers.iter().enumerate() {
        let mut heard: BTreeSet<(u64, &Route)> = BTreeSet::new();
        for event in &subscriber.heard {
            let Heard::Message { route, number, .. } = event else { continue };
            *got.entry(*number).or_default() += 1;
            assert!(heard.insert((*number, route)), "{setup:?}: {who} got {number} twice by {route:?}");
            let Publication { sent, answered, .. } = published[number];
            let may = Subscriber::was_in(&subscriber.wide_times, route, sent, answered, false);
            assert!(may, "{setup:?}: {who} got {number} by {route:?}, to which it was not subscribed");
        }
        for (number, message) in published {
            for route in subscriber.routes_to(&message.channel) {
                let must =
                    Subscriber::was_in(&subscriber.times, &route, message.sent, message.answered, true);
                let has = heard.contains(&(*number, &route));
                let may =
                    Subscriber::was_in(&subscriber.wide_times, &route, message.sent, message.answered, false);
                if may && !has && matches!(route, Route::Pattern(_)) {
                    // The message was on its way when the pattern was unsubscribed.
                    *maybe.entry(*number).or_default() += 1;
                }
                assert!(has || !must, "{setup:?}: {who} did not get {number} by {route:?}: {message:?}");
            }
        }
    }
    for (number, message) in published {
        let count = got.get(number).copied().unwrap_or_default();
        let count_max = count + maybe.get(number).copied().unwrap_or_default();
        let is_right = (count..=count_max).contains(&message.count);
        assert!(is_right, "{setup:?}: {count} to {count_max} got {number}: {message:?}");
    }
}

fn check_order(subscribers: &[Subscriber], published: &BTreeMap<u64, Publication>, setup: &Setup) {
    let mut orders: BTreeMap<&Channel, Vec<(usize, Vec<u64>)>> = BTreeMap::new();
    for (who, subscriber) in subscribers.iter().enumerate() {
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        let mut own: BTreeMap<&Channel, Vec<u64>> = BTreeMap::new();
        let mut latest_ping = 0;
        for event in &subscriber.heard {
            let (channel, number) = match event {
                Heard::Pong(ping) => {
                    latest_ping = subscriber.pinged[ping];
                    continue;
                }
                Heard::Message { channel, number, .. } => (channel, *number),
            };
            let before = last.insert(number / STRIDE, number).unwrap_or(0);
            assert!(before <= number, "{setup:?}: {who} got {number} after {before} of the same publisher");
            let answered = published[&number].answered;
            assert!(
                answered >= latest_ping,
                "{setup:?}: {who} asked at {latest_ping} and got {number}, published by {answered}, after the reply"
            );
            let order = own.entry(channel).or_default();
            if !order.contains(&number) {
                order.push(number);
            }
        }
        own.into_iter().for_each(|(channel, order)| orders.entry(channel).or_default().push((who, order)));
    }
    for (channel, orders) in orders {
        for (index, (one, first)) in orders.iter().enumerate() {
            for (other, second) in &orders[index + 1..] {
                let common = |own: &[u64], of: &[u64]| -> Vec<u64> {
                    own.iter().copied().filter(|number| of.contains(number)).collect()
                };
                let (first, second) = (common(first, second), common(second, first));
                assert_eq!(first, second, "{setup:?}: {channel:?} as {one} and {other} got it");
            }
        }
    }
}

fn simulate(mut entropy: proactor::Entropy, totals: &mut BTreeMap<&'static str, u64>) {
    let setup = Setup::any(&mut entropy);
    let mut world = World::new(entropy, &setup);
    let mut subscribers: Vec<Subscriber> =
        (0..2 + world.below(3)).map(|number| Subscriber::new(&mut world, number)).collect();
    let mut publishers: Vec<Publisher> = (1..=PUBLISHERS as u64)
        .map(|number| Publisher { client: world.connect(), asked: VecDeque::new(), next: number * STRIDE })
        .collect();
    let (mut published, mut sent, mut pings) = (BTreeMap::new(), 0, 0);
    while sent < MESSAGES {
        world.step();
        for subscriber in &mut subscribers {
            subscriber.pump(&world);
            if world.one_in(12) && subscriber.asked.len() < PIPELINE {
                subscriber.ask(&mut world, &mut pings);
            }
        }
        for publisher in &mut publishers {
            publisher.pump(&world, &mut published);
            if world.one_in(8) && publisher.asked.len() < PIPELINE {
                sent += publisher.ask(&mut world);
            }
        }
    }
    world.settle(|world| {
        subscribers.iter_mut().for_each(|subscriber| subscriber.pump(world));
        publishers.iter_mut().for_each(|publisher| publisher.pump(world, &mut published));
    });
    let is_done = |publisher: &Publisher| publisher.asked.is_empty();
    assert!(publishers.iter().all(is_done), "{setup:?}: a publisher has no reply");
    assert!(subscribers.iter().all(|subscriber| subscriber.asked.is_empty()), "{setup:?}: no reply");
    check_deliveries(&subscribers, &published, &setup);
    check_order(&subscribers, &published, &setup);
    let mut observer = world.connect();
    let info = world.info(&mut observer);
    for name in ["tx_delegated", "tx_type_hop", "tx_type_wide"] {
        *totals.entry(name).or_default() += info[name];
    }
    let heard: usize = subscribers.iter().map(|subscriber| subscriber.heard.len()).sum();
    *totals.entry("heard").or_default() += heard as u64;
}

#[test]
fn messages_arrive_once_in_order_and_as_often_as_publishers_are_told() {
    let mut totals = BTreeMap::new();
    for_each_seed("channels", 700, |entropy| simulate(entropy, &mut totals));
    println!("{totals:?}");
}
