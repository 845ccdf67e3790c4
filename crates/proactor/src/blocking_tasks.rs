//! Blocking tasks: work besides a server's threads that has to wait for the disk or for other machines. Each blocking task
//! has a thread of its own. In a simulation, its steps are interleaved with everything else.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The outcome of a step of a blocking task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockingStep {
    /// It has done something.
    Worked,
    /// It has nothing to do until others have done something. Only returned if it must not wait.
    Waits,
    /// It has ended.
    Ended,
}

/// Takes a step. The argument says whether the step may wait.
pub type Work = Box<dyn FnMut(bool) -> BlockingStep + Send>;

/// Runs blocking tasks. All clones share them.
#[derive(Clone, Default)]
pub struct BlockingTasks(Option<Arc<Mutex<VecDeque<Work>>>>);

impl BlockingTasks {
    /// The blocking tasks of a simulation, which [takes](Self::take) and runs them itself.
    pub fn simulated() -> BlockingTasks {
        BlockingTasks(Some(Arc::default()))
    }

    /// Starts a blocking task, on a thread with this name.
    pub fn start(&self, name: &str, mut work: Work) -> io::Result<()> {
        match &self.0 {
            Some(waiting) => waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(work),
            None => {
                let run = move || while work(true) != BlockingStep::Ended {};
                drop(std::thread::Builder::new().name(name.to_owned()).spawn(run)?);
            }
        }
        Ok(())
    }

    /// In a simulation: takes a blocking task that was started.
    pub fn take(&self) -> Option<Work> {
        self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_blocking_task_works_until_it_has_ended() {
        for blocking_tasks in [BlockingTasks::default(), BlockingTasks::simulated()] {
            let (sender, steps) = channel();
            let mut left = 3;
            let work = move |may_wait| {
                left -= 1;
                sender.send(may_wait).expect("somebody listens");
                if left == 0 { BlockingStep::Ended } else { BlockingStep::Worked }
            };
            blocking_tasks.start("blocking", Box::new(work)).expect("there are threads");
            let is_simulated = blocking_tasks.0.is_some();
            if let Some(mut work) = blocking_tasks.take() {
                while work(false) != BlockingStep::Ended {}
            }
            assert_eq!(steps.iter().collect::<Vec<_>>(), [!is_simulated; 3]);
        }
    }
}
