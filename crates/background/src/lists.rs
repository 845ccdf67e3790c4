//! Compression of lists that grew by commands with very many elements.
//!
//! Each push compresses some groups of nodes of its list (`ds::list::deep`). A push that leaves more than
//! that notes the list, and the home thread continues in each of its rounds: for one list of each database
//! and shard it does as much as a push does, in less than a millisecond.

use shard::ShardId;

use crate::Visits;

/// Continues compressing the lists of these shards. Call this in each round.
pub fn compress(shards: impl Iterator<Item = ShardId>, thread: &mut impl Visits) {
    for id in shards {
        // A shard that is taken has its turn in the next round.
        thread.visit(id, |tx| {
            let config = &tx.config;
            tx.hold.shard_mut(id).dbs.iter_mut().for_each(|(_, db)| db.compress_list(config));
        });
    }
}

#[cfg(test)]
mod tests {
    use ds::random::Random;

    use super::*;
    use crate::tests::Alone;

    /// A job of some 230 bytes with random parts, as Sidekiq writes them.
    fn job(random: &mut Random) -> String {
        let [id, user] = [random.next_u64(), random.next_u64()];
        format!(
            "{{\"class\":\"NotificationMailerJob\",\"args\":[{},\"welcome\"],\"retry\":true,\"queue\":\"default\",\
             \"jid\":\"{id:016x}{:08x}\",\"created_at\":1700000000.123,\"enqueued_at\":1700000000.456,\"tags\":[\"mailer\"]}}",
            user % 1_000_000,
            user as u32
        )
    }

    /// Memory that a list takes for each job if pushes of `each` made it, before and after upkeep.
    fn bytes_per_job(count: usize, each: usize) -> [usize; 2] {
        let mut thread = Alone::new();
        let mut random = Random::new(7);
        for _ in 0..count / each {
            let jobs: Vec<String> = (0..each).map(|_| job(&mut random)).collect();
            thread.local.line(&format!("LPUSH q {}", jobs.join(" ")));
        }
        let used = |thread: &mut Alone| {
            let client = engine::Client::internal(0, resp::Proto::Resp2);
            thread.local.with_store(client, |store| {
                let list = store.peek_as::<keyspace::List>(b"q").expect("a list").expect("it is there");
                list.debug_validate();
                assert_eq!(list.len(), count);
                list.memory_bytes() / count
            })
        };
        let before = used(&mut thread);
        let shards: Vec<ShardId> = thread.shards().collect();
        thread.is_taken = true;
        compress(shards.iter().copied(), &mut thread);
        thread.is_taken = false;
        assert_eq!(used(&mut thread), before, "taken shards are left for later");
        for _ in 0..=count / 1_000 {
            compress(shards.iter().copied(), &mut thread);
        }
        [before, used(&mut thread)]
    }

    #[test]
    fn one_push_of_many_jobs_takes_as_little_as_many_pushes() {
        for count in [4_000, 5_000, 20_000, 100_000] {
            let [of_many, _] = bytes_per_job(count, 100);
            let [at_once, of_one] = bytes_per_job(count, count);
            assert!(of_one <= of_many + of_many / 5, "{count}: {of_one}, in many pushes {of_many}");
            assert!(
                at_once > 2 * of_one,
                "{count}: {at_once}, and then {of_one}: the test has no backlog to compress"
            );
        }
    }
}
