//! Requests of one form, encoded before the clock starts.
//!
//! ```text
//!   bytes:  [request][request][request] …            starts:  where each begins, and the end
//!                     └── a batch: P in a row, beginning at a random one
//! ```

use proactor::Entropy;

/// What becomes a random number.
const PLACEHOLDER: &str = "__rand_int__";
/// Batches are cut from this many requests: no fewer keys in use than a server's cache is large, or it would look faster than
/// it is.
const VARIANTS: usize = 1 << 19;
/// The same of a command without a random number (more than any pipeline).
const COPIES: usize = 1 << 12;

/// Random requests of one form.
#[derive(Debug)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    batch: usize,
    random: Entropy,
}

impl Requests {
    /// Requests of the form `command`, in batches of `batch`; the placeholder becomes a number below `keys`.
    pub(crate) fn new(command: &[String], batch: u32, keys: u64, seed: u64) -> Requests {
        let mut random = Entropy::from_seed(seed);
        let mut bytes = Vec::new();
        let mut starts = vec![0];
        let is_random = command.iter().any(|arg| arg.contains(PLACEHOLDER));
        let count = if is_random { VARIANTS } else { COPIES }.max(batch as usize);
        for _ in 0..count {
            let args: Vec<String> = command
                .iter()
                .map(|arg| arg.replace(PLACEHOLDER, &format!("{:012}", random.below(keys))))
                .collect();
            resp::encode_request(&args, &mut bytes);
            starts.push(bytes.len());
        }
        Requests { bytes, starts, batch: batch as usize, random }
    }

    /// The bytes of a batch.
    pub(crate) fn batch(&mut self) -> &[u8] {
        let first = self.random.below((self.starts.len() - self.batch) as u64) as usize;
        &self.bytes[self.starts[first]..self.starts[first + self.batch]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_whole_requests() {
        let command = ["GET".to_string(), "k:__rand_int__".to_string()];
        let mut requests = Requests::new(&command, 3, 10, 7);
        let one = "*2\r\n$3\r\nGET\r\n$14\r\nk:000000000000\r\n".len();
        for _ in 0..1000 {
            let batch = requests.batch();
            assert_eq!(batch.len(), 3 * one);
            assert!(batch.starts_with(b"*2\r\n$3\r\nGET\r\n$14\r\nk:00000000000"));
        }
    }
}
