//! Random requests, made from the declarations of the command table.
//!
//! ```text
//! Entry.args ──▶ well-formed request ──▶ sometimes spoiled ──▶ alone, in a pipeline, in MULTI, in a script
//! ```
//!
//! A generator is a pure function of its seed. Commands are dealt like cards, so that no command is left out for
//! long. Commands that insert are mixed in, so that there is something to read. The possible values of an argument
//! follow from its kind and, for numbers with a meaning, from its name: nothing that is generated expires during a
//! run, blocks for long, or creates a value of many megabytes, spoiled or not.
//!
//! A command with a random reply is preceded by one that reads the whole set. If it made a random change, the key is deleted
//! afterwards.

use ds::random::Random;
use engine::{Arg, ArgKind, Command, Flag, Group, KeyFlag, Run, Shape, Table};

use crate::differences::{Rule, rules_of};
use crate::lines::{is_sent, lines_of};
use crate::{functions, values};

/// The arguments of one request, including its name.
pub type Request = Vec<Vec<u8>>;

/// Requests that belong together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch {
    /// In order.
    pub requests: Vec<Request>,
    /// Whether they are all sent before the replies are read.
    pub is_pipelined: bool,
}

/// Takes the oracle half a second.
const SLOW: &str = "pfselftest";

/// Makes batches.
#[derive(Debug)]
pub struct Generator<'t> {
    random: Random,
    commands: Vec<&'t Command>,
    inserting: Vec<&'t Command>,
    deck: Vec<&'t Command>,
}

impl<'t> Generator<'t> {
    /// The generator with this seed, for the commands of `table`.
    pub fn new(seed: u64, table: &'t Table) -> Self {
        let callable = |command: &&Command| {
            is_callable(command) && is_known_to_oracle(command) && is_sent(&command.full_name)
        };
        let inserts = |command: &&Command| {
            command.entry.keys.iter().any(|spec| spec.flags.contains(&KeyFlag::Insert))
                || ["set", "xadd"].contains(&command.entry.name)
        };
        let commands: Vec<_> = table.all().iter().filter(callable).collect();
        let inserting = commands.iter().copied().filter(inserts).collect();
        Generator { random: Random::new(seed), commands, inserting, deck: Vec::new() }
    }

    /// The next batch.
    pub fn batch(&mut self) -> Batch {
        let form = self.random.below(10);
        let is_session = self.one_in(40);
        match form {
            _ if is_session => {
                Batch { requests: vec![values::session(&mut self.random)], is_pipelined: false }
            }
            _ if self.one_in(12) => self.about_functions(),
            _ if self.one_in(40) => self.without_room(),
            _ if self.one_in(60) => self.about_a_backlog(),
            _ if self.one_in(15) => self.about_alike_hashes(),
            0 => {
                let mut requests = vec![vec![b"MULTI".to_vec()]];
                for _ in 0..1 + self.random.below(5) {
                    requests.extend(self.group(may_be_queued));
                }
                requests.push(vec![b"EXEC".to_vec()]);
                Batch { requests, is_pipelined: self.one_in(2) }
            }
            1 => {
                let group = self.group(may_be_in_script);
                let requests = if self.one_in(4) {
                    group.into_iter().flat_map(|request| self.in_function(request)).collect()
                } else {
                    group.into_iter().map(|request| self.in_script(request)).collect()
                };
                Batch { requests, is_pipelined: false }
            }
            2..6 => {
                let groups = 2 + self.random.below(12);
                let requests = (0..groups).flat_map(|_| self.group(is_one_reply)).collect();
                Batch { requests, is_pipelined: true }
            }
            _ => Batch { requests: self.group(|_| true), is_pipelined: false },
        }
    }

    /// Requests while no memory may be used, so that those that need some are refused.
    fn without_room(&mut self) -> Batch {
        let limit = |bytes: &[u8]| line(&[b"CONFIG", b"SET", b"maxmemory", bytes]);
        let mut requests = vec![limit(b"1")];
        for _ in 0..1 + self.random.below(8) {
            let group = self.group(may_be_without_room);
            let is_script = self.one_in(4);
            requests.extend(
                group.into_iter().map(|request| if is_script { self.in_script(request) } else { request }),
            );
        }
        requests.push(limit(b"0"));
        Batch { requests, is_pipelined: self.one_in(2) }
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.random.below(items.len() as u64) as usize]
    }

    /// A command for which `may` is true, with the requests that must go with it.
    fn group(&mut self, may: fn(&Command) -> bool) -> Vec<Request> {
        let command = loop {
            let command = self.next_command();
            if may(command) {
                break command;
            }
        };
        if let Some(lines) = lines_of(&command.full_name) {
            return self.one_of(lines).split(';').map(parsed).collect();
        }
        let request = self.request(command);
        if command.entry.name == "xadd" && self.one_in(20) {
            // Enough for several nodes.
            return vec![request; 130];
        }
        let mut before = Vec::new();
        for [key, group, consumer] in groups_of(command, &request) {
            let (Some(key), Some(group)) = (key, group) else { continue };
            if self.one_in(2) {
                before.push(line(&[b"XGROUP", b"CREATE", key, group, b"0", b"MKSTREAM"]));
            }
            // From 7.2 on, a command that finds nothing for its consumer also creates the consumer.
            before.extend(consumer.map(|name| line(&[b"XGROUP", b"CREATECONSUMER", key, group, name])));
        }
        let reader = rules_of(&command.full_name).find_map(|rule| match rule {
            Rule::Sample { reader } => Some(reader),
            _ => None,
        });
        let Some(reader) = reader else {
            let stored = stored_in_open_order(command, &request);
            let key = request.get(1).filter(|_| command.entry.name == "xsetid").cloned();
            before.extend(command.entry.name.starts_with("sort").then(values::clear_range_error));
            before.push(request);
            before.extend(stored.map(|key| line(&[b"DEL", &key])));
            // The oracle sets ids that 7.2 does not.
            before.extend(
                key.into_iter().flat_map(|key| [line(&[b"XINFO", b"STREAM", &key]), line(&[b"DEL", &key])]),
            );
            return before;
        };
        let mut whole: Request = reader.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let key = request.get(1).filter(|_| !command.entry.keys.is_empty()).cloned();
        if let Some(key) = key.clone() {
            whole.insert(1, key);
        }
        let mut group = vec![whole, request];
        group.extend(key.filter(|_| command.is_write()).map(|key| vec![b"DEL".to_vec(), key]));
        group
    }

    fn next_command(&mut self) -> &'t Command {
        if self.random.below(5) < 2 {
            let index = self.random.below(self.inserting.len() as u64) as usize;
            return self.inserting[index];
        }
        if self.deck.is_empty() {
            self.deck.clone_from(&self.commands);
            self.random.shuffle(&mut self.deck);
        }
        let dealt = self.deck.pop().expect("a table has commands");
        if dealt.entry.name == SLOW && !self.one_in(8) { self.next_command() } else { dealt }
    }

    /// A request of `command`, usually well-formed.
    fn request(&mut self, command: &Command) -> Request {
        let mut request: Request =
            command.full_name.split('|').map(|name| name.as_bytes().to_vec()).collect();
        if self.one_in(2) {
            request[0].make_ascii_uppercase();
        }
        let name_len = request.len();
        let newer = newer_word(command);
        let unsent = rules_of(&command.full_name).find_map(|rule| match rule {
            Rule::Unsent(word) => Some(word),
            _ => None,
        });
        let group = command.entry.group;
        let mut filling = Filling { generator: self, group, unsent: newer.or(unsent), numkeys: None };
        filling.args(command.entry.args, &mut request);
        if newer.is_none() && self.one_in(8) {
            self.spoil(command, name_len, &mut request);
        }
        request
    }

    /// Spoils a request: removes, adds or replaces an argument, or adds an option.
    fn spoil(&mut self, command: &Command, name_len: usize, request: &mut Request) {
        let garbage = values::garbage(&mut self.random, command.has(Flag::Blocking), command.entry.group);
        let last = request.len() - 1;
        let position = name_len + self.random.below(request.len() as u64) as usize;
        match self.random.below(5) {
            0 if last >= name_len => _ = request.pop(),
            1 if position <= last => _ = request.remove(position),
            2 if position <= last => request[position] = garbage,
            3 => {
                let mut tokens = Vec::new();
                collect_tokens(command.entry.args, &mut tokens);
                if !tokens.is_empty() {
                    request.push(self.one_of(&tokens).as_bytes().to_vec());
                }
            }
            _ => request.push(garbage),
        }
    }

    /// A sorted set with enough jobs that the server, if it packs small sets, packs their members. Followed by requests about some
    /// of them.
    fn about_a_backlog(&mut self) -> Batch {
        let random = &mut self.random;
        let key = values::key(random, Group::SortedSet);
        let mut add = line(&[b"ZADD", &key]);
        for number in 0..values::BACKLOG_JOBS {
            // The oracle formats some small numbers in its own way. With these scores, no weight produces such numbers.
            let score = random.below(values::BACKLOG_JOBS * 4) * 10_000_000;
            add.extend([score.to_string().into_bytes(), values::job(number)]);
        }
        let mut requests = vec![add];
        for _ in 0..4 + random.below(12) {
            let job = values::job(random.below(values::BACKLOG_JOBS + 10));
            requests.push(match random.below(7) {
                0 => line(&[b"ZSCORE", &key, &job]),
                1 => line(&[b"ZRANK", &key, &job]),
                2 => line(&[b"ZREM", &key, &job]),
                3 => line(&[b"ZADD", &key, b"70000000", &job]),
                4 => line(&[b"ZINCRBY", &key, b"30000000", &job]),
                5 => line(&[b"ZPOPMIN", &key, b"3"]),
                _ => line(&[b"ZRANGE", &key, b"20", b"40", b"WITHSCORES"]),
            });
        }
        Batch { requests, is_pipelined: self.one_in(2) }
    }

    /// Hashes of one shard that are similar enough to be compressed, if the server compresses few hashes; followed by
    /// requests about them.
    fn about_alike_hashes(&mut self) -> Batch {
        let random = &mut self.random;
        let keys = [&b"{t}h0"[..], b"{t}h1", b"{t}h:2", b"{t}h:3"];
        let mut requests = Vec::new();
        for key in keys {
            if random.below(3) > 0 {
                requests.push([line(&[b"HSET", key]), values::job_fields(random)].concat());
            }
        }
        for _ in 0..random.below(12) {
            let key = keys[random.below(4) as usize];
            let other = keys[random.below(4) as usize];
            requests.push(match random.below(16) {
                0 => line(&[b"HGETALL", key]),
                1 => line(&[b"HMGET", key, b"a", b"none", b"1"]),
                2 => line(&[b"HINCRBY", key, b"1", b"7"]),
                3 => line(&[b"HSCAN", key, b"0"]),
                4 => line(&[b"HRANDFIELD", key, b"100", b"WITHVALUES"]),
                5 => line(&[b"RENAME", key, other]),
                6 => line(&[b"COPY", key, other, b"REPLACE"]),
                7 => line(&[b"COPY", key, b"h1", b"REPLACE"]),
                8 => line(&[b"HDEL", key, b"b"]),
                9 => line(&[b"HSTRLEN", key, b"a"]),
                10 => line(&[b"EXPIRE", key, b"100000"]),
                11 => line(&[b"HLEN", key]),
                12 => line(&[b"OBJECT", b"ENCODING", key]),
                13 => line(&[b"SORT", b"{t}l0", b"BY", b"{t}h*->1", b"GET", b"{t}h*->a", b"ALPHA"]),
                14 => line(&[b"DEL", key]),
                _ => line(&[b"HVALS", key]),
            });
        }
        Batch { requests, is_pipelined: self.one_in(2) }
    }

    /// Requests about libraries, and calls of their functions.
    fn about_functions(&mut self) -> Batch {
        let mut requests: Vec<Request> =
            (0..1 + self.random.below(8)).map(|_| functions::request(&mut self.random)).collect();
        if self.one_in(3) {
            requests.insert(0, vec![b"MULTI".to_vec()]);
            requests.push(vec![b"EXEC".to_vec()]);
        }
        Batch { requests, is_pipelined: self.one_in(2) }
    }

    /// The request as the only call of a script.
    fn in_script(&mut self, request: Request) -> Request {
        let script = self.one_of(&values::SCRIPTS);
        let mut eval = vec![b"EVAL".to_vec(), script.as_bytes().to_vec()];
        let declared = self.declared_keys(&request);
        eval.push(declared.len().to_string().into_bytes());
        eval.extend(declared);
        eval.extend(request);
        eval
    }

    /// The request as the only call of a function, preceded by the request that loads the function.
    fn in_function(&mut self, request: Request) -> [Request; 2] {
        let declared = self.declared_keys(&request);
        functions::in_function(&mut self.random, request, declared)
    }

    /// The keys that a script declares before it calls `request`: usually all, otherwise none.
    fn declared_keys(&mut self, request: &Request) -> Vec<Vec<u8>> {
        let table_keys = |command: &Command| {
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            let keys = command.keys(&args).unwrap_or_default();
            keys.iter().map(|key| request[key.index].clone()).collect::<Vec<_>>()
        };
        if self.one_in(4) {
            return Vec::new();
        }
        let called = self.commands.iter().find(|command| is_called(command, request));
        called.map(|command| table_keys(command)).unwrap_or_default()
    }
}

/// The key under which `command` stores a result that may differ between the servers.
fn stored_in_open_order(command: &Command, request: &Request) -> Option<Vec<u8>> {
    let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    let is_open = rules_of(&command.full_name).any(|rule| matches!(rule, Rule::Tied(open) if open(&args)));
    let word = args.iter().rposition(|arg| is_open && arg.eq_ignore_ascii_case(b"STORE"))?;
    request.get(word + 1).cloned()
}

/// Whether redis-server 7.0 has the command. The versions of sketches' commands are those of RedisBloom.
pub fn is_known_to_oracle(command: &Command) -> bool {
    let entry = command.entry;
    let is_of_sketch =
        matches!(entry.group, Group::Bloom | Group::Cuckoo | Group::CountMin | Group::TopK | Group::TDigest);
    !entry.since.is_empty() && is_old(entry.since) && !is_of_sketch
}

/// Whether redis-server 7.0 has what was introduced in version `since`.
fn is_old(since: &str) -> bool {
    let mut numbers = since.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) <= (Some(7), Some(0))
}

fn line(words: &[&[u8]]) -> Request {
    words.iter().map(|word| word.to_vec()).collect()
}

/// The consumer groups that a request is about: key, group, and the consumer that it may create.
fn groups_of<'r>(command: &Command, request: &'r Request) -> Vec<[Option<&'r [u8]>; 3]> {
    let at = |index: usize| request.get(index).map(Vec::as_slice);
    match &command.full_name[..] {
        "xack" | "xpending" => vec![[at(1), at(2), None]],
        "xclaim" | "xautoclaim" => vec![[at(1), at(2), at(3)]],
        "xreadgroup" => {
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            let keys = command.keys(&args).unwrap_or_default();
            let word = args.iter().position(|arg| arg.eq_ignore_ascii_case(b"GROUP")).unwrap_or(args.len());
            keys.iter().map(|key| [at(key.index), at(word + 1), at(word + 2)]).collect()
        }
        name if name.starts_with("xgroup|") || name == "xinfo|consumers" => vec![[at(2), at(3), None]],
        _ => Vec::new(),
    }
}

fn is_called(command: &Command, request: &Request) -> bool {
    let mut names = command.full_name.split('|').zip(request);
    names.all(|(name, arg)| name.as_bytes().eq_ignore_ascii_case(arg))
}

/// Whether the command iterates with a cursor.
pub(crate) fn is_iteration(command: &Command) -> bool {
    command.entry.args.iter().any(|arg| arg.name == "cursor")
}

/// Whether it is complete after one reply. An iteration has to wait for each reply.
fn is_one_reply(command: &Command) -> bool {
    !is_iteration(command)
}

/// Whether `MULTI` may queue it, so that its reply is part of `EXEC`'s.
fn may_be_queued(command: &Command) -> bool {
    is_one_reply(command)
        && command.entry.reply != Shape::Push
        && crate::lines::may_be_queued(&command.full_name)
}

/// A line of words, quoted as for redis-cli.
fn parsed(line: &str) -> Request {
    resp::split_args(line.as_bytes()).expect("quotes are balanced")
}

/// Number of replies to a request: one for each channel in it.
pub(crate) fn value_count(command: Option<&Command>, request: &Request) -> usize {
    let pushes = command.is_some_and(|command| command.entry.reply == Shape::Push);
    if pushes { request.len().max(2) - 1 } else { 1 }
}

/// Whether it can be called, unlike a container of subcommands.
pub fn is_callable(command: &Command) -> bool {
    matches!(command.entry.run, Run::Function(_))
}

/// The words that a request of `command` may contain, except those that the oracle does not know.
pub fn words(command: &Command) -> Vec<&'static str> {
    let mut words = Vec::new();
    collect_tokens(command.entry.args, &mut words);
    let is_known = |word: &&str| {
        rules_of(&command.full_name)
            .all(|rule| !matches!(rule, Rule::Newer(unsent) | Rule::Unsent(unsent) if unsent == *word))
    };
    words.retain(is_known);
    words
}

/// In 7.2, scripts may call blocking commands, which the oracle refuses. Then the data would differ.
fn may_be_in_script(command: &Command) -> bool {
    is_one_reply(command) && !command.has(Flag::Blocking) && command.entry.name != "wait"
}

/// Whether a command may be sent without room. There, a consumer that it may create cannot be created before it.
fn may_be_without_room(command: &Command) -> bool {
    may_be_in_script(command) && !matches!(command.entry.name, "xautoclaim" | "xclaim" | "xreadgroup")
}

/// The word of a command that the oracle does not know.
fn newer_word(command: &Command) -> Option<&'static str> {
    rules_of(&command.full_name).find_map(|rule| match rule {
        Rule::Newer(word) => Some(word),
        _ => None,
    })
}

fn collect_tokens(args: &[Arg], tokens: &mut Vec<&'static str>) {
    for arg in args.iter().filter(|arg| arg.since.is_none_or(is_old)) {
        tokens.extend(arg.token);
        collect_tokens(arg.args, tokens);
    }
}

/// A request that is being filled with arguments.
struct Filling<'g, 't> {
    generator: &'g mut Generator<'t>,
    group: Group,
    /// A token that is never sent.
    unsent: Option<&'static str>,
    /// Number of keys given by `numkeys`.
    numkeys: Option<u64>,
}

impl Filling<'_, '_> {
    fn is_unsent(&self, arg: &Arg) -> bool {
        (arg.token.is_some() && arg.token == self.unsent) || !arg.since.is_none_or(is_old)
    }

    fn args(&mut self, args: &[Arg], request: &mut Request) {
        for arg in args {
            if arg.optional && (self.is_unsent(arg) || self.generator.random.below(5) < 3) {
                continue;
            }
            let repeats = if arg.multiple { self.repeats(arg) } else { 1 };
            for index in 0..repeats {
                if index == 0 || arg.multiple_token {
                    // A pure token's token is its value.
                    let token = arg.token.filter(|_| arg.kind != ArgKind::PureToken);
                    request.extend(token.map(|token| token.as_bytes().to_vec()));
                }
                self.value(arg, repeats > 30, request);
            }
        }
    }

    fn repeats(&mut self, arg: &Arg) -> u64 {
        if let Some(count) = self.numkeys
            && (arg.kind == ArgKind::Key || ["id", "weight"].contains(&arg.name))
        {
            return count;
        }
        if self.group == Group::Stream && arg.kind == ArgKind::Key {
            // As many ids as keys follow.
            let count = 1 + self.generator.random.below(3);
            self.numkeys = Some(count);
            return count;
        }
        match self.generator.random.below(200) {
            // Enough for the other encodings of collections.
            0 if arg.kind != ArgKind::Key => 600,
            1..4 if arg.kind != ArgKind::Key => 140,
            4..100 => 1,
            100..160 => 2,
            _ => 3,
        }
    }

    /// Appends a value. If there are `many`, they differ.
    fn value(&mut self, arg: &Arg, many: bool, request: &mut Request) {
        let random = &mut self.generator.random;
        let value = match arg.kind {
            ArgKind::Block => return self.args(arg.args, request),
            ArgKind::OneOf => {
                let sent: Vec<&Arg> = arg.args.iter().filter(|arg| !self.is_unsent(arg)).collect();
                let chosen = self.generator.random.below(sent.len() as u64) as usize;
                let chosen = Arg { optional: false, ..*sent[chosen] };
                return self.args(&[chosen], request);
            }
            ArgKind::PureToken => arg.token.unwrap_or(arg.name).as_bytes().to_vec(),
            ArgKind::Key => values::key(random, self.group),
            ArgKind::Pattern => values::pattern(random, arg.name),
            ArgKind::Integer | ArgKind::UnixTime if arg.name == "numkeys" => {
                let count = 1 + random.below(3);
                self.numkeys = Some(count);
                count.to_string().into_bytes()
            }
            ArgKind::Integer | ArgKind::UnixTime => values::integer(random, arg.name, self.group),
            ArgKind::Double => values::double(random, arg.name),
            ArgKind::String => values::string(random, arg.name, self.group, many),
        };
        request.push(value);
    }
}
