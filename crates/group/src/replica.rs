//! The promise of a member to the primary of its term (rules 1 and 5).

use effectlog::StreamPosition;
use topology::{Instance, Params, Term};

use crate::messages::{Ack, Beat, LinkId};

/// See the head of this file.
#[derive(Default, Debug)]
pub(crate) struct Replica {
    link: Option<PrimaryLink>,
    /// Until then it takes over from no one. `u64::MAX` while an acknowledgement may be on its way out.
    promised_until_ms: u64,
}

#[derive(Debug)]
struct PrimaryLink {
    id: LinkId,
    /// When the last beat was sent that has come, by the primary's clock.
    beat_ms: Option<u64>,
}

impl Replica {
    /// It receives the stream of the primary of its term, and its data are a beginning of that stream.
    pub(crate) fn link(&mut self, id: LinkId) {
        self.link = Some(PrimaryLink { id, beat_ms: None });
    }

    pub(crate) fn unlink(&mut self) {
        self.link = None;
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    pub(crate) fn hear(&mut self, beat: &Beat) {
        if let Some(link) = self.link.as_mut().filter(|link| link.id == beat.link) {
            link.beat_ms = link.beat_ms.max(Some(beat.sent_ms));
        }
    }

    /// The next acknowledgement. From now on the promise holds, and until [`sent`](Self::sent) it has no end.
    pub(crate) fn acknowledge(
        &mut self,
        me: &Instance,
        term: Term,
        leader: &Instance,
        offset: StreamPosition,
    ) -> Option<Ack> {
        let link = self.link.as_ref()?;
        let beat_ms = link.beat_ms?;
        self.promised_until_ms = u64::MAX;
        Some(Ack { term, from: me.clone(), to: leader.life, link: link.id, offset, beat_ms })
    }

    /// The last acknowledgement was given to the network, or never will be.
    pub(crate) fn sent(&mut self, params: &Params, now_ms: u64) {
        self.promised_until_ms = now_ms + u64::from(params.grant_ms);
    }

    pub(crate) fn has_promised(&self, now_ms: u64) -> bool {
        now_ms < self.promised_until_ms
    }
}
