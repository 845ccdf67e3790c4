//! Sends a replica the part of the stream that is no longer in memory. A blocking task reads it from the journal, a little
//! ahead of the replica.

use std::sync::mpsc::{Receiver, SendError, SyncSender, TryRecvError, TrySendError, sync_channel};

use proactor::{BlockingStep, BlockingTasks};

/// Pieces that are read ahead, each at most one slice.
const PIECES_AHEAD: usize = 4;

/// Reads the next piece, waiting for the disk. `None` at the end. After an error nothing more can be read; its text
/// says why.
pub type Read = Box<dyn FnMut() -> Result<Option<Vec<u8>>, String> + Send>;

/// See the head of this file.
pub(crate) struct Tail {
    pieces: Receiver<Piece>,
    /// The piece that is being sent, and how much of it was sent.
    piece: Vec<u8>,
    sent: usize,
}

/// The next part of the tail.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Next<'a> {
    Bytes(&'a [u8]),
    /// Nothing yet: the thread is woken when there is something.
    Later,
    End,
    /// Reading failed, for this reason.
    Failed(String),
}

impl Tail {
    /// Starts a blocking task that reads with `read` and calls `wake` whenever there is something new. It ends when the tail
    /// is dropped.
    pub(crate) fn begin(
        mut read: Read,
        wake: Box<dyn Fn() + Send + Sync>,
        blocking_tasks: &BlockingTasks,
    ) -> std::io::Result<Tail> {
        let (sender, pieces) = sync_channel(PIECES_AHEAD);
        let (mut sender, mut piece) = (Some(sender), None);
        let work = move |may_wait| {
            let help = match &sender {
                Some(sender) => send_next(&mut read, &mut piece, sender, may_wait),
                None => BlockingStep::Ended,
            };
            if help == BlockingStep::Ended {
                sender = None;
            }
            if help != BlockingStep::Waits {
                wake();
            }
            help
        };
        blocking_tasks.start("stream", Box::new(work))?;
        Ok(Tail { pieces, piece: Vec::new(), sent: 0 })
    }

    /// Takes the next part, at most `bytes_max` bytes.
    pub(crate) fn next(&mut self, bytes_max: usize) -> Next<'_> {
        while self.sent == self.piece.len() {
            match self.pieces.try_recv() {
                Ok(Ok(piece)) => (self.piece, self.sent) = (piece, 0),
                Ok(Err(why)) => return Next::Failed(why),
                Err(TryRecvError::Empty) => return Next::Later,
                Err(TryRecvError::Disconnected) => return Next::End,
            }
        }
        let bytes = &self.piece[self.sent..];
        let bytes = &bytes[..bytes.len().min(bytes_max)];
        self.sent += bytes.len();
        Next::Bytes(bytes)
    }
}

/// A piece that was read and has yet to be sent.
type Piece = Result<Vec<u8>, String>;

/// Reads a piece if none is ready, and sends it if there is room. An error is the last item.
fn send_next(
    read: &mut Read,
    piece: &mut Option<Piece>,
    sender: &SyncSender<Piece>,
    may_wait: bool,
) -> BlockingStep {
    let Some(next) = piece.take().or_else(|| read().transpose()) else { return BlockingStep::Ended };
    let is_last = next.is_err();
    let sent = if may_wait {
        sender.send(next).map_err(|SendError(next)| TrySendError::Disconnected(next))
    } else {
        sender.try_send(next)
    };
    match sent {
        Ok(()) if !is_last => BlockingStep::Worked,
        Err(TrySendError::Full(next)) => {
            *piece = Some(next);
            BlockingStep::Waits
        }
        Ok(()) | Err(TrySendError::Disconnected(_)) => BlockingStep::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the tail to its end. Returns its bytes and its error.
    fn all(pieces: Vec<Result<&'static str, &'static str>>) -> (String, Option<String>) {
        let mut pieces = pieces.into_iter();
        let read: Read = Box::new(move || match pieces.next() {
            Some(Ok(piece)) => Ok(Some(piece.as_bytes().to_vec())),
            Some(Err(why)) => Err(why.to_owned()),
            None => Ok(None),
        });
        let (sender, woken) = std::sync::mpsc::channel();
        // The receiver is gone when everything has been read.
        let wake = Box::new(move || sender.send(()).unwrap_or_default());
        let mut tail = Tail::begin(read, wake, &BlockingTasks::default()).expect("there are threads");
        let mut text = String::new();
        loop {
            match tail.next(3) {
                Next::Bytes(bytes) => {
                    assert!((1..=3).contains(&bytes.len()));
                    text += std::str::from_utf8(bytes).expect("it is text");
                }
                Next::Later => woken.recv().expect("it is woken, or there is something"),
                Next::End => return (text, None),
                Next::Failed(why) => return (text, Some(why)),
            }
        }
    }

    #[test]
    fn all_of_it_comes_in_order_however_much_more_than_is_read_ahead() {
        let pieces = ["abcd", "", "e", "fghijkl", "m", "n", "o", "p"];
        assert_eq!(all(pieces.map(Ok).to_vec()), ("abcdefghijklmnop".to_owned(), None));
    }

    #[test]
    fn what_cannot_be_read_is_the_end() {
        let pieces = vec![Ok("abc"), Err("it is gone"), Ok("never")];
        assert_eq!(all(pieces), ("abc".to_owned(), Some("it is gone".to_owned())));
    }
}
