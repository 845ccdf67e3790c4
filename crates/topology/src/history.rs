//! The memory of a store: which cluster it is, and the highest revision that was seen.
//!
//! A revision never falls, unless someone restores a backup; the cluster and its members may then have the ids that they had
//! before. So whoever goes on with such a store may follow an old document, and says so first.
//!
//! Two threads may use one store. The answer to one of them may overtake that to the other, so an answer is
//! compared with the revision that was known when its request was *sent* ([`History::floor`]).

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::ids::Revision;

/// See the head of this file. A node keeps it in its folder, so that it notices over a restart, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The id of the cluster; `None`: not known yet.
    pub cluster: Option<u64>,
    /// The highest revision of the whole store that was seen.
    pub highest: Revision,
    /// The revision to which the store fell. It is refused from then on.
    #[serde(default)]
    pub fallen_to: Option<Revision>,
}

impl History {
    /// The revision below which no answer to a request that is sent now may fall; an error if the store went back before.
    pub fn floor(&self) -> Result<Revision, Error> {
        match self.fallen_to {
            Some(found) => Err(Error::WentBack { highest: self.highest, found }),
            None => Ok(self.highest),
        }
    }

    /// Checks a linearizable answer to a request that was sent when `floor` was the floor, and remembers it.
    pub fn observe(&mut self, floor: Revision, cluster: u64, found: Revision) -> Result<(), Error> {
        self.check_cluster(cluster)?;
        if found < floor {
            self.fallen_to = Some(found);
            return Err(Error::WentBack { highest: self.highest, found });
        }
        self.highest = self.highest.max(found);
        Ok(())
    }

    /// Checks an answer that may be stale.
    pub fn check_cluster(&mut self, found: u64) -> Result<(), Error> {
        let expected = *self.cluster.get_or_insert(found);
        if expected == found { Ok(()) } else { Err(Error::OtherCluster { expected, found }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_went_back_is_refused_from_then_on() {
        let mut history = History::default();
        let floor = history.floor().unwrap();
        history.observe(floor, 7, Revision(55)).unwrap();
        let floor = history.floor().unwrap();
        assert!(matches!(
            history.observe(floor, 7, Revision(4)),
            Err(Error::WentBack { highest: Revision(55), found: Revision(4) })
        ));
        // Its revision will exceed the old one some day.
        assert!(matches!(history.floor(), Err(Error::WentBack { .. })));
    }

    #[test]
    fn an_answer_that_was_overtaken_is_no_fall() {
        let mut history = History::default();
        let floor = history.floor().unwrap();
        history.observe(floor, 7, Revision(11)).unwrap();
        history.observe(floor, 7, Revision(10)).unwrap();
        assert_eq!(history.floor().unwrap(), Revision(11));
        assert!(matches!(history.observe(floor, 8, Revision(12)), Err(Error::OtherCluster { .. })));
    }
}
