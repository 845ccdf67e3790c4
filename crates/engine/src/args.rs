//! Arguments that outlive the connection's input because the command is delegated, queued by `MULTI`, or
//! waiting.

use smallvec::SmallVec;

/// Arguments as commands get them: borrowed, with the name first.
pub type ArgSlices<'a> = SmallVec<[&'a [u8]; 16]>;

/// A copy of a command's arguments in one block.
#[derive(Clone, Debug, Default)]
pub struct OwnedArgs {
    bytes: Vec<u8>,
    ends: SmallVec<[usize; 8]>,
}

impl OwnedArgs {
    /// Copies `args`.
    pub fn new(args: &[&[u8]]) -> Self {
        let mut owned = OwnedArgs::default();
        owned.set(args);
        owned
    }

    /// Copies `args` over the previous arguments, and reuses their memory if it suffices.
    pub fn set(&mut self, args: &[&[u8]]) {
        self.bytes.clear();
        self.ends.clear();
        self.bytes.reserve_exact(args.iter().map(|arg| arg.len()).sum());
        self.ends.reserve_exact(args.len());
        for arg in args {
            self.bytes.extend_from_slice(arg);
            self.ends.push(self.bytes.len());
        }
    }

    /// The arguments as slices.
    pub fn slices(&self) -> ArgSlices<'_> {
        let mut start = 0;
        self.ends
            .iter()
            .map(|&end| {
                let arg = &self.bytes[start..end];
                start = end;
                arg
            })
            .collect()
    }

    /// The argument at `index`.
    ///
    /// # Panics
    /// If there are fewer arguments.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..self.ends[index]]
    }

    /// The memory that the arguments take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.len() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_back_as_they_were() {
        let args: [&[u8]; 4] = [b"SET", b"", b"k", b"value"];
        let owned = OwnedArgs::new(&args);
        assert_eq!(owned.slices().as_slice(), args);
        assert_eq!([0, 1, 2, 3].map(|index| owned.get(index)), args);
    }
}
