//! Decides what a replica refuses its clients: writes, and reads of data that may be stale.

use config::{REPLICA_READ_ONLY, REPLICA_SERVE_STALE_DATA, Settings};
use engine::CommandError;

use crate::following::Following;
use crate::synced::Synced;

/// Whether clients may write here, and whether they may read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// Only the primary may write.
    pub is_read_only: bool,
    /// The link to the primary is down, and stale data must not be read.
    pub is_stale: bool,
    /// The data may be undone, so they must not be read ([`Synced`](crate::Synced)).
    pub is_in_doubt: bool,
}

impl Standing {
    /// The error of commands that write on a replica.
    pub const READ_ONLY: CommandError =
        CommandError::fixed("READONLY You can't write against a read only replica.");
    /// The error of commands that may not run on stale data.
    pub const STALE: CommandError = CommandError::fixed(
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    );
    /// The error of those commands on data that may be undone.
    pub const IN_DOUBT: CommandError = CommandError::fixed(
        "MASTERDOWN repl-sync-replicas is set and replicas may lack some of the data here, so none is read until that is settled.",
    );
}

impl Standing {
    /// The current rules.
    pub fn of(following: &Following, synced: &Synced, settings: &Settings) -> Standing {
        let (is_replica, is_in_doubt) = (following.is_replica(), synced.is_in_doubt());
        Standing {
            is_read_only: is_replica && settings.is_on(REPLICA_READ_ONLY),
            is_stale: is_replica && !settings.is_on(REPLICA_SERVE_STALE_DATA) && !following.is_link_up(),
            is_in_doubt,
        }
    }

    /// The error of commands that read, if the data here must not be read.
    pub fn refuses_reads(self) -> Option<CommandError> {
        match self {
            Standing { is_in_doubt: true, .. } => Some(Standing::IN_DOUBT),
            Standing { is_stale: true, .. } => Some(Standing::STALE),
            Standing { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use effectlog::Lsn;

    use super::*;

    #[test]
    fn a_primary_refuses_nothing() {
        let settings = Settings::default();
        settings.change(&[("slave-serve-stale-data", "no")], false).expect("it is a setting");
        let synced = Synced::new(1, 1);
        let standing = || Standing::of(&Following::default(), &synced, &settings);
        assert_eq!((standing(), standing().refuses_reads()), (Standing::default(), None));
        synced.begin_doubt(Lsn::new(1));
        assert_eq!(standing().refuses_reads(), Some(Standing::IN_DOUBT));
    }
}
