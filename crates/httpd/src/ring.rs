//! A ring of the latest values of a series.

/// See the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    values: Box<[T]>,
    /// Where the next value goes.
    next: usize,
    len: usize,
}

impl<T: Copy + Default> Ring<T> {
    /// An empty ring for `capacity` values.
    pub(crate) fn new(capacity: usize) -> Ring<T> {
        Ring { values: vec![T::default(); capacity].into(), next: 0, len: 0 }
    }

    /// Adds a value. If the ring is full, the oldest one is dropped.
    pub(crate) fn push(&mut self, value: T) {
        self.values[self.next] = value;
        self.next = (self.next + 1) % self.values.len();
        self.len = (self.len + 1).min(self.values.len());
    }

    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All values, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        let first = self.next + self.values.len() - self.len;
        (0..self.len).map(move |index| self.values[(first + index) % self.values.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go() {
        let mut ring = Ring::new(3);
        for (value, kept) in
            [(1, vec![1]), (2, vec![1, 2]), (3, vec![1, 2, 3]), (4, vec![2, 3, 4]), (5, vec![3, 4, 5])]
        {
            ring.push(value);
            assert_eq!(ring.iter().collect::<Vec<_>>(), kept);
            assert_eq!(ring.len(), kept.len());
        }
    }
}
