//! Checks whether a history of transactions is strictly serializable.
//!
//! Every written value is unique, so a read tells whose write it saw. There are two kinds of objects:
//! - *lists* are only appended to: the final list gives the order of all its writers, and a read saw a prefix of it;
//! - *registers* are overwritten blindly: the order of their writers is not known at first.
//!
//! From that follow the edges of a graph, "must come before":
//!
//! ```text
//!   ww   the writer of an element      → the writer of the next one
//!   wr   the writer                    → who read it as the last element (list), or read it (register)
//!   rw   who read up to an element     → the writer of the next one
//!   rt   who had got its reply         → who was sent later; also the transactions of one client, in their order
//! ```
//!
//! For registers, more edges are inferred until nothing new follows. Let `r` have read `x` as `w` wrote it, and let `v` be another
//! writer of `x`. If `v` comes before `r`, it comes before `w`; if `w` comes before `v`, so does `r`. A cycle means that no serial order
//! exists. The rules never find a cycle in a history that has an order. (For registers they may miss a cycle; for lists they are exact.)
//! Source: Adya's graphs, which Elle builds from list-append histories (Kingsbury and Alvaro, 2020).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A unique written value.
pub type Written = u64;

/// An access of a transaction to one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Access {
    /// Appended to a list.
    Append {
        /// The list.
        key: usize,
        /// The value appended.
        value: Written,
        /// The resulting length of the list, if the reply is known.
        length: Option<usize>,
    },
    /// Read a whole list.
    Read {
        /// The list.
        key: usize,
        /// The elements it had.
        seen: Vec<Written>,
    },
    /// Overwrote a register.
    Set {
        /// The register.
        key: usize,
        /// The value written.
        value: Written,
    },
    /// Read a register.
    Get {
        /// The register.
        key: usize,
        /// The value it had.
        seen: Option<Written>,
    },
}

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The request, for display.
    pub name: String,
    /// The client. Its transactions are ordered as they were sent.
    pub client: usize,
    /// The event at which it was sent.
    pub sent: u64,
    /// The event at which its reply arrived; `None` if it never did.
    pub answered: Option<u64>,
    /// The event after which it can no longer have had an effect, although no reply arrived, because the server died.
    pub over: Option<u64>,
    /// Its reads and writes, as far as they are known.
    pub accesses: Vec<Access>,
}

/// All transactions, and the final lists.
#[derive(Default, Debug)]
pub struct History {
    /// In the order in which they were sent.
    pub transactions: Vec<Transaction>,
    /// The final lists by key.
    pub lists: BTreeMap<usize, Vec<Written>>,
}

impl History {
    /// Checks the history. The error explains the contradiction.
    pub fn check(&self) -> Result<(), String> {
        let writers = self.writers()?;
        self.is_atomic(&writers)?;
        let mut graph = Graph::new(self.transactions.len());
        self.add_time(&mut graph);
        self.add_lists(&mut graph, &writers)?;
        let reads = self.register_reads(&mut graph, &writers)?;
        let registers = self.register_writers(&writers);
        loop {
            if let Some(cycle) = graph.cycle() {
                return Err(self.show(&cycle));
            }
            if !graph.infer(&reads, &registers) {
                return Ok(());
            }
        }
    }

    /// Call this when the server has died, at the event `died`, and only the lists in `survived` are left. Changes
    /// made since it had started, at the event `begun`, may be lost, but only the last ones. Removes from the history
    /// the transactions that made lost changes or saw them. Returns when their replies arrived, at most one per
    /// transaction. Each transaction that writes must append to a list.
    ///
    /// The error explains why the rest is not the state of any one moment.
    pub fn lose(
        &mut self,
        begun: u64,
        died: u64,
        survived: &BTreeMap<usize, Vec<Written>>,
    ) -> Result<Vec<u64>, String> {
        let survived: BTreeSet<Written> = survived.values().flatten().copied().collect();
        let is_of_this_life = |transaction: &Transaction| (begun..=died).contains(&transaction.sent);
        let mut lost_values = BTreeSet::new();
        let mut is_lost = vec![false; self.transactions.len()];
        for (number, transaction) in self.transactions.iter().enumerate() {
            if !is_of_this_life(transaction) {
                continue;
            }
            let is_append = |access: &&Access| matches!(access, Access::Append { .. });
            let appended = transaction.accesses.iter().filter(is_append).filter_map(Access::written);
            let (there, gone): (Vec<Written>, Vec<Written>) =
                appended.partition(|value| survived.contains(value));
            if !there.is_empty() && !gone.is_empty() {
                return Err(format!(
                    "of one transaction {there:?} are there and {gone:?} are not: {}",
                    self.name(number)
                ));
            }
            if !gone.is_empty() {
                is_lost[number] = true;
                lost_values.extend(transaction.accesses.iter().filter_map(Access::written));
            }
        }
        for (number, transaction) in self.transactions.iter().enumerate() {
            let saw_lost = transaction.accesses.iter().any(|access| access.saw_any(&lost_values));
            if saw_lost
                && !is_lost[number]
                && transaction.accesses.iter().any(|access| access.written().is_some())
            {
                return Err(format!("it saw what is lost and is there: {}", self.name(number)));
            }
            is_lost[number] |= saw_lost;
        }
        self.are_last(&is_lost, is_of_this_life)?;
        let mut is_lost = is_lost.into_iter();
        let lost = self.transactions.extract_if(.., |_| is_lost.next().unwrap_or(false));
        Ok(lost.filter_map(|transaction| transaction.answered).collect())
    }

    /// Checks that no surviving transaction comes after a lost one.
    fn are_last(&self, is_lost: &[bool], is_meant: impl Fn(&Transaction) -> bool) -> Result<(), String> {
        let writes = |number: usize| {
            let transaction: &Transaction = &self.transactions[number];
            is_meant(transaction) && transaction.accesses.iter().any(|access| access.written().is_some())
        };
        let writers = || (0..self.transactions.len()).filter(|number| writes(*number));
        for there in writers().filter(|number| !is_lost[*number]) {
            for lost in writers().filter(|number| is_lost[*number]) {
                let (earlier, later) = (&self.transactions[lost], &self.transactions[there]);
                let is_session = earlier.client == later.client && earlier.sent < later.sent;
                if earlier.answered.is_some_and(|answered| answered < later.sent)
                    || is_session && later.answered.is_some()
                {
                    let (lost, there) = (self.name(lost), self.name(there));
                    return Err(format!(
                        "an earlier one is lost and a later one is there:\n  {lost}\n  {there}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The writer of each value, which must be unique. Leaves out transactions without a reply whose writes were
    /// never read.
    fn writers(&self) -> Result<BTreeMap<Written, usize>, String> {
        let mut seen: BTreeSet<Written> = self.lists.values().flatten().copied().collect();
        for access in self.transactions.iter().flat_map(|transaction| &transaction.accesses) {
            match access {
                Access::Read { seen: values, .. } => seen.extend(values),
                Access::Get { seen: value, .. } => seen.extend(value),
                Access::Append { .. } | Access::Set { .. } => {}
            }
        }
        let mut writers = BTreeMap::new();
        for (number, transaction) in self.transactions.iter().enumerate() {
            let values: Vec<Written> = transaction.accesses.iter().filter_map(Access::written).collect();
            if transaction.answered.is_some() || values.iter().any(|value| seen.contains(value)) {
                writers.extend(values.into_iter().map(|value| (value, number)));
            }
        }
        match seen.iter().find(|value| !writers.contains_key(value)) {
            Some(value) => Err(format!("{value} was read, but nobody wrote it")),
            None => Ok(writers),
        }
    }

    /// Checks that the final lists have all appends of a transaction, or none.
    fn is_atomic(&self, writers: &BTreeMap<Written, usize>) -> Result<(), String> {
        for (number, transaction) in self.transactions.iter().enumerate() {
            for access in &transaction.accesses {
                if let Access::Append { key, value, length } = access
                    && writers.get(value) == Some(&number)
                {
                    let place = self.list(*key).iter().position(|other| other == value);
                    let Some(place) = place else {
                        return Err(format!("{value} is not in list {key}: {}", self.name(number)));
                    };
                    if length.is_some_and(|length| length != place + 1) {
                        return Err(format!(
                            "{value} is at {place} of list {key}, and got {length:?}: {}",
                            self.name(number)
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn list(&self, key: usize) -> &[Written] {
        self.lists.get(&key).map_or(&[], Vec::as_slice)
    }

    fn add_time(&self, graph: &mut Graph) {
        for (after, later) in self.transactions.iter().enumerate() {
            for (before, earlier) in self.transactions[..after].iter().enumerate() {
                let is_session = earlier.client == later.client;
                let ended = earlier.answered.or(earlier.over);
                if is_session || ended.is_some_and(|ended| ended < later.sent) {
                    graph.add(before, after, if is_session { "same client" } else { "real time" });
                }
            }
        }
    }

    fn add_lists(&self, graph: &mut Graph, writers: &BTreeMap<Written, usize>) -> Result<(), String> {
        for list in self.lists.values() {
            for pair in list.windows(2) {
                graph.add(writers[&pair[0]], writers[&pair[1]], "ww");
            }
        }
        for (reader, transaction) in self.transactions.iter().enumerate() {
            for access in &transaction.accesses {
                let Access::Read { key, seen } = access else { continue };
                let list = self.list(*key);
                if !list.starts_with(seen) {
                    return Err(format!(
                        "{} read {seen:?}, no beginning of list {key}: {list:?}",
                        self.name(reader)
                    ));
                }
                if let Some(last) = seen.last() {
                    graph.add(writers[last], reader, "wr");
                }
                if let Some(next) = list.get(seen.len()) {
                    graph.add(reader, writers[next], "rw");
                }
            }
        }
        Ok(())
    }

    /// Adds edges for reads of registers. Returns (reader, key, writer) for the inference.
    fn register_reads(
        &self,
        graph: &mut Graph,
        writers: &BTreeMap<Written, usize>,
    ) -> Result<Vec<(usize, usize, Option<usize>)>, String> {
        let mut reads = Vec::new();
        for (reader, transaction) in self.transactions.iter().enumerate() {
            // A transaction that reads after its own write sees that write. Transcripts test that.
            for access in &transaction.accesses {
                let Access::Get { key, seen } = access else { continue };
                let writer = seen.map(|value| writers[&value]);
                if writer == Some(reader) {
                    continue;
                }
                if let Some(writer) = writer {
                    graph.add(writer, reader, "wr");
                }
                reads.push((reader, *key, writer));
            }
        }
        Ok(reads)
    }

    fn register_writers(&self, writers: &BTreeMap<Written, usize>) -> BTreeMap<usize, Vec<usize>> {
        let mut by_key: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, transaction) in self.transactions.iter().enumerate() {
            for access in &transaction.accesses {
                if let Access::Set { key, value } = access
                    && writers.get(value) == Some(&number)
                {
                    by_key.entry(*key).or_default().push(number);
                }
            }
        }
        by_key
    }

    fn name(&self, number: usize) -> String {
        let Transaction { name, client, sent, answered, accesses, .. } = &self.transactions[number];
        format!("#{number} of client {client}, sent {sent}, answered {answered:?}: {name} → {accesses:?}")
    }

    fn show(&self, cycle: &[(usize, &'static str)]) -> String {
        let lines: Vec<String> =
            cycle.iter().map(|(number, why)| format!("  {}\n    {why} ↓", self.name(*number))).collect();
        format!("no serial order:\n{}\n  (the first again)", lines.join("\n"))
    }
}

impl Access {
    fn saw_any(&self, values: &BTreeSet<Written>) -> bool {
        match self {
            Access::Read { seen, .. } => seen.iter().any(|value| values.contains(value)),
            Access::Get { seen, .. } => seen.is_some_and(|value| values.contains(&value)),
            Access::Append { .. } | Access::Set { .. } => false,
        }
    }

    fn written(&self) -> Option<Written> {
        match self {
            Access::Append { value, .. } | Access::Set { value, .. } => Some(*value),
            Access::Read { .. } | Access::Get { .. } => None,
        }
    }
}

/// The relation "must come before" between transactions, by number.
struct Graph {
    edges: Vec<BTreeMap<usize, &'static str>>,
    /// For each transaction, a bitmap of those reachable from it. As of the last [`Graph::cycle`].
    reached: Vec<Vec<u64>>,
}

impl Graph {
    fn new(count: usize) -> Graph {
        Graph { edges: vec![BTreeMap::new(); count], reached: Vec::new() }
    }

    fn add(&mut self, before: usize, after: usize, why: &'static str) -> bool {
        if before == after || self.edges[before].contains_key(&after) {
            return false;
        }
        self.edges[before].insert(after, why);
        true
    }

    /// Computes the transitive closure (Warshall). Returns a shortest cycle through some transaction, if there is one.
    fn cycle(&mut self) -> Option<Vec<(usize, &'static str)>> {
        let count = self.edges.len();
        let words = count.div_ceil(64);
        let mut reached = vec![vec![0_u64; words]; count];
        for (before, edges) in self.edges.iter().enumerate() {
            for after in edges.keys() {
                reached[before][after / 64] |= 1 << (after % 64);
            }
        }
        for middle in 0..count {
            let through = reached[middle].clone();
            for row in &mut reached {
                if row[middle / 64] & (1 << (middle % 64)) != 0 {
                    row.iter_mut().zip(&through).for_each(|(word, more)| *word |= more);
                }
            }
        }
        self.reached = reached;
        let on_cycle = (0..count).find(|number| self.comes_before(*number, *number))?;
        Some(self.path_back_to(on_cycle))
    }

    fn comes_before(&self, before: usize, after: usize) -> bool {
        self.reached[before][after / 64] & (1 << (after % 64)) != 0
    }

    fn path_back_to(&self, start: usize) -> Vec<(usize, &'static str)> {
        let mut came_from: BTreeMap<usize, (usize, &'static str)> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(number) = queue.pop_front() {
            for (&next, &why) in &self.edges[number] {
                if let std::collections::btree_map::Entry::Vacant(entry) = came_from.entry(next) {
                    entry.insert((number, why));
                    queue.push_back(next);
                }
            }
        }
        let mut path = Vec::new();
        let mut number = start;
        loop {
            let (from, why) = came_from[&number];
            path.push((from, why));
            number = from;
            if number == start {
                path.reverse();
                return path;
            }
        }
    }

    /// Adds what follows for registers from the closure. False if that was nothing.
    fn infer(
        &mut self,
        reads: &[(usize, usize, Option<usize>)],
        writers: &BTreeMap<usize, Vec<usize>>,
    ) -> bool {
        let mut has_news = false;
        for &(reader, key, writer) in reads {
            for &other in writers.get(&key).map_or(&[][..], Vec::as_slice) {
                if other == reader || Some(other) == writer {
                    continue;
                }
                match writer {
                    None => has_news |= self.add(reader, other, "read nothing"),
                    Some(writer) => {
                        if self.comes_before(other, reader) {
                            has_news |= self.add(other, writer, "overwritten before it was read");
                        }
                        if self.comes_before(writer, other) {
                            has_news |= self.add(reader, other, "rw");
                        }
                    }
                }
            }
        }
        has_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(times: (u64, u64), client: usize, accesses: &[Access]) -> Transaction {
        let (sent, answered) = times;
        let accesses = accesses.to_vec();
        Transaction { name: String::new(), client, sent, answered: Some(answered), over: None, accesses }
    }

    fn append(key: usize, value: Written) -> Access {
        Access::Append { key, value, length: None }
    }

    fn read(key: usize, seen: &[Written]) -> Access {
        Access::Read { key, seen: seen.to_vec() }
    }

    #[track_caller]
    fn check(transactions: &[Transaction], lists: &[(usize, &[Written])], expected: Option<&str>) {
        let lists = lists.iter().map(|(key, list)| (*key, list.to_vec())).collect();
        let problem = History { transactions: transactions.to_vec(), lists }.check().err();
        match (problem, expected) {
            (None, None) => {}
            (Some(problem), Some(expected)) if problem.contains(expected) => {}
            (problem, expected) => panic!("{problem:?}, not {expected:?}"),
        }
    }

    #[test]
    fn an_order_is_found() {
        let writer = at((0, 9), 0, &[append(1, 10), append(2, 20)]);
        let before = at((1, 8), 1, &[read(1, &[]), read(2, &[])]);
        let after = at((2, 8), 2, &[read(1, &[10]), read(2, &[20])]);
        check(&[writer, before, after], &[(1, &[10]), (2, &[20])], None);
    }

    #[test]
    fn half_of_a_transaction_must_not_be_seen() {
        let writer = at((0, 9), 0, &[append(1, 10), append(2, 20)]);
        let reader = at((1, 8), 1, &[read(1, &[10]), read(2, &[])]);
        check(&[writer.clone(), reader], &[(1, &[10]), (2, &[20])], Some("no serial order"));
        check(&[writer], &[(1, &[10])], Some("is not in list"));
    }

    #[test]
    fn a_reply_must_not_be_forgotten() {
        let (writer, late) = (at((0, 1), 0, &[append(1, 10)]), at((2, 3), 1, &[read(1, &[])]));
        check(&[writer.clone(), late], &[(1, &[10])], Some("real time"));
        let in_time = at((1, 3), 1, &[read(1, &[])]);
        check(&[writer, in_time], &[(1, &[10])], None);
    }

    #[test]
    fn write_skew_is_a_cycle() {
        let one = at((0, 9), 0, &[read(1, &[]), append(2, 20)]);
        let two = at((0, 9), 1, &[read(2, &[]), append(1, 10)]);
        check(&[one, two], &[(1, &[10]), (2, &[20])], Some("rw"));
    }

    #[test]
    fn registers_must_not_be_torn() {
        let set = |value| [Access::Set { key: 1, value }, Access::Set { key: 2, value: value + 100 }];
        let get = |one, two| [Access::Get { key: 1, seen: one }, Access::Get { key: 2, seen: two }];
        let (one, two) = (at((0, 9), 0, &set(1)), at((0, 9), 1, &set(2)));
        let read = |one, two| at((0, 9), 2, &get(one, two));
        check(&[one.clone(), two.clone(), read(Some(2), Some(102))], &[], None);
        check(&[one.clone(), two.clone(), read(None, None)], &[], None);
        for (first, second) in [(Some(1), Some(102)), (Some(2), Some(101)), (None, Some(101))] {
            check(&[one.clone(), two.clone(), read(first, second)], &[], Some("no serial order"));
        }
    }
}
