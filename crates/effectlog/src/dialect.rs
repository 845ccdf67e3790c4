//! Translates the stream for readers that do not understand all of it, such as older replicas.
//!
//! Offsets in the stream are the same for all readers, so a command that the reader does not understand is
//! replaced by an equal number of bytes. Redis skips newlines between commands, and counts them.
//!
//! | not known | instead | what the reader lacks |
//! |---|---|---|
//! | `DARTER.MARK` | newlines | flags and cas numbers of memcached's items |
//! | `HPEXPIREAT`, `HPERSIST` | newlines | when fields expire; that they have expired comes as `HDEL` |
//! | `SPEXPIREAT`, `SPERSIST` | newlines | when members of sets expire; that they have expired comes as `SREM` |
//! | `HSETEX` | `HSET`, newlines | nothing more |
//! | `BF.ADD` and other commands of sketches, `RESTORE` of a sketch | newlines | the sketch |
//! | `XNACK` | `XCLAIM` for a consumer without a name, newlines | that no consumer has these entries |
//! | `XCFGSET`, `XIDMPRECORD` | newlines | which messages of producers are known |

use crate::record::{Effect, write_number};

/// The first release of Redis that knows a command.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum RedisVersion {
    /// The oldest release that can be a replica.
    #[default]
    V7_0,
    /// Fields of hashes can expire.
    V7_4,
    /// Fields of hashes can be written without changing their expiry.
    V8_0,
    /// Streams know the last messages of their producers.
    V8_6,
    /// Pending entries of streams can be released, and messages of producers recorded.
    V8_8,
    /// Members of sets can expire.
    V8_12,
}

/// See the head of this file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Dialect {
    /// The first release of Redis that knows all commands, except Darter's own.
    pub version: RedisVersion,
    /// Whether there are Darter's own commands.
    pub has_own: bool,
}

impl Dialect {
    /// Adds the commands in a piece of another stream.
    pub(crate) fn add_copy(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some(next) = Next::split(&mut rest) {
            if let Next::Command(effect) = next {
                self.add(effect);
            }
        }
    }

    /// Adds a command.
    pub(crate) fn add(&mut self, effect: Effect<'_>) {
        let name = effect.name();
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        // Nearly all are told apart by their first letter.
        match name.first().map(u8::to_ascii_uppercase) {
            Some(b'D' | b'B' | b'C' | b'R' | b'T') => self.has_own |= effect.is_darters_own(),
            Some(b'H') if is(b"HPEXPIREAT") || is(b"HPERSIST") => {
                self.version = self.version.max(RedisVersion::V7_4)
            }
            Some(b'H') if is(b"HSETEX") => self.version = self.version.max(RedisVersion::V8_0),
            Some(b'X') if is(b"XCFGSET") => self.version = self.version.max(RedisVersion::V8_6),
            Some(b'X') if is(b"XNACK") || is(b"XIDMPRECORD") => {
                self.version = self.version.max(RedisVersion::V8_8);
            }
            Some(b'S') if is(b"SPEXPIREAT") || is(b"SPERSIST") => self.version = RedisVersion::V8_12,
            _ => {}
        }
    }
}

/// The next part of a payload.
enum Next<'p> {
    /// A command of the protocol.
    Command(Effect<'p>),
    /// Lines: a copied stream contains empty ones, and may contain inline commands.
    Lines(&'p [u8]),
}

impl<'p> Next<'p> {
    /// Takes the next part off the front; `None` at the end.
    fn split(rest: &mut &'p [u8]) -> Option<Next<'p>> {
        let length = match rest.first()? {
            b'*' => {
                let (effect, after) = Effect::split_first(rest);
                *rest = after;
                return Some(Next::Command(effect));
            }
            b'\n' => rest.iter().position(|byte| *byte != b'\n'),
            _ => rest.iter().position(|byte| *byte == b'\n').map(|end| end + 1),
        };
        let (lines, after) = rest.split_at(length.unwrap_or(rest.len()));
        *rest = after;
        Some(Next::Lines(lines))
    }
}

/// Translates a payload for this release of Redis. The result has the same length. Also returns how many commands were
/// left out.
pub(crate) fn translated(payload: &[u8], version: RedisVersion) -> (Vec<u8>, u64) {
    let mut out = Vec::with_capacity(payload.len());
    let mut left_out = 0;
    let mut rest = payload;
    while let Some(next) = Next::split(&mut rest) {
        let effect = match next {
            Next::Command(effect) => effect,
            Next::Lines(lines) => {
                out.extend_from_slice(lines);
                continue;
            }
        };
        let mut dialect = Dialect::default();
        dialect.add(effect);
        let end = out.len() + effect.command.len();
        if !dialect.has_own && dialect.version <= version {
            out.extend_from_slice(effect.command);
        } else if effect.name().eq_ignore_ascii_case(b"HSETEX") {
            write_hset(effect, &mut out);
        } else if !(effect.name().eq_ignore_ascii_case(b"XNACK") && write_claim(effect, &mut out)) {
            left_out += 1;
        }
        assert!(out.len() <= end, "what replaces a command is no longer");
        out.resize(end, b'\n');
    }
    (out, left_out)
}

/// Writes `HSETEX key [KEEPTTL] FIELDS count field value …` as `HSET key field value …`, which is shorter.
fn write_hset(effect: Effect<'_>, out: &mut Vec<u8>) {
    let args = effect.args();
    let word = args.iter().skip(2).position(|arg| arg.eq_ignore_ascii_case(b"FIELDS"));
    let pairs = word.and_then(|word| args.get(word + 4..)).unwrap_or_default();
    if pairs.is_empty() {
        return;
    }
    write_command(out, &[&[&b"HSET"[..], args[1]], pairs].concat());
}

/// Writes `XNACK key group mode IDS count id … RETRYCOUNT n FORCE FORCE` as a claim for a consumer without a name:
/// `XCLAIM key group "" 0 id … TIME 0 RETRYCOUNT n FORCE`. False, and nothing, for an XNACK of another form.
fn write_claim(effect: Effect<'_>, out: &mut Vec<u8>) -> bool {
    let args = effect.args();
    let [_, key, group, _, _, _, ids @ .., _, count, force, again] = &args[..] else { return false };
    let is = |index: usize, word: &[u8]| args[index].eq_ignore_ascii_case(word);
    let is_plain = is(4, b"IDS") && args[5] == ids.len().to_string().as_bytes();
    let ends = [*force, *again].iter().all(|word| word.eq_ignore_ascii_case(b"FORCE"));
    if !is_plain || !ends || !is(args.len() - 4, b"RETRYCOUNT") {
        return false;
    }
    let begin = [&b"XCLAIM"[..], key, group, b"", b"0"];
    write_command(out, &[&begin, ids, &[b"TIME", b"0", b"RETRYCOUNT", count, b"FORCE"]].concat());
    true
}

fn write_command(out: &mut Vec<u8>, args: &[&[u8]]) {
    write_number(out, b'*', args.len());
    for arg in args {
        write_number(out, b'$', arg.len());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn lines_in_the_copy_of_another_stream_stay() {
        let payload = b"\n\n*1\r\n$4\r\nPING\r\n\nSET k v\r\n\n*2\r\n$5\r\nHMGET\r\n$1\r\n*\r\n\r\n\nPI";
        assert_eq!(translated(payload, RedisVersion::V7_0), (payload.to_vec(), 0));
    }

    #[test]
    fn what_a_copy_has_is_noted_as_if_it_was_done_here() {
        let check = |piece: &str, version, has_own| {
            let mut dialect = Dialect::default();
            dialect.add_copy(piece.replace(' ', "\r\n").as_bytes());
            assert_eq!(dialect, Dialect { version, has_own }, "{piece}");
        };
        check("", RedisVersion::V7_0, false);
        check("\n\n*1 $4 PING \nSET k v\n*1 $4 HDEL ", RedisVersion::V7_0, false);
        check("\n*1 $4 PING \n\n*1 $8 hpersist ", RedisVersion::V7_4, false);
        check("*1 $11 DARTER.MARK *1 $6 HSETEX *1 $10 HPEXPIREAT ", RedisVersion::V8_0, true);
    }

    #[test]
    fn what_a_reader_does_not_know_is_as_long() {
        let check = |line: &[&[u8]], expected: [&[&[u8]]; 3]| {
            let encoded = |args: &[&[u8]]| {
                let mut record = Record::default();
                record.push(0, args);
                record.end_unit();
                let unit = record.units().next().expect("there is one");
                unit.effects().next().expect("there is one").command.to_vec()
            };
            let payload = [encoded(line), encoded(&[b"PING"])].concat();
            let versions = [RedisVersion::V7_0, RedisVersion::V7_4, RedisVersion::V8_0];
            for (version, expected) in versions.into_iter().zip(expected) {
                let command = if expected.is_empty() { Vec::new() } else { encoded(expected) };
                let newlines = vec![b'\n'; payload.len() - command.len() - encoded(&[b"PING"]).len()];
                let is_set = line[0].eq_ignore_ascii_case(b"HSETEX");
                let left_out = u64::from(command.is_empty() && !is_set);
                let expected = [command, newlines, encoded(&[b"PING"])].concat();
                assert_eq!(translated(&payload, version), (expected, left_out), "{version:?}");
            }
        };
        let expire: &[&[u8]] = &[b"HPEXPIREAT", b"h", b"17", b"FIELDS", b"1", b"f"];
        let set: &[&[u8]] = &[b"HSETEX", b"h", b"KEEPTTL", b"FIELDS", b"1", b"f", b"\r\n"];
        let hset: &[&[u8]] = &[b"HSET", b"h", b"f", b"\r\n"];
        check(&[b"DARTER.MARK", b"k", b"1"], [&[], &[], &[]]);
        check(expire, [&[], expire, expire]);
        check(&[b"hpersist", b"h"], [&[], &[b"hpersist", b"h"], &[b"hpersist", b"h"]]);
        check(set, [hset, hset, set]);
        let set: &[&[u8]] = &[b"HSETEX", b"FIELDS", b"FIELDS", b"1", b"FIELDS", b"v"];
        let hset: &[&[u8]] = &[b"HSET", b"FIELDS", b"FIELDS", b"v"];
        check(set, [hset, hset, set]);
        // In the copy of another stream.
        let set: &[&[u8]] = &[b"hsetex", b"h", b"FXX", b"PX", b"9", b"fields", b"1", b"f", b"v"];
        let hset: &[&[u8]] = &[b"HSET", b"h", b"f", b"v"];
        check(set, [hset, hset, set]);
        check(&[b"HSETEX"], [&[], &[], &[b"HSETEX"]]);
        check(&[b"HDEL", b"h", b"f"], [&[b"HDEL", b"h", b"f"]; 3]);
        // Released entries; the shortest form.
        let nack: &[&[u8]] =
            &[b"XNACK", b"", b"", b"FAIL", b"IDS", b"1", b"1-1", b"RETRYCOUNT", b"7", b"FORCE", b"FORCE"];
        let claim: &[&[u8]] =
            &[b"XCLAIM", b"", b"", b"", b"0", b"1-1", b"TIME", b"0", b"RETRYCOUNT", b"7", b"FORCE"];
        check(nack, [claim; 3]);
        for other in
            [&nack[..10], &[nack, &[b"FORCE"]].concat(), &[&nack[..4], &nack[7..9], &nack[4..7]].concat()]
        {
            check(other, [&[], &[], &[]]);
        }
        check(&[b"XIDMPRECORD", b"s", b"p", b"i", b"1-1"], [&[], &[], &[]]);
        check(&[b"xcfgset", b"s", b"IDMP-MAXSIZE", b"1"], [&[], &[], &[]]);
    }
}
