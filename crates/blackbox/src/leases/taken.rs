//! Parses the jobs in a reply of JOB.TAKE, and makes the names by which later commands mean them.

use resp::Value;

use crate::client::text;

/// A job that a worker has got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The queue that it was in.
    pub queue: String,
    /// Its id.
    pub id: String,
    /// The number of this attempt.
    pub attempt: u64,
}

/// How commands name a job, after the queue.
#[derive(Clone, Debug)]
pub struct Named {
    /// The attempt, if the command names one.
    pub attempt: Option<u64>,
    /// For `JOB.DONE` and `JOB.RELEASE`.
    pub ended: String,
    /// For `JOB.FAIL`.
    pub failed: String,
    /// For `JOB.KEEP`, after the time.
    pub kept: String,
}

/// The jobs in a reply to `JOB.TAKE`.
pub fn taken(reply: &Value) -> Vec<Taken> {
    let Value::Array(jobs) = reply else { return Vec::new() };
    let job = |job: &Value| match job {
        Value::Array(fields) => match &fields[..] {
            [queue, id, Value::Int(attempt), _] => {
                Taken { queue: text(queue), id: text(id), attempt: attempt.cast_unsigned() }
            }
            _ => panic!("{job:?} is no job"),
        },
        _ => panic!("{job:?} is no job"),
    };
    jobs.iter().map(job).collect()
}

impl Taken {
    /// Names it, with its attempt or without.
    pub fn named(&self, with_attempt: bool) -> Named {
        let Taken { id, attempt, .. } = self;
        if with_attempt {
            let ended = format!("ATTEMPT {id} {attempt}");
            Named {
                attempt: Some(*attempt),
                kept: ended.clone(),
                ended,
                failed: format!("{id} ATTEMPT {attempt}"),
            }
        } else {
            Named { attempt: None, ended: id.clone(), failed: id.clone(), kept: format!("ID {id}") }
        }
    }
}
