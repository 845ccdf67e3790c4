//! Decides which clients are disconnected when all of them together take too much memory (`maxmemory-clients`).
//!
//! Every thread adds up the memory of its own clients. The thread with the largest client of all disconnects it, so the
//! threads need not wait for each other.
//!
//! Not here: the time of the checks (`background/mod.rs` of the server).

use proactor::ConnId;

/// The memory of one thread's clients.
#[derive(Debug, Default)]
pub struct Sizes {
    /// Clients that may be disconnected, the largest last.
    evictable: Vec<(u64, ConnId)>,
    sum: u64,
}

impl Sizes {
    /// Adds up clients, each with its memory in bytes, its connection, and whether it may be disconnected.
    pub fn of(clients: impl Iterator<Item = (u64, ConnId, bool)>) -> Sizes {
        let mut sizes = Sizes::default();
        for (bytes, conn, may_go) in clients {
            sizes.sum += bytes;
            if may_go {
                sizes.evictable.push((bytes, conn));
            }
        }
        sizes.evictable.sort_unstable_by_key(|(bytes, _)| *bytes);
        sizes
    }

    /// The memory of all clients, in bytes.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The memory of the largest client that may be disconnected; 0 if there is none.
    pub fn largest(&self) -> u64 {
        self.evictable.last().map_or(0, |(bytes, _)| *bytes)
    }

    /// Takes out this thread's largest client if it must be disconnected: `all_bytes`, the memory of all clients on all
    /// threads, is more than `bytes_max`, and no other thread has a larger client. `largest_of_all` is the memory of
    /// the largest client on any thread.
    pub fn pop_excess(
        &mut self,
        all_bytes: u64,
        bytes_max: u64,
        largest_of_all: u64,
    ) -> Option<(u64, ConnId)> {
        let (bytes, conn) = *self.evictable.last()?;
        if all_bytes <= bytes_max || bytes < largest_of_all {
            return None;
        }
        self.evictable.pop();
        self.sum -= bytes;
        Some((bytes, conn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_all_goes_until_the_rest_have_room() {
        let conns = [1, 2, 3, 4].map(ConnId::from_bits);
        let bytes = [100, 400, 300, 900];
        // The largest client of all must stay.
        let clients = bytes.into_iter().zip(conns).map(|(bytes, conn)| (bytes, conn, bytes != 900));
        let mut sizes = Sizes::of(clients);
        assert_eq!((sizes.sum(), sizes.largest()), (1700, 400));
        assert_eq!(sizes.pop_excess(2000, 1500, 500), None, "that of another thread goes first");
        assert_eq!(sizes.pop_excess(2000, 1500, 400), Some((400, conns[1])));
        assert_eq!((sizes.sum(), sizes.largest()), (1300, 300));
        assert_eq!(sizes.pop_excess(1600, 1500, 300), Some((300, conns[2])));
        assert_eq!(sizes.pop_excess(1300, 1500, 100), None);
        assert_eq!(sizes.pop_excess(1600, 1500, 100), Some((100, conns[0])));
        assert_eq!(sizes.pop_excess(1600, 1500, 0), None, "there is nobody left who may go");
    }
}
