//! Hides the secret arguments of a command.

use crate::args::ArgSlices;
use crate::parse::keyword_is;

/// The text that replaces a secret argument.
const REDACTED: &[u8] = b"(redacted)";

/// The secret arguments of a command: `MONITOR` and the slow log do not show them.
#[derive(Clone, Copy, Debug)]
pub enum Secrets {
    /// None.
    None,
    /// All arguments, beginning at this one.
    From(usize),
    /// The values of some options.
    Options {
        /// The index at which options begin.
        from: usize,
        /// The options that have values.
        options: &'static [SecretOption],
    },
    /// Pairs of a name and a value begin at `from`; the values of some names are secret.
    ValuesOf {
        /// Whether the value of this name is secret.
        is_secret: fn(&[u8]) -> bool,
        /// The index of the first name.
        from: usize,
    },
}

/// An option with values.
#[derive(Clone, Copy, Debug)]
pub struct SecretOption {
    /// In lower case.
    pub name: &'static str,
    /// The number of its values.
    pub count: usize,
    /// Whether they are secret.
    pub is_secret: bool,
}

impl SecretOption {
    /// An option with this many secret values.
    pub const fn secret(name: &'static str, count: usize) -> Self {
        SecretOption { name, count, is_secret: true }
    }

    /// An option with this many values that are not secret.
    pub const fn open(name: &'static str, count: usize) -> Self {
        SecretOption { name, count, is_secret: false }
    }
}

impl Secrets {
    /// The arguments, with each secret replaced.
    pub(crate) fn hidden<'a>(self, args: &[&'a [u8]]) -> ArgSlices<'a> {
        let mut shown: ArgSlices<'a> = args.into();
        let mut hide = |from: usize, count: usize| {
            shown.iter_mut().skip(from).take(count).for_each(|arg| *arg = REDACTED)
        };
        match self {
            Secrets::None => {}
            Secrets::From(from) => hide(from, args.len()),
            Secrets::Options { from, options } => {
                let mut at = from;
                while at < args.len() {
                    let option = options.iter().find(|option| keyword_is(args[at], option.name));
                    let (count, is_secret) =
                        option.map_or((0, false), |option| (option.count, option.is_secret));
                    if is_secret {
                        hide(at + 1, count);
                    }
                    at += 1 + count;
                }
            }
            Secrets::ValuesOf { is_secret, from } => {
                for at in (from..args.len()).step_by(2) {
                    if is_secret(args[at]) {
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
        const OPTIONS: &[SecretOption] = &[SecretOption::secret("auth", 2), SecretOption::open("setname", 1)];
        let auth = Secrets::Options { from: 2, options: OPTIONS };
        let pairs = Secrets::ValuesOf { is_secret: |name| keyword_is(name, "requirepass"), from: 2 };
        check(Secrets::None, "get auth", "get auth");
        check(Secrets::From(1), "whoami u p", "whoami (redacted) (redacted)");
        check(auth, "hello 3 setname x AUTH u p", "hello 3 setname x AUTH (redacted) (redacted)");
        check(auth, "hello 3 auth u", "hello 3 auth (redacted)");
        check(auth, "hello 3", "hello 3");
        check(auth, "hello 3 setname auth AUTH u p", "hello 3 setname auth AUTH (redacted) (redacted)");
        check(pairs, "config SET port 1 requirePass p", "config SET port 1 requirePass (redacted)");
        check(pairs, "config set requirepass", "config set requirepass");
        check(pairs, "config set port requirepass x y", "config set port requirepass x y");
    }
}
