//! Owns what a thread knows about the outputs of its clients: what was written without a request, and who exceeds a
//! bound.

use clients::Watchlist;

use crate::connections::delivery::Delivery;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct Outputs {
    /// Messages to clients without a request.
    pub(crate) delivery: Delivery,
    /// Clients that exceed a bound.
    pub(crate) watchlist: Watchlist,
}
