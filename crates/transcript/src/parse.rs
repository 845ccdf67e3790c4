//! Parses the text of a transcript into blocks.

/// Requests of one connection on a store that is empty at first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// The line of its first request, counted from 1.
    pub line: usize,
    /// It speaks RESP3.
    pub resp3: bool,
    /// It needs a server with sessions, not just the data commands.
    pub needs_server: bool,
    /// Its requests in order.
    pub steps: Vec<Step>,
}

/// A request and its reply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// The line of the request, counted from 1.
    pub line: usize,
    /// The request as it was written.
    pub text: String,
    /// Its arguments.
    pub request: Vec<Vec<u8>>,
    /// The lines of the reply as they were written, `~ ` included.
    pub expected: Vec<String>,
    /// Why Redis 7.0.15 answers differently, if it does.
    pub newer: Option<String>,
}

/// A fault in a transcript.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// The description of the fault.
    pub problem: String,
}

/// The blocks of a transcript.
pub fn parse(text: &str) -> Result<Vec<Block>, ParseError> {
    let mut parser = Parser::default();
    for (index, line) in text.lines().enumerate() {
        parser.line(index + 1, line).map_err(|problem| ParseError { line: index + 1, problem })?;
    }
    let end = text.lines().count();
    parser.end_block().map_err(|problem| ParseError { line: end, problem })?;
    Ok(parser.blocks)
}

#[derive(Default)]
struct Parser {
    blocks: Vec<Block>,
    block: Block,
    newer: Option<String>,
}

impl Parser {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        if line.starts_with('#') {
            Ok(())
        } else if line.trim_end().is_empty() {
            self.end_block()
        } else if let Some(directive) = line.strip_prefix("! ") {
            self.directive(directive)
        } else if let Some(request) = line.strip_prefix("> ") {
            self.request(number, request)
        } else {
            let step = self.block.steps.last_mut().ok_or("a reply without a request")?;
            step.expected.push(line.to_owned());
            Ok(())
        }
    }

    fn directive(&mut self, directive: &str) -> Result<(), String> {
        let directive = directive.trim();
        if let Some(reason) = directive.strip_prefix("7.2:") {
            self.newer = Some(reason.trim().to_owned());
            return Ok(());
        }
        if !self.block.steps.is_empty() {
            return Err(format!("`! {directive}` after the first request of a block"));
        }
        match directive {
            "resp3" => self.block.resp3 = true,
            "server" => self.block.needs_server = true,
            _ => return Err(format!("an unknown directive: {directive}")),
        }
        Ok(())
    }

    fn request(&mut self, line: usize, text: &str) -> Result<(), String> {
        self.reply_is_there()?;
        let request = resp::split_args(text.as_bytes()).ok_or("quotes that do not match")?;
        if request.is_empty() {
            return Err("an empty request".to_owned());
        }
        if self.block.steps.is_empty() {
            self.block.line = line;
        }
        let newer = self.newer.take();
        self.block.steps.push(Step { line, text: text.to_owned(), request, expected: Vec::new(), newer });
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), String> {
        self.reply_is_there()?;
        if !self.block.steps.is_empty() {
            self.blocks.push(std::mem::take(&mut self.block));
        } else if self.newer.is_some() || self.block != Block::default() {
            return Err("a directive without a request".to_owned());
        }
        Ok(())
    }

    fn reply_is_there(&self) -> Result<(), String> {
        match self.block.steps.last() {
            Some(step) if step.expected.is_empty() => Err(format!("no reply to `{}`", step.text)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_steps_and_directives_are_read() {
        let text = "# head\n\n! resp3\n> SET a \"1 2\"\nOK\n! 7.2: text\n# note\n> GET a\n\"1 2\"\n\n\n! server\n> MULTI\nOK\n";
        let blocks = parse(text).expect("well-formed");
        assert_eq!(blocks.len(), 2);
        assert!(blocks[0].resp3 && !blocks[0].needs_server && blocks[1].needs_server);
        assert_eq!((blocks[0].line, blocks[1].line), (4, 13));
        assert_eq!(blocks[0].steps[0].request, [&b"SET"[..], b"a", b"1 2"]);
        assert_eq!(blocks[0].steps[1].newer.as_deref(), Some("text"));
        assert_eq!(blocks[0].steps[1].expected, ["\"1 2\""]);
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, line) in [
            ("OK\n", 1),
            ("> GET a\n> GET b\n", 2),
            ("> GET a\n", 1),
            ("> GET \"a\nOK\n", 1),
            ("> GET a\nOK\n! resp3\n", 3),
            ("! resp4\n", 1),
            ("! resp3\n\n", 2),
        ] {
            assert_eq!(parse(text).expect_err(text).line, line, "{text:?}");
        }
    }
}
