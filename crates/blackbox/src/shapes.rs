//! Checks the replies on a connection against the declarations of its commands.

use engine::{Shape, Table};
use resp::Value;

/// Follows a connection: its protocol, and what it has queued since `MULTI`.
#[derive(Debug)]
pub struct Shapes {
    table: Table,
    resp3: bool,
    queued: Option<Vec<Vec<Vec<u8>>>>,
}

impl Shapes {
    /// For a connection that was just opened.
    pub fn new(resp3: bool) -> Shapes {
        Shapes { table: server::table(), resp3, queued: None }
    }

    /// Checks whether `reply` is a valid reply to `request`, the next one on this connection. The error says
    /// what is wrong.
    pub fn check(&mut self, request: &[Vec<u8>], reply: &Value) -> Result<(), String> {
        let name = request[0].to_ascii_lowercase();
        if matches!(reply, Value::Error(_)) {
            if name == b"exec" {
                self.queued = None;
            }
            return Ok(());
        }
        match (&name[..], &mut self.queued) {
            (b"hello", _) => self.resp3 = request.get(1).map_or(self.resp3, |version| version == b"3"),
            (b"multi", _) => self.queued = Some(Vec::new()),
            (b"discard", _) => self.queued = None,
            (b"reset", _) => self.resp3 = false,
            (b"exec", queued) => {
                let queued = queued.take().unwrap_or_default();
                let Value::Array(replies) = reply else { return Ok(()) };
                for (request, reply) in queued.iter().zip(replies) {
                    self.check_one(request, reply)?;
                }
            }
            (_, Some(queued)) if *reply == Value::Simple(b"QUEUED".to_vec()) => queued.push(request.to_vec()),
            _ => self.check_one(request, reply)?,
        }
        Ok(())
    }

    fn check_one(&self, request: &[Vec<u8>], reply: &Value) -> Result<(), String> {
        let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        match self.table.resolve(&args) {
            // One for each channel.
            Ok(command)
                if command.entry.reply == Shape::Push
                    && matches!(reply, Value::Array(items) if items.iter().all(|item| Shape::Push.fits(item, self.resp3))) =>
            {
                Ok(())
            }
            Ok(command) if !command.entry.reply.fits(reply, self.resp3) => {
                Err(format!("{} answers {reply:?}, not {:?}", command.full_name, command.entry.reply))
            }
            _ => Ok(()),
        }
    }
}
