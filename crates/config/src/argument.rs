//! Classifies each argument on the command line as redis-server does.
//!
//! ```text
//!   FILE            first, if it does not begin with a dash; "-", first or last: standard input
//!   name word …     directly after the file, without dashes
//!   --name word …   up to the next flag; a text may begin with dashes itself: --requirepass --secret
//!   --name=word
//!   "--name word …" in one argument, quoted like a line of the file
//! ```
//!
//! Not here: what the directives mean.

use crate::table::Table;

/// An argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Argument<'a> {
    /// The configuration file; empty: none.
    File(&'a str),
    /// The configuration is on standard input.
    StandardInput,
    /// The name of a directive, with dashes or without.
    Name { name: &'a str, has_dashes: bool },
    /// A name with its only word.
    NameAndWord(&'a str, &'a str),
    /// A name and the rest of the line.
    Line(&'a str, &'a str),
    /// A word of the directive before it.
    Word(&'a str),
    /// A single dash and a letter, where no directive can take it.
    Dash(&'a str),
}

/// The arguments after the program's name.
pub(crate) fn arguments<'a>(table: &Table, args: &'a [String]) -> Vec<Argument<'a>> {
    // Whether a directive has begun, and whether its first word may begin with dashes.
    let (mut has_directive, mut takes_any) = (false, false);
    let mut found = Vec::with_capacity(args.len());
    for (index, arg) in args.iter().enumerate() {
        let flag = arg.strip_prefix("--").filter(|flag| !flag.is_empty() && !takes_any);
        let is_end = index == 0 || index + 1 == args.len();
        let argument = match flag {
            _ if arg == "-" && is_end => Argument::StandardInput,
            Some(flag) => flag_of(flag),
            None if has_directive => Argument::Word(arg),
            None if arg.starts_with('-') => Argument::Dash(arg),
            None if index == 0 => Argument::File(arg),
            None => Argument::Name { name: arg, has_dashes: false },
        };
        has_directive |= !matches!(argument, Argument::File(_) | Argument::StandardInput);
        let takes_text = |name| table.find(name).is_some_and(|id| table.setting(id).kind.is_one_text());
        takes_any = matches!(argument, Argument::Name { name, .. } if takes_text(name));
        found.push(argument);
    }
    found
}

/// The parts of a flag without its dashes.
fn flag_of(flag: &str) -> Argument<'_> {
    let end = flag.find(|letter: char| letter == '=' || letter.is_ascii_whitespace());
    match end.map(|end| (&flag[..end], &flag[end + 1..], flag.as_bytes()[end])) {
        None => Argument::Name { name: flag, has_dashes: true },
        Some((name, word, b'=')) => Argument::NameAndWord(name, word),
        Some((name, rest, _)) if rest.trim_ascii().is_empty() => Argument::Name { name, has_dashes: true },
        Some((name, rest, _)) => Argument::Line(name, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::TABLE;

    #[test]
    fn arguments_are_what_redis_takes_them_for() {
        use Argument::*;
        let flag = |name| Name { name, has_dashes: true };
        let bare = |name| Name { name, has_dashes: false };
        for (args, expected) in [
            (&["x.conf", "--port", "1"][..], &[File("x.conf"), flag("port"), Word("1")][..]),
            (&["x.conf", "port", "1"], &[File("x.conf"), bare("port"), Word("1")]),
            (&["-", "--port", "1"], &[StandardInput, flag("port"), Word("1")]),
            (&["--port", "1", "-"], &[flag("port"), Word("1"), StandardInput]),
            (&["--port=1", "--bind", "-::1"], &[NameAndWord("port", "1"), flag("bind"), Word("-::1")]),
            (&["--port 1", "2"], &[Line("port", "1"), Word("2")]),
            (&["--port ", "1"], &[flag("port"), Word("1")]),
            (&["--save", "--port", "1"], &[flag("save"), flag("port"), Word("1")]),
            (&["--requirepass", "--a=b", "--port"], &[flag("requirepass"), Word("--a=b"), flag("port")]),
            (&["-p", "1"], &[Dash("-p"), Word("1")]),
            (&["", "--port"], &[File(""), flag("port")]),
        ] {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            assert_eq!(arguments(&TABLE, &args), expected, "{args:?}");
        }
    }
}
