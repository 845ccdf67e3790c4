//! Owns what a thread knows about the outputs of its clients: what was written without a request, and who exceeds a
//! bound.

use clients::Watchlist;
use observe::Monitors;

use crate::connections::delivery::Delivery;
use crate::connections::network::Network;
use crate::message::Message;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Outputs {
    /// Messages to clients without a request.
    pub(crate) delivery: Delivery,
    /// Clients that exceed a bound.
    pub(crate) watchlist: Watchlist,
}

impl Outputs {
    /// Delivers a message for clients.
    ///
    /// # Panics
    ///
    /// If the message is for something else.
    pub(crate) fn hear(&mut self, message: Message, monitors: &Monitors, net: &mut Network) {
        match message {
            Message::Deliver(published) => self.delivery.deliver(&published, net),
            Message::News(news, _memory) => self.delivery.tell(news, net),
            Message::Monitor(line) => self.delivery.show(&line, monitors, net),
            _ => unreachable!("the caller looks at it"),
        }
    }
}
