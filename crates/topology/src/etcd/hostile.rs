//! Any bytes in the places of etcd's answers: nothing panics, and memory stays limited. For tests and the fuzzer.

use super::fate::fate_of;
use super::keys::Keys;
use super::reading;
use super::watch::Lines;
use super::wire::{KeepAliveAnswer, RangeAnswer, TokenAnswer, TxnAnswer};
use crate::document::Document;
use crate::ids::Revision;
use crate::outcome::Finding;
use crate::records::Announcement;

/// See the head of this file.
pub fn check_answer(input: &[u8]) {
    let keys = Keys::new(&"c".parse().expect("it is a name"));
    if let Ok(answer) = serde_json::from_slice::<TxnAnswer>(input)
        && let Ok((reading, _)) = reading::decode(&keys, answer)
    {
        assert!(reading.revision <= reading.as_of, "the document is not newer than its store");
        assert_eq!(reading.revision == Revision::NONE, reading.found == Finding::Nothing);
    }
    if let Ok(answer) = serde_json::from_slice::<RangeAnswer>(input) {
        for found in &answer.kvs {
            let _ =
                (keys.life_in(&found.key), keys.revision_in(&found.key), Announcement::decode(&found.value));
        }
    }
    let _ = serde_json::from_slice::<KeepAliveAnswer>(input);
    let _ = serde_json::from_slice::<TokenAnswer>(input);
    let [status, rest @ ..] = input else { return };
    // The statuses that etcd's gateway uses, and some others.
    fate_of("member", 399 + u16::from(*status), rest);
    let mut lines = Lines::default();
    for piece in input.chunks(1 + usize::from(*status)) {
        lines.take(piece);
    }
}

/// A document that anybody may have written: it is refused, or it is right and has one text.
pub fn check_document(input: &[u8]) {
    if let Ok(document) = Document::decode(input) {
        let text = document.encode();
        assert_eq!(Document::decode(text.as_bytes()), Ok(document), "it is read as it was written");
    }
}
