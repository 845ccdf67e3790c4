//! What holds for any bytes that a primary may send. Shared with the fuzz target.

use replication::link::{Event, Link, LinkOptions};
use resp::Limits;

/// What a replica got of a primary's bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Got {
    /// Events but for the snapshot's pieces, then the error if there was one.
    events: Vec<String>,
    snapshot: Vec<u8>,
    stream: Vec<u8>,
    said: Vec<u8>,
    offset: Option<u64>,
}

/// Any bytes of a primary: pieces make no difference, and nothing is made up.
pub(crate) fn check_primary(input: &[u8]) {
    let limits = Limits { bulk_bytes_max: 64, inline_bytes_max: 32, args_max: 8, authenticated: true };
    let options = LinkOptions {
        node: None,
        mark: None,
        credentials: None,
        port: 6380,
        address: None,
        resume: None,
        hands_over: false,
        forces: false,
        takes_snapshots: true,
        timeout_ms: 60_000,
        limits,
    };
    let whole = listen(input, &options, &[input.len()]);
    assert!(whole.snapshot.len() + whole.stream.len() <= input.len());
    assert_eq!(listen(input, &options, &[1]), whole);
    assert_eq!(listen(input, &options, &[2, 1, 41]), whole);
}

/// Receives `input` in pieces of these lengths, over and over.
fn listen(input: &[u8], options: &LinkOptions, lengths: &[usize]) -> Got {
    let mut link = Link::new(options.clone(), 0);
    link.opened(0);
    let mut got = Got::default();
    let mut rest = input;
    for &length in lengths.iter().cycle() {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        link.received(piece, 0);
        let goes_on = take_events(&mut link, &mut got);
        got.said.extend(link.take_output());
        if !goes_on || after.is_empty() {
            break;
        }
        rest = after;
    }
    got.offset = link.position().map(|position| position.offset.get());
    got
}

/// Notes what has come; whether the link goes on.
fn take_events(link: &mut Link, got: &mut Got) -> bool {
    loop {
        let goes_on = match link.next(0) {
            Ok(None) => false,
            Ok(Some(event)) => {
                let is_piece = matches!(event, Event::Stream { .. });
                note(&event, got);
                if is_piece {
                    link.settle();
                }
                true
            }
            Err(error) => {
                got.events.push(error.to_string());
                return false;
            }
        };
        if link.is_loading() {
            link.loaded(0);
        } else if !goes_on {
            return true;
        }
    }
}

fn note(event: &Event<'_>, got: &mut Got) {
    match event {
        Event::Snapshot { bytes, .. } => got.snapshot.extend_from_slice(bytes),
        Event::Stream { bytes, .. } => {
            got.stream.extend_from_slice(bytes);
            got.events.push(format!("{event:?}"));
        }
        Event::NotUnderstood { .. } | Event::Continued(_) | Event::FullSync(_) | Event::SnapshotEnd => {
            got.events.push(format!("{event:?}"));
        }
    }
}
