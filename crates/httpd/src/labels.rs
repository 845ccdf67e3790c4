//! Which queues have labels of their own in `/metrics`.
//!
//! A series that comes and goes is of little use, and each new one costs the scraper. So labels are assigned for good,
//! and do not follow whichever queue is deepest or oldest at the moment. A queue gets labels when it is first seen, as
//! long as there are some left, the busiest queue first. It keeps them until it is gone, or has been empty and idle for
//! an hour and another queue needs them.
//!
//! All other queues are combined in a sum. A queue that gets labels leaves that sum with its whole history. A scraper
//! takes a falling counter for a restart; so the sum's counters grow by what was added since the last scrape and never
//! shrink.

use std::collections::HashMap;

use jobs::queues::{Row, SHOWN_NAME_BYTES_MAX, WAIT_BOUNDS_MS};

/// How long a queue without elements and traffic keeps its place if another queue needs it.
const IDLE_MS_MAX: u64 = 3_600_000;

/// Identifies a queue.
type Key = (Box<[u8]>, u32);

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    places: HashMap<Key, RankedQueue>,
    other: Sum,
    /// The counters of the queues without a place, at the last scrape.
    before: Sum,
}

/// The place of a queue.
#[derive(Debug)]
struct RankedQueue {
    traffic: u64,
    /// When the queue last had elements or traffic.
    active_ms: u64,
}

/// The counters of several queues together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) pushed: u64,
    pub(crate) popped: u64,
    pub(crate) waits: [u64; WAIT_BOUNDS_MS.len()],
    pub(crate) wait_count: u64,
    pub(crate) wait_sum_ms: u64,
}

impl Labels {
    /// Assigns the places. Returns the queues with a place, sorted by name; those without one; and the counters of the
    /// latter.
    pub(crate) fn deal<'r>(
        &mut self,
        rows: &'r [Row],
        places_max: usize,
        now_ms: u64,
    ) -> (Vec<&'r Row>, Vec<&'r Row>, &Sum) {
        let mut newcomers: Vec<&Row> = Vec::new();
        for row in rows {
            match self.places.get_mut(&key(row)) {
                Some(place) if row.depth > 0 || place.traffic != traffic(row) => {
                    *place = RankedQueue { traffic: traffic(row), active_ms: now_ms };
                }
                Some(_) => {}
                None => newcomers.push(row),
            }
        }
        newcomers.retain(|row| row.name.len() <= SHOWN_NAME_BYTES_MAX);
        newcomers.sort_by(|one, other| {
            let rank = |row: &Row| (traffic(row), row.depth);
            rank(other).cmp(&rank(one)).then_with(|| one.name.cmp(&other.name))
        });
        self.make_room(rows, newcomers.len(), places_max, now_ms);
        for row in newcomers.into_iter().take(places_max.saturating_sub(self.places.len())) {
            self.places.insert(key(row), RankedQueue { traffic: traffic(row), active_ms: now_ms });
        }
        let (mut labelled, rest): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| self.places.contains_key(&key(row)));
        labelled.sort_by(|one, other| (&one.name, one.db).cmp(&(&other.name, other.db)));
        let sum = Sum::of(&rest);
        self.other.grow(&self.before, &sum);
        self.before = sum;
        (labelled, rest, &self.other)
    }

    /// Takes back as many places as newcomers need: first those of queues that no longer exist, then those of idle
    /// queues.
    fn make_room(&mut self, rows: &[Row], newcomer_count: usize, places_max: usize, now_ms: u64) {
        let wanted = (self.places.len() + newcomer_count).saturating_sub(places_max);
        if wanted == 0 {
            return;
        }
        let there: std::collections::HashSet<Key> = rows.iter().map(key).collect();
        let mut given_up: Vec<(bool, u64, Key)> = self
            .places
            .iter()
            .map(|(key, place)| (there.contains(key), place.active_ms, key.clone()))
            .filter(|(is_there, active_ms, _)| !is_there || now_ms.saturating_sub(*active_ms) >= IDLE_MS_MAX)
            .collect();
        given_up.sort_unstable();
        for (_, _, key) in given_up.into_iter().take(wanted) {
            self.places.remove(&key);
        }
    }
}

impl Sum {
    fn of(rows: &[&Row]) -> Sum {
        let mut sum = Sum::default();
        for row in rows {
            sum.pushed += row.pushed;
            sum.popped += row.popped;
            sum.wait_count += row.waits.count;
            sum.wait_sum_ms += row.waits.sum_ms;
            for (all, count) in sum.waits.iter_mut().zip(&row.waits.counts) {
                *all += count;
            }
        }
        sum
    }

    /// Adds the increase from `before` to `now`.
    fn grow(&mut self, before: &Sum, now: &Sum) {
        let mut add = |to: fn(&mut Sum) -> &mut u64, of: fn(&Sum) -> u64| {
            *to(self) += of(now).saturating_sub(of(before));
        };
        add(|sum| &mut sum.pushed, |sum| sum.pushed);
        add(|sum| &mut sum.popped, |sum| sum.popped);
        add(|sum| &mut sum.wait_sum_ms, |sum| sum.wait_sum_ms);
        // The count of a histogram must not be less than the sum of its buckets.
        let mut counted = 0;
        for (index, all) in self.waits.iter_mut().enumerate() {
            let more = now.waits[index].saturating_sub(before.waits[index]);
            *all += more;
            counted += more;
        }
        self.wait_count += now.wait_count.saturating_sub(before.wait_count).max(counted);
    }
}

fn key(row: &Row) -> Key {
    (row.name.clone(), row.db)
}

fn traffic(row: &Row) -> u64 {
    row.pushed + row.popped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::row;

    fn busy(name: &str, pushed: u64) -> Row {
        Row { pushed, ..row(name, 0) }
    }

    /// The queues with places and those without, by names, and what came to the latter.
    fn deal(
        labels: &mut Labels,
        queues: &[(&str, u64)],
        places_max: usize,
        now_ms: u64,
    ) -> (String, String, u64) {
        let rows: Vec<Row> = queues.iter().map(|(name, pushed)| busy(name, *pushed)).collect();
        let (labelled, rest, sum) = labels.deal(&rows, places_max, now_ms);
        let names =
            |rows: &[&Row]| rows.iter().map(|row| String::from_utf8_lossy(&row.name)).collect::<String>();
        (names(&labelled), names(&rest), sum.pushed)
    }

    #[track_caller]
    fn check(dealt: (String, String, u64), labelled: &str, rest: &str, pushed: u64) {
        assert_eq!((dealt.0.as_str(), dealt.1.as_str(), dealt.2), (labelled, rest, pushed));
    }

    #[test]
    fn places_are_given_for_good() {
        let mut labels = Labels::default();
        check(deal(&mut labels, &[("a", 1), ("b", 9), ("c", 5)], 2, 0), "bc", "a", 1);
        // However busy another one is now.
        let dealt = deal(&mut labels, &[("a", 1000), ("b", 9), ("c", 5)], 2, IDLE_MS_MAX - 1);
        check(dealt, "bc", "a", 1000);
    }

    #[test]
    fn who_is_gone_or_idle_gives_up_its_place_if_it_is_wanted() {
        let mut labels = Labels::default();
        deal(&mut labels, &[("a", 1), ("b", 9)], 2, 0);
        // The first one is gone.
        check(deal(&mut labels, &[("b", 9), ("c", 5)], 2, 1000), "bc", "", 0);
        // No queue needs their places at first; then one does.
        check(deal(&mut labels, &[("b", 9), ("c", 5)], 2, 1000 + IDLE_MS_MAX), "bc", "", 0);
        check(deal(&mut labels, &[("b", 10), ("c", 5), ("d", 1)], 2, 1001 + IDLE_MS_MAX), "bd", "c", 5);
    }

    #[test]
    fn counters_of_the_rest_never_fall() {
        let mut labels = Labels::default();
        deal(&mut labels, &[("a", 1)], 1, 0);
        check(deal(&mut labels, &[("a", 1), ("b", 50)], 1, 0), "a", "b", 50);
        // It gets the place of the one that is gone.
        check(deal(&mut labels, &[("b", 60)], 1, 0), "b", "", 50);
        check(deal(&mut labels, &[("b", 60), ("c", 7)], 1, 0), "b", "c", 57);
    }

    #[test]
    fn a_name_without_end_gets_no_place() {
        let mut long = busy("", 5);
        long.name = vec![b'x'; SHOWN_NAME_BYTES_MAX + 1].into();
        let rows = [long];
        let mut labels = Labels::default();
        let (labelled, rest, _) = labels.deal(&rows, 5, 0);
        assert_eq!((labelled.len(), rest.len()), (0, 1));
    }

    #[test]
    fn none_has_a_place_if_there_are_none() {
        let rows = [busy("a", 1)];
        let mut labels = Labels::default();
        let (labelled, rest, _) = labels.deal(&rows, 0, 0);
        assert_eq!((labelled.len(), rest.len()), (0, 1));
    }
}
