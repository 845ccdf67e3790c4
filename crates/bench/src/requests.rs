//! Requests of one form, encoded before the clock starts.
//!
//! ```text
//!   bytes:  [request][request][request] …            all of one length: they differ in their numbers
//!                     └── a batch: P in a row, after those of the previous batch
//! ```

use memchr::memmem;
use proactor::Entropy;

/// Is replaced by a random number.
const PLACEHOLDER: &[u8; 12] = b"__rand_int__";
/// The number of values that fit into as many digits as the placeholder has.
pub(crate) const KEYS_MAX: u64 = 1_000_000_000_000;
/// Number of encoded requests from which batches are cut. With fewer distinct keys than fit into a server's cache, the server
/// would look faster than it is.
const VARIANTS: usize = 1 << 19;
/// Number of encoded requests for a command without random numbers. More than any pipeline.
const COPIES: usize = 1 << 12;

/// Random requests of one form.
#[derive(Debug)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    request_bytes: usize,
    /// Requests per batch.
    batch: usize,
    /// Where the next batch starts.
    next: usize,
    random: Entropy,
}

impl Requests {
    /// Requests of the form `command`, in batches of `batch`. The placeholder is replaced by numbers below `keys`.
    pub(crate) fn new(command: &[String], batch: u32, keys: u64, seed: u64) -> Requests {
        let mut random = Entropy::from_seed(seed);
        let mut form = Vec::new();
        resp::encode_request(command, &mut form);
        let places: Vec<usize> = memmem::find_iter(&form, PLACEHOLDER).collect();
        let count = if places.is_empty() { COPIES } else { VARIANTS }.max(batch as usize);
        let mut bytes = form.repeat(count);
        for request in bytes.chunks_exact_mut(form.len()) {
            for &place in &places {
                let mut number = random.below(keys);
                for digit in request[place..][..PLACEHOLDER.len()].iter_mut().rev() {
                    *digit = b'0' + (number % 10) as u8;
                    number /= 10;
                }
            }
        }
        Requests { bytes, request_bytes: form.len(), batch: batch as usize, next: 0, random }
    }

    /// The bytes of the next batch. Batches are consecutive, so that the processor can prefetch them. After the last request
    /// they continue at a random one.
    pub(crate) fn batch(&mut self) -> &[u8] {
        let batch_bytes = self.batch * self.request_bytes;
        if self.bytes.len() - self.next < batch_bytes {
            let firsts = (self.bytes.len() - batch_bytes) / self.request_bytes + 1;
            self.next = self.random.below(firsts as u64) as usize * self.request_bytes;
        }
        let first = self.next;
        self.next += batch_bytes;
        &self.bytes[first..self.next]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_a_request_is_drawn() {
        let command =
            ["SET".to_string(), "__rand_int__:__rand_int__".to_string(), "__rand_int__".to_string()];
        let mut requests = Requests::new(&command, 1, KEYS_MAX, 7);
        let text = String::from_utf8(requests.batch().to_vec()).expect("digits");
        let lines: Vec<&str> = text.split("\r\n").collect();
        let mut numbers: Vec<&str> = lines[4].split(':').chain([lines[6]]).collect();
        numbers.sort();
        numbers.dedup();
        assert_eq!(numbers.len(), 3, "{text}");
        assert!(numbers.iter().all(|number| number.len() == 12 && number.parse::<u64>().is_ok()), "{text}");
    }

    #[test]
    fn a_batch_is_whole_requests() {
        let command = ["GET".to_string(), "k:__rand_int__".to_string()];
        let mut requests = Requests::new(&command, 3, 10, 7);
        let one = "*2\r\n$3\r\nGET\r\n$14\r\nk:000000000000\r\n".len();
        for _ in 0..2 * VARIANTS {
            let batch = requests.batch();
            assert_eq!(batch.len(), 3 * one);
            assert!(batch.starts_with(b"*2\r\n$3\r\nGET\r\n$14\r\nk:00000000000"));
        }
    }
}
