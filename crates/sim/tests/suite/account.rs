//! The account of a queue across crashes, with `appendfsync always`: each acknowledged element is in the queue, a worker got it, or a
//! worker was about to get it when the server died. No element that a worker has comes back.
//!
//! Some pushes, in one transaction, also write each element to a *ledger*, from which nothing is taken, and announce it by a message
//! and a keyspace event. After every crash, the ledger has what any worker got and what any subscriber heard of.
//!
//! A client has got an element when it has *received* the element. Replies that a server had queued when it died
//! never arrive.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use engine::mutant::{self, Mutant};
use proactor::{DiskFaults, Entropy};
use resp::Value;
use sim::{Client, Death, Journal, Request, Setup, Sync, World, for_each_seed, request};

/// Number of lives of one server, and most events in one life.
const LIVES: usize = 3;
const EVENTS_MAX: usize = 4_000;
/// Elements are numbers from here on. Nothing else in a reply is.
const FIRST_ELEMENT: u64 = 1_000_000;
const LISTS: usize = 4;

/// Pushes each element to its list and to the ledger.
const PUSH_SCRIPT: &str = "for i = 1, #ARGV, 2 do redis.call('RPUSH', 'ledger', ARGV[i + 1])
    redis.call('PUBLISH', 'news', ARGV[i + 1]) redis.call('LPUSH', ARGV[i], ARGV[i + 1]) end return #ARGV";

/// The meaning of a request for the account.
#[derive(Clone, Debug)]
enum Meaning {
    Push {
        elements: Vec<u64>,
        has_ledger: bool,
    },
    /// Takes at most this many elements.
    Pop(usize),
    /// Neither adds nor takes elements.
    Other,
}

/// A request that was sent as this many commands. Only the last reply counts.
struct Pending {
    meaning: Meaning,
    replies: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Producer,
    Worker,
    Subscriber,
}

struct Actor {
    role: Role,
    client: Client,
    pending: VecDeque<Pending>,
}

#[derive(Default)]
struct Account {
    next_element: u64,
    acknowledged: Vec<(Vec<u64>, bool)>,
    unanswered: Vec<(Vec<u64>, bool)>,
    /// Elements of pushes refused because the journal could not be written. They must not exist.
    refused: BTreeSet<u64>,
    got: BTreeSet<u64>,
    told: BTreeSet<u64>,
    /// Number of elements that workers may have been about to get when the server died.
    owed: usize,
}

fn list(world: &mut World) -> String {
    format!("q{}", world.below(LISTS))
}

fn words<const N: usize>(command: &str, words: [&str; N]) -> Request {
    request(command, words)
}

/// All elements in a reply.
fn elements(reply: &Value) -> Vec<u64> {
    match reply {
        Value::Bulk(text) => {
            let text = String::from_utf8_lossy(text);
            let number = text.rsplit(':').next().and_then(|text| text.parse().ok());
            number.filter(|number| *number >= FIRST_ELEMENT).into_iter().collect()
        }
        Value::Array(items) => items.iter().flat_map(elements).collect(),
        _ => Vec::new(),
    }
}

/// Whether the journal could not be written, so that nothing was done.
fn is_refusal(reply: &Value) -> bool {
    matches!(reply, Value::Error(error) if error.starts_with(b"MISCONF") || error.starts_with(b"EXECABORT"))
}

impl Account {
    fn push(&mut self, world: &mut World) -> (Vec<Request>, Meaning) {
        let count = 1 + world.below(2);
        let elements: Vec<u64> = (0..count).map(|_| self.next_element + FIRST_ELEMENT).collect();
        let elements: Vec<u64> = elements.iter().zip(0..).map(|(element, index)| element + index).collect();
        self.next_element += count as u64;
        let texts: Vec<String> = elements.iter().map(u64::to_string).collect();
        let all = |key: &str| [key.to_owned()].into_iter().chain(texts.iter().cloned()).collect::<Vec<_>>();
        match world.below(3) {
            0 => {
                let end = ["LPUSH", "RPUSH"][world.below(2)];
                let requests = vec![request(end, all(&list(world)))];
                (requests, Meaning::Push { elements, has_ledger: false })
            }
            1 => {
                let mut requests = vec![words("MULTI", []), request("RPUSH", all("ledger"))];
                for text in &texts {
                    requests.push(words("LPUSH", [&list(world), text]));
                    requests.push(words("PUBLISH", ["news", text]));
                    requests.push(words("SET", [&format!("told:{text}"), "1"]));
                }
                requests.push(words("EXEC", []));
                (requests, Meaning::Push { elements, has_ledger: true })
            }
            _ => {
                let mut args = vec![PUSH_SCRIPT.to_owned(), "0".to_owned()];
                for text in &texts {
                    args.extend([list(world), text.clone()]);
                }
                (vec![request("EVAL", args)], Meaning::Push { elements, has_ledger: true })
            }
        }
    }

    fn pop(world: &mut World) -> (Vec<Request>, Meaning) {
        let (first, second) = (list(world), list(world));
        let (request, count) = match world.below(7) {
            0 | 1 => (words("BRPOP", [&first, &second, "0"]), 1),
            2 => (words("BLPOP", [&first, "0.05"]), 1),
            3 => (words("BLMPOP", ["0", "2", &first, &second, "LEFT", "COUNT", "2"]), 2),
            4 => (words("RPOP", [&first]), 1),
            5 => (words("LPOP", [&first, "2"]), 2),
            _ => return (vec![words("BLMOVE", [&first, "work", "LEFT", "RIGHT", "0"])], Meaning::Other),
        };
        (vec![request], Meaning::Pop(count))
    }

    fn act(&mut self, world: &mut World, actor: &mut Actor) {
        let (requests, meaning) = match actor.role {
            Role::Producer => self.push(world),
            Role::Worker => Account::pop(world),
            Role::Subscriber => return,
        };
        requests.iter().for_each(|request| actor.client.send(request));
        actor.pending.push_back(Pending { meaning, replies: requests.len() });
    }

    /// Receives replies and messages. Returns their number.
    fn receive(&mut self, world: &mut World, actor: &mut Actor) -> usize {
        let replies = world.pump(&mut actor.client);
        for reply in &replies {
            if actor.role == Role::Subscriber {
                self.told.extend(elements(reply));
                continue;
            }
            let pending = actor.pending.front_mut().expect("a reply belongs to a request");
            pending.replies -= 1;
            if pending.replies > 0 {
                continue;
            }
            match actor.pending.pop_front().expect("it was there").meaning {
                Meaning::Push { elements, .. } if is_refusal(reply) => self.refused.extend(elements),
                Meaning::Push { elements, has_ledger } => {
                    assert!(!matches!(reply, Value::Error(_)), "a push is answered {reply}");
                    self.acknowledged.push((elements, has_ledger));
                }
                Meaning::Pop(_) => {
                    for element in elements(reply) {
                        assert!(self.got.insert(element), "{element} was given twice");
                    }
                }
                Meaning::Other => {}
            }
        }
        replies.len()
    }

    /// The server has died: settles what the client had in progress.
    fn give_up(&mut self, world: &mut World, mut actor: Actor) {
        self.receive(world, &mut actor);
        for pending in actor.pending {
            match pending.meaning {
                Meaning::Push { elements, has_ledger } => self.unanswered.push((elements, has_ledger)),
                Meaning::Pop(count) => self.owed += count,
                Meaning::Other => {}
            }
        }
    }

    /// Runs one life of the server.
    fn live(&mut self, world: &mut World) {
        let life = world.life;
        let roles = [Role::Producer, Role::Worker, Role::Worker, Role::Subscriber];
        let more = (0..world.below(3)).map(|_| roles[world.below(2)]).collect::<Vec<_>>();
        let mut actors: Vec<Actor> = roles
            .into_iter()
            .chain(more)
            .map(|role| Actor { role, client: world.connect(), pending: VecDeque::new() })
            .collect();
        for actor in actors.iter_mut().filter(|actor| actor.role == Role::Subscriber) {
            actor.client.send(&words("SUBSCRIBE", ["news"]));
            actor.client.send(&words("PSUBSCRIBE", ["__keyspace@0__:told:*"]));
        }
        let ends_one_in = [0, 10, 50][world.below(3)];
        let end = world.event + world.below(EVENTS_MAX) as u64;
        while world.event < end && world.life == life {
            world.step();
            if world.life != life {
                break;
            }
            let mut has_news = false;
            for actor in &mut actors {
                let count = self.receive(world, actor);
                has_news |= ends_one_in > 0 && (0..count).any(|_| world.one_in(ends_one_in));
                if actor.pending.is_empty() && world.one_in(6) {
                    self.act(world, actor);
                }
            }
            if has_news {
                break;
            }
        }
        if world.life == life {
            let death = [Death::Power, Death::Power, Death::Process][world.below(3)];
            world.restart(death);
        }
        for actor in actors {
            self.give_up(world, actor);
        }
    }

    /// Compares the account with the server's data.
    fn check(&self, world: &mut World) -> Result<(), String> {
        let mut observer = world.connect();
        let mut places: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for element in &self.got {
            places.entry(*element).or_default().push("with a worker".to_owned());
        }
        for key in (0..LISTS).map(|number| format!("q{number}")).chain(["work".to_owned()]) {
            let reply = world.call(&mut observer, &words("LRANGE", [&key, "0", "-1"]));
            for element in elements(&reply) {
                places.entry(element).or_default().push(format!("in {key}"));
            }
        }
        let ledger: BTreeSet<u64> =
            elements(&world.call(&mut observer, &words("LRANGE", ["ledger", "0", "-1"])))
                .into_iter()
                .collect();
        if let Some((element, places)) = places.iter().find(|(_, places)| places.len() > 1) {
            return Err(format!("{element} is {}", places.join(" and ")));
        }
        let is_there = |element: &&u64| places.contains_key(element) || ledger.contains(element);
        if let Some(element) = self.refused.iter().find(is_there) {
            return Err(format!("{element} was refused, and is there"));
        }
        let mut missing = 0;
        let pushes = self.acknowledged.iter().map(|push| (push, true));
        for ((elements, has_ledger), is_sure) in
            pushes.chain(self.unanswered.iter().map(|push| (push, false)))
        {
            let is_seen = |element: &u64| places.contains_key(element);
            let was_done =
                is_sure || elements.iter().any(|element| is_seen(element) || ledger.contains(element));
            let is_told = elements.iter().any(|element| self.told.contains(element));
            if *has_ledger
                && (was_done || is_told)
                && !elements.iter().all(|element| ledger.contains(element))
            {
                return Err(format!(
                    "{elements:?} are not in the ledger: acknowledged {is_sure}, seen {was_done}, told {is_told}"
                ));
            }
            if was_done {
                missing += elements.iter().filter(|element| !is_seen(element)).count();
            }
        }
        if missing > self.owed {
            return Err(format!("{missing} are missing, and workers were about to get {}", self.owed));
        }
        Ok(())
    }
}

fn simulate(mut entropy: Entropy) -> Result<usize, String> {
    let mut setup = Setup::any(&mut entropy);
    setup.script_trusted_after = setup.script_trusted_after.max(1_000);
    setup.journal = Some(Journal::any(&mut entropy, Sync::Always));
    setup.dies_in_start_one_in = 5;
    let mut world = World::new(entropy, &setup);
    let mut account = Account::default();
    for _ in 0..LIVES {
        let mut admin = world.connect();
        world.call(&mut admin, &words("CONFIG", ["SET", "notify-keyspace-events", "KA"]));
        drop(admin);
        if world.one_in(2) {
            world.disk().set_faults(DiskFaults {
                short_write_one_in: 5,
                hang_one_in: 5,
                hang_ns_max: 50_000_000,
                sync_error_one_in: [0, 100][usize::from(world.life % 2 == 1)],
                ..DiskFaults::default()
            });
        }
        account.live(&mut world);
        account.check(&mut world).map_err(|problem| format!("life {}: {problem}", world.life))?;
    }
    Ok(account.got.len())
}

#[test]
fn nothing_is_lost_or_comes_back() {
    let mut got = 0;
    for_each_seed("account", 60, |entropy| got += simulate(entropy).unwrap());
    println!("workers got {got} elements");
}

/// Each deliberate mistake is detected.
#[test]
fn what_is_told_too_soon_shows() {
    for mistake in [Mutant::ReplyAtOnce, Mutant::ServedAtOnce, Mutant::PublishedAtOnce, Mutant::EventAtOnce] {
        mutant::switch(Some(mistake));
        let found = (1..=400).find_map(|seed| {
            let problem = simulate(Entropy::from_seed(seed)).err()?;
            Some(format!("seed {seed}: {problem}"))
        });
        mutant::switch(None);
        println!("{mistake:?}: {}", found.unwrap_or_else(|| panic!("{mistake:?} does not show")));
    }
}
