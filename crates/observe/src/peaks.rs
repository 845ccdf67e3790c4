//! The largest buffers of clients in the last seconds, as `INFO` shows them.

/// How many seconds count as recent.
const RECENT_SECONDS: u64 = 8;

/// The largest input and output buffers of the last seconds.
#[derive(Debug, Default)]
pub struct RecentPeaks {
    /// The largest buffers in a second, and its number, counted from 1.
    slots: [(u64, [usize; 2]); RECENT_SECONDS as usize],
}

impl RecentPeaks {
    /// Adds the largest buffers at this moment; returns the largest of the last seconds.
    pub fn note(&mut self, second: u64, bytes: [usize; 2]) -> [usize; 2] {
        let second = second + 1;
        let slot = &mut self.slots[(second % RECENT_SECONDS) as usize];
        if slot.0 != second {
            *slot = (second, [0; 2]);
        }
        slot.1 = [0, 1].map(|kind| slot.1[kind].max(bytes[kind]));
        let recent = self.slots.iter().filter(|(of, _)| of + RECENT_SECONDS > second);
        recent.fold([0; 2], |most, (_, bytes)| [0, 1].map(|kind: usize| most[kind].max(bytes[kind])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_forgotten_after_some_seconds() {
        let mut peaks = RecentPeaks::default();
        assert_eq!(peaks.note(0, [5, 1]), [5, 1]);
        assert_eq!(peaks.note(0, [3, 2]), [5, 2]);
        assert_eq!(peaks.note(7, [1, 1]), [5, 2]);
        assert_eq!(peaks.note(8, [2, 0]), [2, 1]);
        assert_eq!(peaks.note(100, [0, 0]), [0, 0]);
    }
}
