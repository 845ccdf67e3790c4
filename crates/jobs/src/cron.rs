//! Schedules: each pushes a payload onto its queue at the times that it names.
//!
//! A schedule is a field of a hash, `zone missed schedule\npayload`, and a member of a sorted set, by its
//! next time. The push and the next time are one unit of the log, so a server that takes over neither pushes
//! twice nor leaves a push out.

use std::str::from_utf8;

use config::{Schedule, Zone};
use ds::hash::Hash;
use ds::zset::ZSet;
use engine::{CommandError, Store, peek_into};

use crate::job::{Jobs, wrong_type};
use crate::promote::in_seconds;

/// A push that is later than this was missed: the server was not running, or was paused.
const MISSED_MS: i64 = 10_000;

/// How missed times are handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Missed {
    /// One push makes up for all missed times.
    Once,
    /// Missed times are skipped.
    Skip,
}

impl Missed {
    const ALL: [(Missed, &str); 2] = [(Missed::Once, "once"), (Missed::Skip, "skip")];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    pub(crate) fn parse(word: &[u8]) -> Option<Missed> {
        Self::ALL
            .iter()
            .find(|(_, name)| word.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(missed, _)| *missed)
    }
}

/// A schedule: the payload that it pushes, and its times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    pub(crate) schedule: String,
    pub(crate) zone: String,
    pub(crate) missed: Missed,
    pub(crate) payload: Vec<u8>,
}

impl Line {
    fn encode(&self) -> Vec<u8> {
        let Line { schedule, zone, missed, payload } = self;
        [format!("{zone} {} {schedule}\n", missed.name()).as_bytes(), payload].concat()
    }

    fn decode(text: &[u8]) -> Option<Line> {
        let (line, payload) = text.split_at(memchr::memchr(b'\n', text)?);
        let mut words = from_utf8(line).ok()?.splitn(3, ' ');
        let (zone, missed) = (words.next()?.to_owned(), Missed::parse(words.next()?.as_bytes())?);
        Some(Line { schedule: words.next()?.to_owned(), zone, missed, payload: payload[1..].to_vec() })
    }

    /// Whether the schedule names recurring times.
    pub(crate) fn recurs(&self) -> bool {
        Schedule::parse_with_seconds(&self.schedule).is_ok_and(|schedule| schedule.recurs())
    }

    /// The first time after `after_ms`.
    ///
    /// # Errors
    /// If the schedule or the zone is not valid, or the schedule never comes.
    pub(crate) fn next_ms(&self, after_ms: i64) -> Result<i64, CommandError> {
        let zone = Zone::named(&self.zone).ok_or_else(|| {
            CommandError::new(format!(
                "ERR '{}' is no time zone: give a name such as Europe/Berlin, or UTC",
                self.zone.escape_debug()
            ))
        })?;
        let schedule = Schedule::parse_with_seconds(&self.schedule).map_err(|error| {
            CommandError::new(format!(
                "ERR '{}' is no schedule such as \"*/5 * * * *\": {error}",
                self.schedule.escape_debug()
            ))
        })?;
        let next_ms = schedule.next_ms(after_ms, &zone);
        next_ms.ok_or_else(|| CommandError::new(format!("ERR the schedule '{}' never comes", self.schedule)))
    }
}

impl Jobs<'_> {
    /// The schedule `name`; `None` if it does not exist.
    ///
    /// # Errors
    /// If a key beside the queue holds something else.
    pub(crate) fn line(&self, store: &Store, name: &[u8]) -> Result<Option<Line>, CommandError> {
        let mut buffer = Vec::new();
        let key = self.names.lines();
        let lines = peek_into::<Hash>(store, &key, &mut buffer).map_err(|_| wrong_type(&key))?;
        Ok(lines.and_then(|lines| Line::decode(&lines.get(name)?.bytes())))
    }

    /// The names of all schedules with their next times in ms, the earliest first.
    pub(crate) fn scheduled(&self, store: &Store) -> Result<Vec<(Vec<u8>, i64)>, CommandError> {
        let key = self.names.cron();
        let cron = store.peek_as::<ZSet>(&key).map_err(|_| wrong_type(&key))?;
        let all = cron.map(|cron| cron.iter().map(|(name, ms)| (name.to_vec(), ms as i64)).collect());
        Ok(all.unwrap_or_default())
    }

    /// Sets a schedule and returns its next time in ms. A schedule that is set again unchanged keeps its next
    /// time: a client that sets it at each start loses no missed push.
    pub(crate) fn set_line(&self, store: &mut Store, name: &[u8], line: &Line) -> Result<i64, CommandError> {
        let now_ms = store.now();
        let next_ms = line.next_ms(now_ms)?;
        let is_same = self.line(store, name)?.as_ref() == Some(line);
        let cron = self.names.cron();
        let present = store.peek_as::<ZSet>(&cron).map_err(|_| wrong_type(&cron))?;
        if let Some(due_ms) = present.and_then(|present| present.score(name)).filter(|_| is_same) {
            return Ok(due_ms as i64);
        }
        Self::set_field(store, &self.names.lines(), name, &line.encode())?;
        self.set_due(store, &cron, name, next_ms)?;
        Ok(next_ms)
    }

    /// Deletes a schedule; false if there is none.
    pub(crate) fn delete_line(&self, store: &mut Store, name: &[u8]) -> Result<bool, CommandError> {
        let was_there = self.line(store, name)?.is_some();
        Self::take_out(store, &self.names.cron(), name)?;
        Self::remove_field(store, &self.names.lines(), name)?;
        Ok(was_there)
    }

    /// Pushes the payload of a schedule now; false if there is no such schedule.
    pub(crate) fn push_line(&self, store: &mut Store, name: &[u8]) -> Result<bool, CommandError> {
        let Some(line) = self.line(store, name)? else { return Ok(false) };
        let payload = filled(&line.payload, store, self.queue);
        let end = self.coming_end(store);
        Self::push(store, self.queue, end, &payload)?;
        Ok(true)
    }

    /// Runs a schedule whose time has come.
    pub(crate) fn tick(&self, store: &mut Store, name: &[u8]) -> Result<(), CommandError> {
        let (key, now_ms) = (self.names.cron(), store.now());
        let Some(line) = self.line(store, name)? else {
            Self::take_out(store, &key, name)?;
            return Ok(());
        };
        let due_ms = store.peek_as::<ZSet>(&key)?.and_then(|cron| cron.score(name));
        let late_ms = now_ms - due_ms.unwrap_or_default() as i64;
        match line.next_ms(now_ms) {
            Ok(next_ms) => _ = self.set_due(store, &key, name, next_ms)?,
            // For example, the machine no longer has the time zone.
            Err(error) => {
                Self::take_out(store, &key, name)?;
                let (name, queue) = (name.escape_ascii(), self.queue.escape_ascii());
                tracing::warn!(
                    "the schedule {name} of the queue {queue} has come for the last time: {error}"
                );
            }
        }
        if late_ms <= MISSED_MS || line.missed == Missed::Once {
            self.push_line(store, name)?;
        }
        Ok(())
    }
}

/// Fills in the parts of a payload that differ from push to push: `%{id}`, 24 random hexadecimal digits;
/// `%{time}`, the seconds since 1970 with three decimals; and `%{time_ms}`, the milliseconds since 1970.
fn filled(payload: &[u8], store: &mut Store, queue: &[u8]) -> Vec<u8> {
    let (mut text, mut rest) = (Vec::with_capacity(payload.len() + 24), payload);
    while let Some(at) = memchr::memmem::find(rest, b"%{") {
        let (before, found) = rest.split_at(at);
        text.extend_from_slice(before);
        let now_ms = store.now();
        let (len, value) = match found {
            [b'%', b'{', b'i', b'd', b'}', ..] => {
                let random = store.random(queue);
                let (high, low) = (random.next_u64(), random.next_u64() as u32);
                (5, format!("{high:016x}{low:08x}"))
            }
            found if found.starts_with(b"%{time}") => (7, in_seconds(now_ms)),
            found if found.starts_with(b"%{time_ms}") => (10, now_ms.to_string()),
            _ => (2, "%{".to_owned()),
        };
        text.extend_from_slice(value.as_bytes());
        rest = &found[len..];
    }
    text.extend_from_slice(rest);
    text
}
