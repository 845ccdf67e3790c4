//! Which arguments of a command are for its client's eyes only.

use crate::args::ArgSlices;
use crate::parse::keyword_is;

/// What stands in the place of a secret.
const REDACTED: &[u8] = b"(redacted)";

/// Which arguments of a command are secrets: `MONITOR` and the slow log do not show them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Secrets {
    /// None.
    None,
    /// All from this one on.
    From(usize),
    /// So many after a word, which is looked for from an argument on.
    After {
        /// In lower case.
        word: &'static str,
        /// Where it may first be.
        from: usize,
        /// Arguments after it.
        count: usize,
    },
    /// In pairs of a name and a value, which begin at `from`, the values of these names.
    ValuesOf {
        /// In lower case.
        names: &'static [&'static str],
        /// The first name.
        from: usize,
    },
}

impl Secrets {
    /// The arguments with those that are secret replaced.
    pub(crate) fn hidden<'a>(self, args: &[&'a [u8]]) -> ArgSlices<'a> {
        let mut shown: ArgSlices<'a> = args.into();
        let mut hide = |from: usize, count: usize| {
            shown.iter_mut().skip(from).take(count).for_each(|arg| *arg = REDACTED)
        };
        match self {
            Secrets::None => {}
            Secrets::From(from) => hide(from, args.len()),
            Secrets::After { word, from, count } => {
                if let Some(at) = (from..args.len()).find(|&at| keyword_is(args[at], word)) {
                    hide(at + 1, count);
                }
            }
            Secrets::ValuesOf { names, from } => {
                for at in (from..args.len()).step_by(2) {
                    if names.iter().any(|name| keyword_is(args[at], name)) {
                        hide(at + 1, 1);
                    }
                }
            }
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(secrets: Secrets, args: &str, expected: &str) {
        let args: Vec<&[u8]> = args.split(' ').map(str::as_bytes).collect();
        let hidden = secrets.hidden(&args);
        assert_eq!(
            hidden.join(&b' '),
            expected.as_bytes(),
            "{}",
            String::from_utf8_lossy(&hidden.join(&b' '))
        );
    }

    #[test]
    fn secrets_are_replaced() {
        let auth = Secrets::After { word: "auth", from: 2, count: 2 };
        let pairs = Secrets::ValuesOf { names: &["requirepass"], from: 2 };
        check(Secrets::None, "get auth", "get auth");
        check(Secrets::From(1), "whoami u p", "whoami (redacted) (redacted)");
        check(auth, "hello 3 setname x AUTH u p", "hello 3 setname x AUTH (redacted) (redacted)");
        check(auth, "hello 3 auth u", "hello 3 auth (redacted)");
        check(auth, "hello 3", "hello 3");
        check(pairs, "config SET port 1 requirePass p", "config SET port 1 requirePass (redacted)");
        check(pairs, "config set requirepass", "config set requirepass");
        check(pairs, "config set port requirepass x y", "config set port requirepass x y");
    }
}
