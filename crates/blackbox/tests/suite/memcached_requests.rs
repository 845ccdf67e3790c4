//! Random requests of memcached's protocol, in which `@<number>@` stands for a cas number that was seen.
//!
//! There are three kinds of keys. Text keys never hold a number, because memcached leaves blanks behind a number
//! that became shorter, and `append` would add after them. Base64 keys are always sent in base64.

use std::collections::BTreeMap;

use ds::random::Random;

/// Keys for text, then keys for numbers.
pub(crate) const KEYS: &[&str] = &["a", "b", "key:with:a:long:name", "n1", "n2"];
const TEXT_KEYS: usize = 3;
const BINARY_KEYS: &[&str] = &["aGVsbG8gd29ybGQ=", "AP/+"];

/// Replies that must have occurred.
pub(crate) const REPLIES: &[&str] = &[
    "STORED",
    "NOT_STORED",
    "EXISTS",
    "NOT_FOUND",
    "DELETED",
    "TOUCHED",
    "OK",
    "ERROR",
    "END",
    "VALUE",
    "VERSION",
    "HD",
    "VA",
    "NS",
    "NF",
    "EX",
    "EN",
    "ME",
    "CLIENT_ERROR bad",
    "CLIENT_ERROR invalid",
    "CLIENT_ERROR cannot",
    "CLIENT_ERROR duplicate",
    "SERVER_ERROR object",
];

const FLAGS: &[&str] = &["0", "0", "1", "65535", "4294967295", "4294967296", "-1", "x"];
const TIMES: &[&str] =
    &["0", "0", "0", "100", "1000", "2592000", "2592001", "2000000000", "-1", "4294967396", "x"];
const META_TIMES: &[&str] = &["0", "100", "1000", "2592000", "2000000000"];
const DELTAS: &[&str] =
    &["0", "1", "7", "9000000000", "18446744073709551615", "18446744073709551616", "-1", "x"];
const TEXTS: &[&str] =
    &["", "v", "hello", "a\r\nb", "\0\x7f", "value of some more bytes, so that it lies elsewhere"];
const NUMBERS: &[&str] = &["0", "9", "10", "18446744073709551615", "99999999999999999999", "100000", "x", ""];

pub(crate) struct Generator {
    random: Random,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Generator { random: Random::new(seed) }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn key(&mut self) -> String {
        if self.percent(1) { "k".repeat(250 + self.below(2)) } else { self.pick(KEYS).to_owned() }
    }

    fn is_number(key: &str) -> bool {
        key.starts_with('n')
    }

    /// A cas number: one of the `seen` ones, mostly a recent one, or an invalid one.
    fn cas(&mut self, seen: usize) -> String {
        match self.below(8) {
            0 => "0".to_owned(),
            1 => "9000000000000000000".to_owned(),
            2 => "x".to_owned(),
            _ if seen == 0 => "9000000000000000000".to_owned(),
            _ => format!("@{}@", seen - 1 - self.below(seen.min(4))),
        }
    }

    /// Several requests in a row.
    pub(crate) fn requests(&mut self, seen: usize, of_key: &BTreeMap<String, Vec<usize>>) -> Vec<u8> {
        // Alone, because with this error memcached drops the replies to what came before it.
        if self.percent(1) {
            return format!("get nothing {} b\r\n", "k".repeat(250 + self.below(2))).into_bytes();
        }
        let count = if self.percent(30) { 1 + self.below(12) } else { 1 };
        let mut requests = Vec::new();
        for _ in 0..count {
            let request = self.request(seen, of_key);
            requests.extend_from_slice(request.as_bytes());
        }
        requests
    }

    /// Requests that show the state: of text keys without changing anything and, if `with_values`, all values.
    pub(crate) fn state(&self, with_values: bool) -> Vec<u8> {
        let mut requests: String = KEYS[..TEXT_KEYS].iter().map(|key| format!("me {key}\r\n")).collect();
        if with_values {
            requests += &format!("gets {}\r\n", KEYS.join(" "));
        }
        requests.into_bytes()
    }

    fn request(&mut self, seen: usize, of_key: &BTreeMap<String, Vec<usize>>) -> String {
        let noreply = if self.percent(8) { " noreply" } else { "" };
        match self.below(40) {
            0..6 => self.storage(seen),
            6..10 => {
                let keys: Vec<&str> = (0..1 + self.below(4)).map(|_| self.pick(KEYS)).collect();
                format!("{} {}\r\n", self.pick(&["get", "gets", "bget"]), keys.join(" "))
            }
            10 | 11 => {
                let (verb, time) = (self.pick(&["gat", "gats"]), self.pick(TIMES));
                format!("{verb} {time} {}\r\n", self.pick(KEYS))
            }
            12..14 => format!("touch {} {}{noreply}\r\n", self.key(), self.pick(TIMES)),
            14..17 => {
                let (verb, key) = (self.pick(&["incr", "decr"]), self.key());
                format!("{verb} {key} {}{noreply}\r\n", self.pick(DELTAS))
            }
            17 => format!(
                "delete {}{}\r\n",
                self.key(),
                self.pick(&["", "", " 0", " noreply", " 5", " 0 noreply", " 5 noreply"])
            ),
            18..24 => self.meta_get(),
            24..30 => self.meta_set(seen, of_key),
            30..32 => self.meta_delete(seen),
            32..35 => self.meta_arithmetic(seen),
            35 | 36 => match self.below(3) {
                0 => format!("me {} b\r\n", self.pick(BINARY_KEYS)),
                // It is not recorded whether a number was read before it was incremented.
                _ => format!("me {}\r\n", self.pick(&KEYS[..TEXT_KEYS])),
            },
            _ => self.oddity(),
        }
    }

    fn storage(&mut self, seen: usize) -> String {
        let key = self.key();
        let is_number = Self::is_number(&key);
        let verbs: &[&str] = match is_number {
            true => &["set", "set", "add", "replace", "cas"],
            false => &["set", "set", "add", "replace", "cas", "cas", "append", "prepend"],
        };
        let (verb, value) = (self.pick(verbs), self.pick(if is_number { NUMBERS } else { TEXTS }));
        let cas = if verb == "cas" { format!(" {}", self.cas(seen)) } else { String::new() };
        let length = match self.below(40) {
            0 => "-1".to_owned(),
            1 => "x".to_owned(),
            2 if !value.is_empty() => (value.len() - 1).to_string(),
            3 if verb != "cas" => return self.too_large(&key, |key| format!("{verb} {key} 0 0 1048577")),
            _ => value.len().to_string(),
        };
        let noreply = self.pick(&["", "", "", "", "", " noreply", " more"]);
        format!(
            "{verb} {key} {} {} {length}{cas}{noreply}\r\n{value}\r\n",
            self.pick(FLAGS),
            self.pick(TIMES)
        )
    }

    /// A value that is too large, under a key that is short enough, so that the value is not taken for a request.
    fn too_large(&mut self, key: &str, line: impl FnOnce(&str) -> String) -> String {
        format!("{}\r\n{}\r\n", line(&key[..key.len().min(250)]), "x".repeat(1_048_577))
    }

    /// Flags in random order, each with its probability; sometimes an invalid one.
    fn flags(&mut self, flags: &[(String, usize)]) -> String {
        let mut chosen: Vec<String> = Vec::new();
        for (flag, chance) in flags {
            if self.percent(*chance) {
                chosen.insert(self.below(chosen.len() + 1), flag.clone());
            }
        }
        if self.percent(2) {
            chosen.push(
                self.pick(&["!", "T", "Tx", "Jx", "Dx", "Cx", "MXX", "S", "F", "k k", "\u{7f}"]).to_owned(),
            );
        }
        chosen.iter().map(|flag| format!(" {flag}")).collect()
    }

    /// A key for a meta command, and the flag that it requires.
    fn meta_key(&mut self) -> (String, &'static str) {
        if self.percent(15) { (self.pick(BINARY_KEYS).to_owned(), " b") } else { (self.key(), "") }
    }

    fn some(flag: &str, chance: usize) -> (String, usize) {
        (flag.to_owned(), chance)
    }

    fn meta_get(&mut self) -> String {
        let (key, binary) = self.meta_key();
        let is_number = Self::is_number(&key);
        let some = Self::some;
        let (time, vivify, recache) =
            (self.pick(META_TIMES), self.pick(META_TIMES), self.pick(&["50", "500", "0", "-1"]));
        let flags = self.flags(&[
            some("v", 50),
            some("c", 30),
            some("f", 30),
            some("t", 30),
            some("l", 10),
            some("k", 30),
            some("q", 15),
            some("u", 20),
            some("O123", 20),
            some("h", if is_number { 0 } else { 40 }),
            some("s", if is_number { 0 } else { 30 }),
            (format!("T{time}"), 10),
            (format!("N{vivify}"), if binary.is_empty() && !is_number { 15 } else { 0 }),
            (format!("R{recache}"), if is_number { 0 } else { 20 }),
        ]);
        format!("mg {key}{binary}{flags}\r\n")
    }

    fn meta_set(&mut self, seen: usize, of_key: &BTreeMap<String, Vec<usize>>) -> String {
        let (key, binary) = self.meta_key();
        let is_number = Self::is_number(&key);
        let value = self.pick(if is_number { NUMBERS } else { TEXTS });
        // If something is appended to a base64 key, memcached forgets that the key is one.
        let modes: &[&str] = match is_number || !binary.is_empty() {
            true => &["MS", "ME", "MR"],
            false => &["MS", "ME", "MR", "MA", "MP", "MX"],
        };
        let (mode, time, mut cas) = (self.pick(modes), self.pick(META_TIMES), self.cas(seen));
        // Only for a single key is the order of two cas numbers the same on both servers.
        let own = of_key.get(&key).map(Vec::as_slice).unwrap_or_default();
        let may_be_stale = binary.is_empty() && !is_number && !own.is_empty() && self.percent(40);
        if may_be_stale {
            cas = format!("@{}@", own[own.len() - 1 - self.below(own.len().min(5))]);
        }
        let client_flags = format!("F{}", self.pick(FLAGS));
        let flags = self.flags(&[
            (mode.to_owned(), 40),
            (format!("T{time}"), 30),
            (client_flags, 30),
            (format!("C{cas}"), 30),
            Self::some("I", if may_be_stale { 60 } else { 0 }),
            Self::some("c", 40),
            Self::some("k", 20),
            Self::some("q", 20),
            Self::some("O9", 20),
        ]);
        let length = match self.below(40) {
            0 => "-1".to_owned(),
            1 => "S2".to_owned(),
            2 if !value.is_empty() => (value.len() - 1).to_string(),
            3 => return self.too_large(&key, |key| format!("ms {key} 1048577{binary}{flags}")),
            _ => value.len().to_string(),
        };
        format!("ms {key} {length}{binary}{flags}\r\n{value}\r\n")
    }

    fn meta_delete(&mut self, seen: usize) -> String {
        let (key, binary) = self.meta_key();
        let is_number = Self::is_number(&key);
        let (time, cas) = (self.pick(META_TIMES), self.cas(seen));
        let flags = self.flags(&[
            Self::some("I", if is_number { 0 } else { 60 }),
            (format!("T{time}"), 20),
            (format!("C{cas}"), 30),
            Self::some("k", 20),
            Self::some("q", 20),
            Self::some("O9", 20),
        ]);
        format!("md {key}{binary}{flags}\r\n")
    }

    /// Without a time to live: when a number becomes longer, memcached gives that to the old item.
    fn meta_arithmetic(&mut self, seen: usize) -> String {
        let key = self.pick(&["n1", "n2", "n1", "n2", "a"]);
        let (mode, time) = (self.pick(&["MI", "M+", "MD", "M-", "MX"]), self.pick(META_TIMES));
        let (delta, initial) = (self.pick(DELTAS), self.pick(&["0", "13", "18446744073709551615"]));
        let (cas, is_number) = (self.cas(seen), Self::is_number(key));
        let flags = self.flags(&[
            (mode.to_owned(), 50),
            (format!("D{delta}"), 40),
            (format!("J{initial}"), 30),
            (format!("N{time}"), if is_number { 30 } else { 0 }),
            (format!("C{cas}"), 15),
            Self::some("v", 60),
            Self::some("c", 30),
            Self::some("t", 30),
            Self::some("k", 20),
            Self::some("q", 20),
            Self::some("O9", 20),
        ]);
        format!("ma {key}{flags}\r\n")
    }

    /// An invalid request, or one that is not about an item.
    fn oddity(&mut self) -> String {
        self.pick(&[
            "\r\n",
            "\n",
            "x\r\n",
            "GET a\r\n",
            "get\r\n",
            "gets\r\n",
            "gat 100\r\n",
            "gat x\r\n",
            "set a 0 0\r\n",
            "set a 0 0 1 2 3\r\n",
            "cas a 0 0 1\r\n",
            "incr n1\r\n",
            "incr n1 1 2 3\r\n",
            "delete\r\n",
            "delete a 0 noreply more\r\n",
            "touch a\r\n",
            "flush_all\r\n",
            "flush_all 0\r\n",
            "flush_all -1\r\n",
            "flush_all noreply\r\n",
            "flush_all 0 noreply\r\n",
            "flush_all x\r\n",
            "flush_all 1 2 3\r\n",
            "verbosity\r\n",
            "verbosity 1\r\n",
            "verbosity x\r\n",
            "verbosity 1 noreply\r\n",
            "verbosity 1 2 3\r\n",
            "version\r\n",
            "version more\r\n",
            "shutdown\r\n",
            "cache_memlimit\r\n",
            "cache_memlimit x\r\n",
            "cache_memlimit 7\r\n",
            "cache_memlimit 1000 noreply\r\n",
            "cache_memlimit 4294967295\r\n",
            "stats cachedump\r\n",
            "stats cachedump 64 1\r\n",
            "stats cachedump x 1\r\n",
            "stats nothing\r\n",
            "stats detail\r\n",
            "stats sizes\r\n",
            "me\r\n",
            "mg\r\n",
            "mz a\r\n",
            "ms a\r\n",
            "ms a x\r\n",
            "mg !!! b k\r\n",
            "mg AAA b\r\n",
            "me !!! b\r\n",
            "   get    a   b  \r\n",
            "get a\0b c\r\n",
            "mg a k O P L s t c f v h u q T5 R5 MI F1 J1 D1\r\n",
            "md a k O P L s t c f v h u q N5 T5 R5 MI F1 J1 D1\r\n",
            "ms a 2 k O P L s t c f v h u q N5 T5 R5 MI F1 J1 D1\r\n",
        ])
        .to_owned()
    }
}
