//! Reads the server's counters every second, for the charts and the depths of queues.

use std::time::Instant;

use engine::{CommandId, Flag};
use observe::{Durations, EntryType, Facts};

use crate::Source;
use crate::charts::{Charts, Point};
use crate::cpu::ThreadClocks;
use crate::sparks::Sparks;

/// The seconds of a minute.
const MINUTE_S: u32 = 60;

/// See the head of this file.
pub(crate) struct Sampler {
    pub(crate) charts: Charts,
    pub(crate) sparks: Sparks,
    /// The commands that only read, and those that write.
    commands: [Vec<CommandId>; 2],
    clocks: ThreadClocks,
    thread_count: usize,
    second: Option<Look>,
    minute: Option<Look>,
    /// Seconds since the last point of the minutes' chart.
    seconds: u32,
}

/// The counters at one time.
struct Look {
    at: Instant,
    /// Commands that read, commands that write, and others.
    commands: [u64; 3],
    durations: [Durations; 2],
    /// Bytes in, bytes out, and delegated commands.
    others: [u64; 3],
    run_ns: Vec<u64>,
}

impl Sampler {
    pub(crate) fn new(source: &dyn Source) -> Sampler {
        let facts = source.facts();
        let of_kind = |flag: Flag| {
            let commands = facts.table().all_with_protocol().iter();
            commands.filter(|command| command.has(flag)).map(|command| command.id).collect()
        };
        let thread_count = facts.observed().threads().len();
        Sampler {
            charts: Charts::new(thread_count),
            sparks: Sparks::new(Instant::now()),
            commands: [of_kind(Flag::ReadOnly), of_kind(Flag::Write)],
            clocks: ThreadClocks::find(thread_count),
            thread_count,
            second: None,
            minute: None,
            seconds: 0,
        }
    }

    /// Takes a sample.
    pub(crate) fn take(&mut self, source: &dyn Source) {
        self.sparks.take(|| source.queues());
        let facts = source.facts();
        let look = self.look(&*facts);
        if look.run_ns.contains(&0) {
            self.clocks = ThreadClocks::find(self.thread_count);
        }
        let now_ms = source.now_ms();
        if let Some(before) = &self.second {
            let (point, cpu) = look.since(before);
            self.charts.seconds.push(now_ms, point, &cpu);
        }
        self.seconds += 1;
        match &self.minute {
            None => self.minute = Some(self.look(&*facts)),
            Some(before) if self.seconds >= MINUTE_S => {
                let (point, cpu) = look.since(before);
                self.charts.minutes.push(now_ms, point, &cpu);
                self.minute = Some(self.look(&*facts));
                self.seconds = 0;
            }
            Some(_) => {}
        }
        self.second = Some(look);
    }

    /// For how many nanoseconds each thread has run.
    pub(crate) fn run_ns(&self) -> Vec<u64> {
        self.clocks.run_ns()
    }

    fn look(&self, facts: &dyn Facts) -> Look {
        let observed = facts.observed();
        let calls = |ids: &[CommandId]| {
            let threads = observed.threads().iter();
            threads.map(|stats| ids.iter().map(|id| stats.command(*id).calls.get()).sum::<u64>()).sum()
        };
        let [reads, writes] = &self.commands;
        let (read_calls, write_calls): (u64, u64) = (calls(reads), calls(writes));
        let all_calls = observed.now(|stats| &stats.commands_processed);
        Look {
            at: Instant::now(),
            // They are counted one after the other, so the sum may be behind its parts.
            commands: [read_calls, write_calls, all_calls.saturating_sub(read_calls + write_calls)],
            durations: [Durations::of_all(observed, reads), Durations::of_all(observed, writes)],
            others: [
                observed.now(|stats| &stats.net_input_bytes),
                observed.now(|stats| &stats.net_output_bytes),
                observed.now(|stats| &stats.entries[EntryType::Hop as usize]),
            ],
            run_ns: self.clocks.run_ns(),
        }
    }
}

impl Look {
    /// The rates per second since `before`, and the load of each thread in percent.
    fn since(&self, before: &Look) -> (Point, Vec<f32>) {
        let elapsed_s = self.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 / elapsed_s) as f32;
        let [reads, writes, others] =
            std::array::from_fn(|index| rate(self.commands[index], before.commands[index]));
        let [net_in, net_out, delegations] =
            std::array::from_fn(|index| rate(self.others[index], before.others[index]));
        let durations: [Durations; 2] =
            std::array::from_fn(|index| self.durations[index].since(&before.durations[index]));
        let percentile = |durations: &Durations, percent: f64| {
            if durations.calls == 0 { f32::NAN } else { durations.percentile_us(percent) as f32 }
        };
        let point = [
            reads,
            writes,
            others,
            percentile(&durations[0], 50.0),
            percentile(&durations[0], 99.0),
            percentile(&durations[1], 50.0),
            percentile(&durations[1], 99.0),
            heap::allocated_bytes() as f32,
            net_in,
            net_out,
            delegations,
        ];
        let ran = self.run_ns.iter().zip(&before.run_ns);
        let percent = |(now, before): (&u64, &u64)| {
            let is_known = *before > 0;
            if is_known { (now.saturating_sub(*before) as f64 / elapsed_s / 1e7) as f32 } else { 0.0 }
        };
        (point, ran.map(percent).collect())
    }
}
