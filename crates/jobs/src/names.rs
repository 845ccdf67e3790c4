//! The keys beside a queue. They lie on its shard: where a hash tag or a rule of `colocate` decides where the queue lies, its name with
//! an ending does; otherwise the name becomes the hash tag.

use command::{CommandError, Store};

/// The sorted set of jobs that workers have, by the end of their lease in ms.
const ACTIVE: &str = "active";
/// The sorted set of jobs that are to come later, by when in ms.
const DELAYED: &str = "delayed";
/// The sorted set of jobs that had all their attempts, by when the last one ended in ms.
const DEAD: &str = "dead";
/// The hash of what is kept of jobs, by id.
const JOBS: &str = "jobs";
/// The sorted set of workers that live, by until when that is said, in ms.
const WORKERS: &str = "workers";
/// How the names of locks begin.
const UNIQUE: &str = "unique:";

const BAD_NAME: &str = "ERR no name of a key lies beside this queue: give it no braces, or a hash tag";

/// The names of the keys beside a queue.
pub(crate) struct Names {
    pub(crate) active: Vec<u8>,
    pub(crate) delayed: Vec<u8>,
    pub(crate) dead: Vec<u8>,
    pub(crate) jobs: Vec<u8>,
    pub(crate) workers: Vec<u8>,
    unique: Vec<u8>,
}

impl Names {
    /// Those beside `queue`.
    pub(crate) fn of(store: &Store, queue: &[u8]) -> Result<Names, CommandError> {
        let placement = store.tx.hold.shards().placement();
        let part = placement.placing_part(queue);
        let plain = [queue, b":"].concat();
        let tagged = [b"{", queue, b"}:"].concat();
        let lies_beside = |begin: &[u8]| {
            // Names that begin alike lie together if the ending has no say.
            placement.placing_part(&[begin, ACTIVE.as_bytes()].concat()) == part
                && placement.placing_part(&[begin, UNIQUE.as_bytes(), b"{}"].concat()) == part
        };
        let begin = [plain, tagged].into_iter().find(|begin| lies_beside(begin));
        let begin = begin.ok_or(CommandError::new(BAD_NAME))?;
        let name = |end: &str| [&begin, end.as_bytes()].concat();
        Ok(Names {
            active: name(ACTIVE),
            delayed: name(DELAYED),
            dead: name(DEAD),
            jobs: name(JOBS),
            workers: name(WORKERS),
            unique: name(UNIQUE),
        })
    }

    /// The key of the lock `name`.
    pub(crate) fn lock(&self, name: &[u8]) -> Vec<u8> {
        [&self.unique, name].concat()
    }
}
