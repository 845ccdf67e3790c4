//! The jobs of a queue that are not in its list: numbers that the holder of the shard counts and any thread
//! may read.

use ds::figure::Figure;

/// A number that is counted. If it is a limit or a time, 0 means that there is no such limit or time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum JobFigure {
    /// Jobs that workers have.
    Active,
    /// Jobs that come later.
    Delayed,
    /// Jobs that had all their attempts.
    Dead,
    /// Jobs that wait in groups.
    Grouped,
    /// Groups that have jobs waiting.
    Groups,
    /// Schedules that push jobs.
    Schedules,
    /// When the next lease ends, in ms since 1970.
    NextLeaseMs,
    /// When the next delay is over or the next schedule comes, in ms since 1970.
    NextDueMs,
    /// How many elements may be taken in one period.
    Rate,
    /// The length of that period in ms.
    PerMs,
    /// How many jobs may be active.
    ActiveMax,
    /// How many jobs of each group may be active.
    PerGroupMax,
}

impl JobFigure {
    /// All of these numbers, in the order in which they are shown.
    pub const ALL: [JobFigure; 12] = [
        JobFigure::Active,
        JobFigure::Delayed,
        JobFigure::Dead,
        JobFigure::Grouped,
        JobFigure::Groups,
        JobFigure::Schedules,
        JobFigure::NextLeaseMs,
        JobFigure::NextDueMs,
        JobFigure::Rate,
        JobFigure::PerMs,
        JobFigure::ActiveMax,
        JobFigure::PerGroupMax,
    ];

    /// The name that users see.
    pub fn name(self) -> &'static str {
        match self {
            JobFigure::Active => "active",
            JobFigure::Delayed => "delayed",
            JobFigure::Dead => "dead",
            JobFigure::Grouped => "grouped",
            JobFigure::Groups => "groups",
            JobFigure::Schedules => "schedules",
            JobFigure::NextLeaseMs => "next_lease_ms",
            JobFigure::NextDueMs => "next_due_ms",
            JobFigure::Rate => "limit_rate",
            JobFigure::PerMs => "limit_per_ms",
            JobFigure::ActiveMax => "limit_active",
            JobFigure::PerGroupMax => "limit_per_group",
        }
    }

    /// Whether 0 means that it is not set, rather than a count of zero.
    pub fn is_optional(self) -> bool {
        self as u8 >= JobFigure::NextLeaseMs as u8
    }
}

/// The numbers of one queue at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobCounts([u64; JobFigure::ALL.len()]);

impl JobCounts {
    /// Returns one of the numbers.
    pub fn get(&self, figure: JobFigure) -> u64 {
        self.0[figure as usize]
    }

    /// Makes one of them another number.
    pub fn set(&mut self, figure: JobFigure, number: u64) {
        self.0[figure as usize] = number;
    }

    /// All of them as users see them: `None` where there is nothing to count.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> + '_ {
        JobFigure::ALL.into_iter().map(|figure| {
            let number = self.get(figure);
            (figure.name(), (number > 0 || !figure.is_optional()).then_some(number))
        })
    }
}

/// The numbers in the form that any thread may read.
#[derive(Debug, Default)]
pub(super) struct JobFigures([Figure; JobFigure::ALL.len()]);

impl JobFigures {
    pub(super) fn get(&self) -> JobCounts {
        JobCounts(self.0.each_ref().map(Figure::get))
    }

    pub(super) fn set(&self, counts: &JobCounts) {
        self.0.iter().zip(counts.0).for_each(|(figure, number)| figure.set(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_place_and_name() {
        let mut counts = JobCounts::default();
        for (index, figure) in JobFigure::ALL.into_iter().enumerate() {
            assert_eq!(figure as usize, index);
            counts.set(figure, index as u64 + 1);
        }
        let figures = JobFigures::default();
        figures.set(&counts);
        assert_eq!(figures.get(), counts);
        assert!(counts.rows().zip(1..).all(|((_, number), expected)| number == Some(expected)));
        let shown: Vec<_> =
            JobCounts::default().rows().filter_map(|(name, number)| number.map(|_| name)).collect();
        assert_eq!(shown, ["active", "delayed", "dead", "grouped", "groups", "schedules"]);
    }
}
