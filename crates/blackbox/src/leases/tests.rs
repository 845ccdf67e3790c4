//! Histories that a sound server cannot have, each with the expected complaint; and some that it may have.

use super::*;

const LEASE: Moment = 100;

/// A history in short form: times are those of sending, and replies come at once or never.
#[derive(Default)]
struct History {
    calls: Vec<Call>,
    left: Left,
    rules: Rules,
}

impl History {
    fn call(mut self, sent: Moment, deed: Deed) -> History {
        self.calls.push(Call { sent, answered: Some(sent + 1), deed });
        self
    }

    fn put(self, sent: Moment, id: &str) -> History {
        let (queue, id) = ("q".to_owned(), id.to_owned());
        self.call(sent, Deed::Put { queue, id, tries: 3, is_delayed: false, lock: None, holder: None })
    }

    fn put_locked(self, sent: Moment, id: &str, time: Option<Moment>, holder: Option<&str>) -> History {
        let lock = Some(Lock { name: "l".to_owned(), time });
        let (queue, id, holder) = ("q".to_owned(), id.to_owned(), holder.map(str::to_owned));
        self.call(sent, Deed::Put { queue, id, tries: 3, is_delayed: false, lock, holder })
    }

    fn take_of(self, sent: Moment, queues: &[&str], id: &str, attempt: u64) -> History {
        let queues: Vec<String> = queues.iter().map(|queue| (*queue).to_owned()).collect();
        let from = queues.last().expect("there is one").clone();
        let got =
            if id.is_empty() { Vec::new() } else { vec![Taken { queue: from, id: id.to_owned(), attempt }] };
        self.call(sent, Deed::Take { queues, lease: LEASE, count: 1, got })
    }

    fn take(self, sent: Moment, id: &str, attempt: u64) -> History {
        self.take_of(sent, &["q"], id, attempt)
    }

    fn say(self, sent: Moment, what: About, id: &str, was_active: bool) -> History {
        self.call(sent, Deed::Say { what, id: id.to_owned(), attempt: None, was_active })
    }

    fn say_of(self, sent: Moment, what: About, (id, attempt): (&str, u64), was_active: bool) -> History {
        self.call(sent, Deed::Say { what, id: id.to_owned(), attempt: Some(attempt), was_active })
    }

    fn done(self, sent: Moment, id: &str) -> History {
        self.say(sent, About::Done, id, true)
    }

    /// The last call was never answered.
    fn unheard(mut self) -> History {
        self.calls.last_mut().expect("there is one").answered = None;
        self
    }

    fn waits(mut self, id: &str) -> History {
        self.left.waiting.insert(id.to_owned());
        self
    }

    fn dies(mut self, id: &str) -> History {
        self.left.dead.insert(id.to_owned());
        self
    }

    fn limit(mut self, active: Option<usize>, rate: Option<(usize, Moment)>) -> History {
        self.rules.limits.insert("q".to_owned(), Limits { active, rate });
        self
    }

    fn complaints(&self) -> Vec<String> {
        check(&self.calls, &self.left, &self.rules)
    }

    #[track_caller]
    fn is_fine(&self) {
        assert_eq!(self.complaints(), Vec::<String>::new());
    }

    #[track_caller]
    fn is_wrong(&self, complaint: &str) {
        assert_eq!(self.complaints(), [complaint]);
    }
}

fn history() -> History {
    History::default()
}

#[test]
fn a_job_that_is_done_once_is_fine() {
    history().put(0, "a").take(10, "a", 1).done(20, "a").is_fine();
    history().put(0, "a").take(10, "a", 1).take(111, "a", 2).done(120, "a").is_fine();
    history().put(0, "a").waits("a").is_fine();
    history().put(0, "a").unheard().is_fine();
    history().put(0, "a").take(10, "a", 1).done(20, "a").unheard().is_fine();
    // No worker heard of the first attempt.
    history().put(0, "a").take(10, "", 0).unheard().take(111, "a", 2).done(120, "a").is_fine();
}

#[test]
fn two_holders_are_noticed() {
    let early = history().put(0, "a").take(10, "a", 1).take(60, "a", 2).done(70, "a");
    early.is_wrong("attempts 1 and 2 of a were held at once");
    let keep = About::Keep(LEASE);
    let kept =
        history().put(0, "a").take(10, "a", 1).say(50, keep, "a", true).take(120, "a", 2).done(130, "a");
    kept.is_wrong("attempts 1 and 2 of a were held at once");
    history()
        .put(0, "a")
        .take(10, "a", 1)
        .say(20, About::Fail, "a", true)
        .take(60, "a", 2)
        .done(70, "a")
        .is_fine();
    history()
        .put(0, "a")
        .take(10, "a", 1)
        .say(20, About::Fail, "a", true)
        .unheard()
        .take(60, "a", 2)
        .done(70, "a")
        .is_fine();
    // JOB.KEEP applies to the second attempt, which came as the first one's lease ended.
    let mut ended = history().put(0, "a").take(10, "a", 1).take(107, "a", 2);
    ended.rules.slack = 5;
    ended.say(109, About::Keep(2 * LEASE), "a", true).done(200, "a").is_fine();
    // A worker made the lease shorter.
    history()
        .put(0, "a")
        .take(10, "a", 1)
        .say(12, About::Keep(5), "a", true)
        .take(60, "a", 2)
        .done(70, "a")
        .is_fine();
}

#[test]
fn attempts_that_do_not_add_up_are_noticed() {
    let twice = history().put(0, "a").take(10, "a", 1).take(200, "a", 1).done(210, "a");
    twice.is_wrong("attempt 1 of a was given twice");
    history()
        .put(0, "a")
        .take(10, "a", 1)
        .say(20, About::Release, "a", true)
        .take(30, "a", 1)
        .done(40, "a")
        .is_fine();
    let jumps = history().put(0, "a").take(10, "a", 2).done(20, "a");
    jumps.is_wrong("1 attempts were given to nobody, 0 at most can have been");
    let many = history().put(0, "a").take(10, "a", 1).take(200, "a", 2).take(400, "a", 3).take(600, "a", 4);
    many.done(610, "a").is_wrong("a was tried 4 times, not 3");
}

#[test]
fn jobs_that_are_done_twice_or_refused_are_noticed() {
    let twice = history().put(0, "a").take(10, "a", 1).done(20, "a").done(30, "a");
    twice.is_wrong("a was done twice");
    let again = history().put(0, "a").take(10, "a", 1).done(20, "a").take(50, "a", 2);
    again.is_wrong("attempt 2 of a began after it was done");
    let refused = history().put(0, "a").take(10, "a", 1).say(20, About::Done, "a", false).waits("a");
    refused.is_wrong("Done of a was refused while attempt 1 held it");
    // Another worker, whose lease had ended, sent the call before.
    history()
        .put(0, "a")
        .take(10, "a", 1)
        .take(120, "a", 2)
        .done(130, "a")
        .say(140, About::Done, "a", false)
        .is_fine();
}

#[test]
fn attempts_that_are_taken_for_each_other_are_noticed() {
    let second = || history().put(0, "a").take(10, "a", 1).take(120, "a", 2);
    second().say_of(130, About::Fail, ("a", 1), false).say_of(140, About::Done, ("a", 2), true).is_fine();
    second()
        .say_of(130, About::Keep(LEASE), ("a", 1), true)
        .done(140, "a")
        .is_wrong("Keep(100) of attempt 1 of a was heeded while attempt 2 held it");
    second()
        .say_of(130, About::Done, ("a", 2), false)
        .waits("a")
        .is_wrong("Done of a was refused while attempt 2 held it");
    // A call about another attempt does not explain that this one ends early.
    let early = history().put(0, "a").take(10, "a", 1).say_of(20, About::Fail, ("a", 2), false).unheard();
    early.take(60, "a", 2).done(70, "a").is_wrong("attempts 1 and 2 of a were held at once");
}

#[test]
fn jobs_that_are_nowhere_or_in_two_places_are_noticed() {
    history().put(0, "a").is_wrong("a is lost");
    history().put(0, "a").take(10, "a", 1).is_wrong("a is lost");
    history().put(0, "a").take(10, "a", 1).done(20, "a").waits("a").is_wrong("a was done, and is there");
    history().put(0, "a").waits("a").dies("a").is_wrong("a waits and is dead");
    history().waits("a").is_wrong("nobody put a, which is there");
    history().take(10, "a", 1).done(20, "a").is_wrong("nobody put a, which was given");
}

#[test]
fn an_order_that_was_not_promised_is_noticed() {
    let both = || history().put(0, "a").put(5, "b");
    both()
        .take(10, "b", 1)
        .done(11, "b")
        .take(20, "a", 1)
        .done(21, "a")
        .is_wrong("b was taken before a, which was put before it");
    both()
        .take(10, "b", 1)
        .done(11, "b")
        .waits("a")
        .is_wrong("b was taken before a, which was put before it");
    both().take(10, "a", 1).done(11, "a").take(20, "b", 1).done(21, "b").is_fine();
    // A worker got it, and it came back.
    both().take(6, "", 0).unheard().take(10, "b", 1).done(11, "b").take(20, "a", 1).done(21, "a").is_fine();
    let (queue, id) = ("low".to_owned(), "l".to_owned());
    let second = Deed::Put { queue, id, tries: 3, is_delayed: false, lock: None, holder: None };
    let low = |first: Moment| {
        let put = history().put(first, "a").call(1, second.clone());
        put.take_of(10, &["q", "low"], "l", 1).done(20, "l").take(30, "a", 1).done(40, "a")
    };
    low(0).is_wrong("l was taken from low while a was in q");
    low(9).is_fine();
}

#[test]
fn limits_that_are_exceeded_are_noticed() {
    let three = || {
        let put = history().put(0, "a").put(2, "b").put(4, "c");
        let taken = put.take(10, "a", 1).take(20, "b", 1).take(30, "c", 1);
        taken.done(40, "a").done(42, "b").done(44, "c")
    };
    three().limit(Some(3), None).is_fine();
    three().limit(Some(2), None).is_wrong("3 jobs of q were active at once, not 2");
    three().limit(None, Some((2, 20))).is_fine();
    three().limit(None, Some((2, 30))).is_wrong("3 jobs of q were taken within its window, not 2");
}

#[test]
fn attempts_begin_anew_after_a_retry_only() {
    let dead = || history().put(0, "a").take(10, "a", 1).say(20, About::Fail, "a", true);
    dead().say(30, About::Retry, "a", true).take(40, "a", 1).done(50, "a").is_fine();
    dead()
        .say(30, About::Retry, "a", false)
        .take(40, "a", 1)
        .done(50, "a")
        .is_wrong("attempt 1 of a was given twice");
    // While a worker has it, it cannot be retried.
    let active = history().put(0, "a").take(10, "a", 1).say(30, About::Retry, "a", true);
    active.take(40, "a", 1).done(120, "a").is_wrong("attempts 1 and 1 of a were held at once");
}

#[test]
fn locks_that_two_have_or_nobody_are_noticed() {
    let first = || history().put_locked(0, "a", None, None);
    first().waits("a").put_locked(10, "b", None, Some("a")).is_fine();
    first().waits("a").put_locked(10, "b", None, None).waits("b").is_wrong("b got the lock l, which a had");
    let done = || first().take(10, "a", 1).done(20, "a");
    done().put_locked(30, "b", None, None).waits("b").is_fine();
    done()
        .put_locked(30, "b", None, Some("a"))
        .is_wrong("b was refused for the lock l of q, which a had not");
    first()
        .waits("a")
        .put_locked(10, "b", None, Some("c"))
        .is_wrong("b was refused for the lock l of q, which c had not");
    let timed = || history().put_locked(0, "a", Some(50), None).waits("a");
    timed().put_locked(60, "b", None, None).waits("b").is_fine();
    timed().put_locked(40, "b", None, None).waits("b").is_wrong("b got the lock l, which a had");
    timed()
        .put_locked(60, "b", None, Some("a"))
        .is_wrong("b was refused for the lock l of q, which a had not");
    // A job that was refused is not there.
    first()
        .waits("a")
        .put_locked(10, "b", None, Some("a"))
        .waits("b")
        .is_wrong("nobody put b, which is there");
}
