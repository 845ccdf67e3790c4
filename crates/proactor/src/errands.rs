//! Errands: work besides a server's threads that has to wait for the disk or for other machines. Each errand
//! has a thread of its own. In a simulation, its steps are interleaved with everything else.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The outcome of a step of an errand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrandStep {
    /// It has done something.
    Worked,
    /// It has nothing to do until others have done something. Only returned if it must not wait.
    Waits,
    /// It has ended.
    Ended,
}

/// Takes a step. The argument says whether the step may wait.
pub type Work = Box<dyn FnMut(bool) -> ErrandStep + Send>;

/// Runs errands. All clones share them.
#[derive(Clone, Default)]
pub struct Errands(Option<Arc<Mutex<VecDeque<Work>>>>);

impl Errands {
    /// The errands of a simulation, which [takes](Self::take) and runs them itself.
    pub fn simulated() -> Errands {
        Errands(Some(Arc::default()))
    }

    /// Starts an errand, on a thread with this name.
    pub fn start(&self, name: &str, mut work: Work) -> io::Result<()> {
        match &self.0 {
            Some(waiting) => waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(work),
            None => {
                let run = move || while work(true) != ErrandStep::Ended {};
                drop(std::thread::Builder::new().name(name.to_owned()).spawn(run)?);
            }
        }
        Ok(())
    }

    /// In a simulation: takes an errand that was started.
    pub fn take(&self) -> Option<Work> {
        self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_errand_works_until_it_has_ended() {
        for errands in [Errands::default(), Errands::simulated()] {
            let (sender, steps) = channel();
            let mut left = 3;
            let work = move |may_wait| {
                left -= 1;
                sender.send(may_wait).expect("somebody listens");
                if left == 0 { ErrandStep::Ended } else { ErrandStep::Worked }
            };
            errands.start("errand", Box::new(work)).expect("there are threads");
            let is_simulated = errands.0.is_some();
            if let Some(mut work) = errands.take() {
                while work(false) != ErrandStep::Ended {}
            }
            assert_eq!(steps.iter().collect::<Vec<_>>(), [!is_simulated; 3]);
        }
    }
}
