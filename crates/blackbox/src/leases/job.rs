//! The calls of a history that concern one job, and the faults that they show.

use std::collections::BTreeMap;

use super::{About, Call, Deed, Rules, Taken};
use crate::account::Moment;

/// A job that was given to a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Give<'h> {
    pub(super) queue: &'h str,
    pub(super) attempt: u64,
    pub(super) sent: Moment,
    pub(super) answered: Moment,
    lease: Moment,
}

/// A call about the job other than its put and its takes.
#[derive(Clone, Copy, Debug)]
struct Said {
    what: About,
    attempt: Option<u64>,
    sent: Moment,
    answered: Option<Moment>,
    was_active: bool,
}

/// The calls about one job, by the moment at which they were sent.
#[derive(Default, Debug)]
pub(super) struct Job<'h> {
    pub(super) put: Option<&'h Call>,
    /// By attempts.
    pub(super) gives: Vec<Give<'h>>,
    said: Vec<Said>,
}

/// All jobs of a history by their ids.
pub(super) fn lives(history: &[Call]) -> BTreeMap<&str, Job<'_>> {
    let mut jobs: BTreeMap<&str, Job<'_>> = BTreeMap::new();
    for call in history {
        match &call.deed {
            Deed::Put { id, holder: None, .. } => jobs.entry(id).or_default().put = Some(call),
            Deed::Put { .. } => {}
            Deed::Take { lease, got, .. } => {
                for Taken { queue, id, attempt } in got {
                    let answered = call.answered.expect("a reply was read");
                    let give = Give { queue, attempt: *attempt, sent: call.sent, answered, lease: *lease };
                    jobs.entry(id).or_default().gives.push(give);
                }
            }
            &Deed::Say { what, ref id, attempt, was_active } => {
                let said = Said { what, attempt, sent: call.sent, answered: call.answered, was_active };
                jobs.entry(id).or_default().said.push(said);
            }
        }
    }
    for job in jobs.values_mut() {
        job.gives.sort_by_key(|give| (give.attempt, give.answered));
        job.said.sort_by_key(|said| said.sent);
    }
    jobs
}

impl Said {
    /// Whether the call was about this attempt, or about any.
    fn is_about(&self, give: &Give<'_>) -> bool {
        self.attempt.is_none_or(|attempt| attempt == give.attempt)
    }

    /// Whether the call may have been heeded.
    fn may_count(&self) -> bool {
        self.answered.is_none() || self.was_active
    }

    fn ends(&self) -> bool {
        !matches!(self.what, About::Keep(_) | About::Retry)
    }

    /// Whether the call may have taken effect between these moments.
    fn may_fall(&self, from: Moment, to: Moment) -> bool {
        self.sent < to && self.answered.is_none_or(|answered| answered > from)
    }
}

impl Job<'_> {
    pub(super) fn was_done(&self) -> bool {
        self.dones().next().is_some()
    }

    pub(super) fn may_be_done(&self) -> bool {
        self.said.iter().any(|said| said.what == About::Done && said.may_count())
    }

    /// When the job was done, according to the server.
    pub(super) fn dones(&self) -> impl Iterator<Item = Moment> {
        let dones = self.said.iter().filter(|said| said.what == About::Done && said.was_active);
        dones.filter_map(|said| said.answered)
    }

    /// When the job may have been done at the earliest: a worker sent JOB.DONE then, and may have been heeded.
    pub(super) fn ends_at_the_earliest(&self) -> Option<Moment> {
        let dones = self.said.iter().filter(|said| said.what == About::Done && said.may_count());
        dones.map(|said| said.sent).min()
    }

    fn may_be_retried(&self) -> bool {
        self.said.iter().any(|said| said.what == About::Retry && said.may_count())
    }

    /// The give of its first attempt.
    pub(super) fn first_give(&self) -> Option<&Give<'_>> {
        self.gives.first().filter(|give| give.attempt == 1)
    }

    /// The queue in which the job surely waited for its first attempt, and the time; `None` if that is not known.
    /// `unheard` are the takes that were never answered.
    pub(super) fn surely_waits(&self, unheard: &[&Call], is_left: bool) -> Option<(&str, Moment, Moment)> {
        let put = self.put?;
        let Deed::Put { queue, is_delayed: false, .. } = &put.deed else { return None };
        let to = match self.gives.first() {
            Some(first) => first.sent,
            None if is_left => Moment::MAX,
            None => return None,
        };
        // A worker may have got the job without the reply reaching it.
        let has_taken = |call: &&Call| {
            let takes = matches!(&call.deed, Deed::Take { queues, .. } if queues.contains(queue));
            takes && call.sent < to
        };
        let is_known = !unheard.iter().any(has_taken);
        let is_first = self.gives.first().is_none_or(|give| give.attempt == 1);
        (is_known && is_first).then_some((queue, put.answered?, to))
    }

    /// Whether a call that named no attempt may have been heeded for a later attempt than this one.
    fn may_mean_later(&self, said: &Said, give: &Give<'_>) -> bool {
        let later = |other: &&Give<'_>| {
            other.answered > give.answered && said.answered.is_none_or(|answered| other.sent < answered)
        };
        said.attempt.is_none() && self.gives.iter().any(|other| later(&other))
    }

    /// When the time of a lease can be over at the earliest.
    fn over(&self, give: &Give<'_>) -> Moment {
        let mut over = give.sent + give.lease;
        for said in self.said.iter().filter(|said| said.may_count() && said.is_about(give)) {
            if let About::Keep(time) = said.what
                && said.may_fall(give.sent, over)
            {
                let is_sure =
                    said.was_active && said.sent >= give.answered && !self.may_mean_later(said, give);
                let until = said.sent + time;
                over = if is_sure { until } else { over.min(until) };
            }
        }
        over
    }

    /// Until when a worker surely holds the job.
    pub(super) fn held_until(&self, give: &Give<'_>) -> Moment {
        let over = self.over(give);
        let ends = self.said.iter().filter(|said| said.ends() && said.may_count() && said.is_about(give));
        let ended = ends.filter(|said| said.may_fall(give.sent, over)).map(|said| said.sent).min();
        over.min(ended.unwrap_or(Moment::MAX))
    }

    pub(super) fn complaints(&self, id: &str, rules: &Rules) -> Vec<String> {
        let mut complaints = Vec::new();
        let tries = match self.put.map(|put| &put.deed) {
            Some(Deed::Put { tries, .. }) => *tries,
            _ => u64::MAX,
        };
        if let Some(give) = self.gives.last().filter(|give| give.attempt > tries) {
            complaints.push(format!("{id} was tried {} times, not {tries}", give.attempt));
        }
        complaints.extend(self.repetitions(id));
        complaints.extend(if self.may_be_retried() {
            self.overlaps(id, rules)
        } else {
            self.too_early(id, rules)
        });
        complaints.extend(self.done_complaints(id));
        complaints.extend(self.refusals(id, rules));
        complaints.extend(self.confusions(id, rules));
        complaints
    }

    /// Attempts that were given twice although no call gave them back or began the attempts again.
    fn repetitions(&self, id: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        for pair in self.gives.windows(2) {
            let [one, other] = pair else { unreachable!("there are two") };
            let repeats = |said: &Said| match said.what {
                About::Release => said.is_about(one),
                About::Retry => true,
                About::Done | About::Fail | About::Keep(_) => false,
            };
            let mut said = self.said.iter().filter(|said| said.may_count() && repeats(said));
            let may_repeat = said.any(|said| said.may_fall(one.sent, other.answered));
            if one.attempt == other.attempt && !may_repeat {
                complaints.push(format!("attempt {} of {id} was given twice", one.attempt));
            }
        }
        complaints
    }

    /// Attempts that began before the previous one can have ended.
    fn too_early(&self, id: &str, rules: &Rules) -> Vec<String> {
        let mut complaints = Vec::new();
        for pair in self.gives.windows(2) {
            let [one, other] = pair else { unreachable!("there are two") };
            let ends = |said: &Said| said.may_count() && said.ends() && said.is_about(one);
            let was_ended =
                self.said.iter().any(|said| ends(said) && said.may_fall(one.sent, other.answered));
            if !was_ended && other.answered + rules.slack < self.over(one) {
                complaints.push(held_at_once(id, one, other));
            }
        }
        complaints
    }

    /// Leases that overlap, where numbers do not say which attempt was first.
    fn overlaps(&self, id: &str, rules: &Rules) -> Vec<String> {
        let mut complaints = Vec::new();
        for (index, one) in self.gives.iter().enumerate() {
            for other in &self.gives[index + 1..] {
                let both_from = one.answered.max(other.answered);
                if both_from + rules.slack < self.held_until(one).min(self.held_until(other)) {
                    complaints.push(held_at_once(id, one, other));
                }
            }
        }
        complaints
    }

    fn done_complaints(&self, id: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        if self.dones().count() > 1 {
            complaints.push(format!("{id} was done twice"));
        }
        let late = |done: Moment| self.gives.iter().find(move |give| give.sent > done);
        if let Some(give) = self.dones().min().and_then(late) {
            complaints.push(format!("attempt {} of {id} began after it was done", give.attempt));
        }
        complaints
    }

    /// Refusals of calls by a worker that held the job.
    fn refusals(&self, id: &str, rules: &Rules) -> Option<String> {
        let refused = |said: &&Said| !said.was_active && said.what != About::Retry;
        self.said.iter().filter(refused).find_map(|said| {
            let answered = said.answered?;
            let holds = |give: &&Give<'_>| {
                said.is_about(give)
                    && give.answered < said.sent
                    && answered + rules.slack < self.held_until(give)
            };
            let give = self.gives.iter().find(holds)?;
            Some(format!("{:?} of {id} was refused while attempt {} held it", said.what, give.attempt))
        })
    }

    /// Calls about one attempt that were heeded while another one surely went on.
    fn confusions(&self, id: &str, rules: &Rules) -> Option<String> {
        self.said.iter().filter(|said| said.was_active).find_map(|said| {
            let (meant, answered) = (said.attempt?, said.answered?);
            let holds = |give: &&Give<'_>| {
                give.attempt != meant
                    && give.answered < said.sent
                    && answered + rules.slack < self.held_until(give)
            };
            let attempt = self.gives.iter().find(holds)?.attempt;
            let what = said.what;
            Some(format!("{what:?} of attempt {meant} of {id} was heeded while attempt {attempt} held it"))
        })
    }
}

fn held_at_once(id: &str, one: &Give<'_>, other: &Give<'_>) -> String {
    format!("attempts {} and {} of {id} were held at once", one.attempt, other.attempt)
}
