//! Plays a block, and compares the replies with the expected ones.

use std::fmt;
use std::io;

use resp::Value;

use crate::parse::{Block, Step};

/// Something that takes requests: a store in process, a connection, a simulated server.
pub trait Runner {
    /// Runs one request to its reply.
    fn call(&mut self, request: &[Vec<u8>]) -> io::Result<Value>;
}

/// A reply that is not the expected one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The line of the request.
    pub line: usize,
    /// The request as it was written.
    pub text: String,
    /// The lines that were expected.
    pub expected: Vec<String>,
    /// The lines that came.
    pub actual: Vec<String>,
}

impl Block {
    /// Plays the block to its end; the differences it met. Steps for which `compared` is false are run only.
    pub fn play(
        &self,
        runner: &mut dyn Runner,
        mut compared: impl FnMut(&Step) -> bool,
    ) -> io::Result<Vec<Difference>> {
        let mut differences = Vec::new();
        for step in &self.steps {
            let reply = runner.call(&step.request)?;
            if compared(step) {
                differences.extend(step.check(&reply).err());
            }
        }
        Ok(differences)
    }
}

impl Step {
    /// Whether `reply` is the expected one.
    pub fn check(&self, reply: &Value) -> Result<(), Difference> {
        let shown = reply.to_string();
        let actual: Vec<&str> = shown.lines().collect();
        if self.is_met_by(&actual) {
            return Ok(());
        }
        Err(Difference {
            line: self.line,
            text: self.text.clone(),
            expected: self.expected.clone(),
            actual: actual.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Marked lines are compared as a whole, without their numbers; the others one by one.
    fn is_met_by(&self, actual: &[&str]) -> bool {
        if self.expected.len() != actual.len() {
            return false;
        }
        let (mut wanted, mut found) = (Vec::new(), Vec::new());
        for (expected, &actual) in self.expected.iter().zip(actual) {
            match expected.strip_prefix("~ ") {
                Some(expected) => {
                    wanted.push(without_numbers(expected));
                    found.push(without_numbers(actual));
                }
                None if expected == actual => {}
                None => return false,
            }
        }
        wanted.sort_unstable();
        found.sort_unstable();
        wanted == found
    }
}

/// The line without indentation and the numbers of elements: `   2) 1) "a"` → `"a"`.
fn without_numbers(line: &str) -> &str {
    let mut rest = line.trim_start();
    loop {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        if after.len() == rest.len() {
            return rest;
        }
        let Some(after) = [") ", "~ ", "# "].iter().find_map(|separator| after.strip_prefix(separator))
        else {
            return rest;
        };
        rest = after.trim_start();
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: > {}", self.line, self.text)?;
        for index in 0..self.expected.len().max(self.actual.len()) {
            let (expected, actual) = (self.expected.get(index), self.actual.get(index));
            if expected == actual {
                write!(f, "\n      {}", expected.map_or("", String::as_str))?;
                continue;
            }
            if let Some(expected) = expected {
                write!(f, "\n    - {expected}")?;
            }
            if let Some(actual) = actual {
                write!(f, "\n    + {actual}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(expected: &[&str]) -> Step {
        Step { expected: expected.iter().map(|line| (*line).to_owned()).collect(), ..Step::default() }
    }

    fn bulks(items: &[&str]) -> Value {
        Value::Array(items.iter().map(|item| Value::Bulk(item.as_bytes().to_vec())).collect())
    }

    #[test]
    fn marked_lines_come_in_any_order() {
        let reply = Value::Array(vec![Value::Int(0), bulks(&["b", "1) a"])]);
        assert_eq!(step(&["1) (integer) 0", "2) 1) \"b\"", "   2) \"1) a\""]).check(&reply), Ok(()));
        assert_eq!(step(&["1) (integer) 0", "~ 2) 1) \"1) a\"", "~    2) \"b\""]).check(&reply), Ok(()));
        let error = step(&["1) (integer) 0", "~ 2) 1) \"a\"", "~    2) \"b\""]).check(&reply).unwrap_err();
        assert_eq!(error.actual, ["1) (integer) 0", "2) 1) \"b\"", "   2) \"1) a\""]);
        assert!(step(&["~ 1) \"a\"", "~ 2) \"a\""]).check(&bulks(&["a", "b"])).is_err());
        assert!(step(&["1) \"a\""]).check(&bulks(&["a", "b"])).is_err());
    }
}
