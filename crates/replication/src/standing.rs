//! What a replica refuses its clients: to write, and to read data that may be stale.

use command::CommandError;
use settings::{REPLICA_READ_ONLY, REPLICA_SERVE_STALE_DATA, Settings};

use crate::following::Following;

/// Whether clients may write here, and whether they may read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// Only the primary writes.
    pub is_read_only: bool,
    /// The link to the primary is down, and stale data must not be read.
    pub is_stale: bool,
}

impl Standing {
    /// The error of commands that write on a replica.
    pub const READ_ONLY: CommandError =
        CommandError::fixed("READONLY You can't write against a read only replica.");
    /// The error of commands that may not run on stale data.
    pub const STALE: CommandError = CommandError::fixed(
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    );
}

impl Following {
    /// What applies now.
    pub fn standing(&self, settings: &Settings) -> Standing {
        if !self.is_replica() {
            return Standing::default();
        }
        Standing {
            is_read_only: settings.is_on(REPLICA_READ_ONLY),
            is_stale: !settings.is_on(REPLICA_SERVE_STALE_DATA) && !self.is_link_up(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_refuses_nothing() {
        let settings = Settings::default();
        settings.change(&[("slave-serve-stale-data", "no")], false).expect("it is a setting");
        assert_eq!(Following::default().standing(&settings), Standing::default());
    }
}
