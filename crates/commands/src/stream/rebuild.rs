//! The commands that build a stream from scratch.
//!
//! A deleted entry may still be pending. It is added like the others, so that it can be claimed, and then
//! removed again: by a trim if it came before the first entry, otherwise by a deletion. The counters of the
//! stream are set at the end.

use std::collections::BTreeSet;

use ds::stream::{Group, Pending, Stream, StreamId};

use super::effects::entries_read_text;
use super::{producers, release};

/// Pending entries in one claim, or ids in one deletion.
const IDS_AT_ONCE_MAX: usize = 64;

type Line = Vec<Box<[u8]>>;

/// The commands that create `key`, which must not exist, with this value.
pub(crate) fn commands(key: &[u8], stream: &Stream) -> Vec<Line> {
    let mut lines = Vec::new();
    let log = &stream.log;
    let all = StreamId::MIN..=StreamId::MAX;
    let pending = stream.groups.values().flat_map(|group| group.pending_range(all.clone()));
    let gone: BTreeSet<StreamId> =
        pending.map(|(id, _)| id).filter(|&id| id <= log.last_id && !log.contains(id)).collect();
    let mut gone_left = gone.iter().copied().peekable();
    let mut add_gone = |lines: &mut Vec<Line>, before: StreamId| {
        while let Some(id) = gone_left.next_if(|id| *id < before) {
            lines.push(line(&[b"XADD", key, id.to_string().as_bytes(), b"-", b"-"]));
        }
    };
    for (id, fields) in log.range(StreamId::MIN, StreamId::MAX) {
        add_gone(&mut lines, id);
        let mut add = line(&[b"XADD", key, id.to_string().as_bytes()]);
        add.extend(fields.flat_map(|(field, value)| [field.into(), value.into()]));
        lines.push(add);
    }
    add_gone(&mut lines, StreamId::MAX);
    if lines.is_empty() {
        lines.push(line(&[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"-", b"-"]));
    }
    for (name, group) in &stream.groups {
        add_group(&mut lines, key, name, group, &|id| log.contains(id) || gone.contains(&id));
    }
    if let Some(producers) = &stream.producers {
        lines.extend(producers::lines(key, producers, |id| log.contains(id)));
    }
    remove(&mut lines, key, stream, &gone);
    let (last, added, deleted) =
        (log.last_id.to_string(), log.entries_added.to_string(), log.max_deleted_id.to_string());
    let words: [&[u8]; 3] = [b"XSETID", key, last.as_bytes()];
    let rest: [&[u8]; 4] = [b"ENTRIESADDED", added.as_bytes(), b"MAXDELETEDID", deleted.as_bytes()];
    lines.push(line(&[&words[..], &rest].concat()));
    lines
}

fn add_group(
    lines: &mut Vec<Line>,
    key: &[u8],
    name: &[u8],
    group: &Group,
    is_there: &dyn Fn(StreamId) -> bool,
) {
    let (last, read) = (group.last_id.to_string(), entries_read_text(group.entries_read()));
    let words: [&[u8]; 5] = [b"XGROUP", b"CREATE", key, name, last.as_bytes()];
    lines.push(line(&[&words[..], &[b"ENTRIESREAD", read.as_bytes()]].concat()));
    for consumer in group.consumers() {
        lines.push(line(&[b"XGROUP", b"CREATECONSUMER", key, name, consumer.name()]));
    }
    let pending: Vec<(StreamId, Pending)> = group
        .pending_range(StreamId::MIN..=StreamId::MAX)
        .filter(|(id, pending)| is_there(*id) && pending.consumer.is_some())
        .map(|(id, pending)| (id, *pending))
        .collect();
    let released: Vec<(StreamId, i64)> = group
        .released()
        .filter_map(|id| group.pending(id).map(|pending| (id, pending.delivery_count)))
        .filter(|(id, _)| is_there(*id))
        .collect();
    lines.extend(release::lines(key, name, &released));
    for same in pending.chunk_by(|one, other| one.1 == other.1) {
        let Pending { consumer, delivered_ms, delivery_count } = same[0].1;
        for chunk in same.chunks(IDS_AT_ONCE_MAX) {
            let owner = consumer.map_or(&b""[..], |consumer| group.consumer(consumer).name());
            let mut claim = line(&[b"XCLAIM", key, name, owner, b"0"]);
            claim.extend(chunk.iter().map(|(id, _)| id.to_string().into_bytes().into()));
            let (time, count) = (delivered_ms.to_string(), delivery_count.to_string());
            claim.extend(line(&[b"TIME", time.as_bytes(), b"RETRYCOUNT", count.as_bytes()]));
            claim.extend(line(&[b"FORCE", b"JUSTID"]));
            lines.push(claim);
        }
    }
}

/// Removes the entries that are `gone`.
fn remove(lines: &mut Vec<Line>, key: &[u8], stream: &Stream, gone: &BTreeSet<StreamId>) {
    if gone.is_empty() {
        return;
    }
    let log = &stream.log;
    if log.is_empty() {
        return lines.push(line(&[b"XTRIM", key, b"MAXLEN", b"0"]));
    }
    let first = log.first_id();
    lines.push(line(&[b"XTRIM", key, b"MINID", first.to_string().as_bytes()]));
    let deleted: Vec<StreamId> = gone.range(first..).copied().collect();
    for chunk in deleted.chunks(IDS_AT_ONCE_MAX) {
        let mut delete = line(&[b"XDEL", key]);
        delete.extend(chunk.iter().map(|id| id.to_string().into_bytes().into()));
        lines.push(delete);
    }
}

fn line(words: &[&[u8]]) -> Line {
    words.iter().map(|&word| word.into()).collect()
}
