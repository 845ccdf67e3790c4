//! One command that changes a client's keys: as a request, and as a change of the model.
//!
//! Only commands whose effect the client can predict: none that chooses randomly, and none that reads a clock.

use super::model::{Body, Bytes, Contents, Model, change};

/// A command. Its keys belong to the client alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// `SET`.
    Set(String, Bytes),
    /// `SET … PXAT`: expires at this time, in milliseconds since 1970.
    SetUntil(String, Bytes, u64),
    /// `INCRBY`.
    Increment(String, i64),
    /// `DEL`.
    Delete(Vec<String>),
    /// `LPUSH`.
    PushHead(String, Bytes),
    /// `RPUSH`.
    PushTail(String, Bytes),
    /// `LPOP`.
    PopHead(String),
    /// `RPOP`.
    PopTail(String),
    /// `LMOVE … RIGHT LEFT`: from one list to another.
    Move(String, String),
    /// `HSET` of a field.
    SetField(String, Bytes, Bytes),
    /// `HDEL` of a field.
    DeleteField(String, Bytes),
    /// `ZADD` of a member.
    SetScore(String, Bytes, i64),
    /// `ZREM` of a member.
    RemoveScore(String, Bytes),
    /// `SADD` of a member.
    Add(String, Bytes),
    /// `SREM` of a member.
    Remove(String, Bytes),
    /// `XADD` with an id larger than all previous ones.
    Append(String, u64, Bytes),
    /// `XTRIM … MINID`.
    Trim(String, u64),
    /// `PEXPIREAT`: expires at this time, in milliseconds since 1970.
    Expire(String, u64),
    /// `EXISTS` that reported that the key has expired, so that later commands start with an empty key.
    SeeExpired(String),
    /// `PERSIST`.
    Persist(String),
    /// `RENAME` of an existing key.
    Rename(String, String),
    /// `FLUSHDB`, in a database of the client's own.
    Flush,
}

impl Deed {
    /// The command as a request.
    pub fn request(&self) -> Vec<Bytes> {
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        let with = |name: &[&str], args: &[&Bytes]| {
            let mut request = words(name);
            request.extend(args.iter().map(|arg| (*arg).clone()));
            request
        };
        match self {
            Deed::Set(key, value) => with(&["SET", key], &[value]),
            Deed::SetUntil(key, value, at) => {
                with(&["SET", key], &[value, &b"PXAT".to_vec(), &at.to_string().into_bytes()])
            }
            Deed::Increment(key, by) => words(&["INCRBY", key, &by.to_string()]),
            Deed::Delete(keys) => {
                words(&["DEL"]).into_iter().chain(keys.iter().map(|key| key.as_bytes().to_vec())).collect()
            }
            Deed::PushHead(key, value) => with(&["LPUSH", key], &[value]),
            Deed::PushTail(key, value) => with(&["RPUSH", key], &[value]),
            Deed::PopHead(key) => words(&["LPOP", key]),
            Deed::PopTail(key) => words(&["RPOP", key]),
            Deed::Move(from, to) => words(&["LMOVE", from, to, "RIGHT", "LEFT"]),
            Deed::SetField(key, field, value) => with(&["HSET", key], &[field, value]),
            Deed::DeleteField(key, field) => with(&["HDEL", key], &[field]),
            Deed::SetScore(key, member, score) => with(&["ZADD", key, &score.to_string()], &[member]),
            Deed::RemoveScore(key, member) => with(&["ZREM", key], &[member]),
            Deed::Add(key, member) => with(&["SADD", key], &[member]),
            Deed::Remove(key, member) => with(&["SREM", key], &[member]),
            Deed::Append(key, id, value) => with(&["XADD", key, &format!("{id}-0"), "v"], &[value]),
            Deed::Trim(key, id) => words(&["XTRIM", key, "MINID", &id.to_string()]),
            Deed::Expire(key, at) => words(&["PEXPIREAT", key, &at.to_string()]),
            Deed::SeeExpired(key) => words(&["EXISTS", key]),
            Deed::Persist(key) => words(&["PERSIST", key]),
            Deed::Rename(from, to) => words(&["RENAME", from, to]),
            Deed::Flush => words(&["FLUSHDB"]),
        }
    }

    /// The keys that it may change; empty for [`Deed::Flush`].
    pub fn keys(&self) -> Vec<&str> {
        match self {
            Deed::Delete(keys) => keys.iter().map(String::as_str).collect(),
            Deed::Move(from, to) | Deed::Rename(from, to) => vec![from, to],
            Deed::Set(key, _)
            | Deed::SetUntil(key, ..)
            | Deed::Increment(key, _)
            | Deed::PushHead(key, _)
            | Deed::PushTail(key, _)
            | Deed::PopHead(key)
            | Deed::PopTail(key)
            | Deed::SetField(key, ..)
            | Deed::DeleteField(key, _)
            | Deed::SetScore(key, ..)
            | Deed::RemoveScore(key, _)
            | Deed::Add(key, _)
            | Deed::Remove(key, _)
            | Deed::Append(key, ..)
            | Deed::Trim(key, _)
            | Deed::Expire(key, _)
            | Deed::SeeExpired(key)
            | Deed::Persist(key) => vec![key],
            Deed::Flush => Vec::new(),
        }
    }

    /// Applies it to the model.
    pub fn apply(&self, model: &mut Model) {
        let text = |value: &Bytes, expires_at| Contents { body: Body::Text(value.clone()), expires_at };
        match self {
            Deed::Set(key, value) => drop(model.insert(key.clone(), text(value, None))),
            Deed::SetUntil(key, value, at) => drop(model.insert(key.clone(), text(value, Some(*at)))),
            Deed::Increment(key, by) => change(model, key, |body| increment(body, *by)),
            Deed::Delete(keys) => keys.iter().for_each(|key| drop(model.remove(key))),
            Deed::SeeExpired(key) => drop(model.remove(key)),
            Deed::Expire(key, at) => drop(model.get_mut(key).map(|contents| contents.expires_at = Some(*at))),
            Deed::Persist(key) => drop(model.get_mut(key).map(|contents| contents.expires_at = None)),
            Deed::Rename(from, to) => {
                let contents = model.remove(from).expect("only keys that are there are renamed");
                model.insert(to.clone(), contents);
            }
            Deed::Flush => model.clear(),
            Deed::Move(from, to) => {
                if let Some(moved) = change(model, from, |body| pop(body, false)) {
                    change(model, to, |body| push(body, true, moved));
                }
            }
            Deed::PushHead(key, value) => change(model, key, |body| push(body, true, value.clone())),
            Deed::PushTail(key, value) => change(model, key, |body| push(body, false, value.clone())),
            Deed::PopHead(key) => drop(change(model, key, |body| pop(body, true))),
            Deed::PopTail(key) => drop(change(model, key, |body| pop(body, false))),
            _ => self.apply_to_members(model),
        }
    }

    /// The rest of [`apply`](Self::apply): hashes, sets, sorted sets and streams.
    fn apply_to_members(&self, model: &mut Model) {
        let key = self.keys()[0];
        // A stream remains when it is empty, so trimming must not create a missing one.
        if matches!(self, Deed::Trim(..)) && !model.contains_key(key) {
            return;
        }
        change(model, key, |body| match (self, body) {
            (Deed::SetField(_, field, value), Body::Hash(fields)) => {
                fields.insert(field.clone(), value.clone());
            }
            (Deed::DeleteField(_, field), Body::Hash(fields)) => drop(fields.remove(field)),
            (Deed::SetScore(_, member, score), Body::Scores(members)) => {
                members.insert(member.clone(), *score);
            }
            (Deed::RemoveScore(_, member), Body::Scores(members)) => drop(members.remove(member)),
            (Deed::Add(_, member), Body::Set(members)) => drop(members.insert(member.clone())),
            (Deed::Remove(_, member), Body::Set(members)) => drop(members.remove(member)),
            (Deed::Append(_, id, value), Body::Stream(entries)) => drop(entries.insert(*id, value.clone())),
            (Deed::Trim(_, id), Body::Stream(entries)) => *entries = entries.split_off(id),
            (deed, body) => unreachable!("{deed:?} on {body:?}"),
        });
    }
}

fn increment(body: &mut Body, by: i64) {
    let Body::Text(text) = body else { unreachable!("counters are strings") };
    let before: i64 =
        if text.is_empty() { 0 } else { String::from_utf8_lossy(text).parse().expect("a number") };
    *text = (before + by).to_string().into_bytes();
}

fn push(body: &mut Body, at_head: bool, value: Bytes) {
    let Body::List(items) = body else { unreachable!("only lists are pushed to") };
    if at_head { items.push_front(value) } else { items.push_back(value) }
}

fn pop(body: &mut Body, from_head: bool) -> Option<Bytes> {
    let Body::List(items) = body else { unreachable!("only lists are popped from") };
    if from_head { items.pop_front() } else { items.pop_back() }
}
