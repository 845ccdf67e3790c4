//! Which parts of a command line must be hidden: the system shows it to everybody on the machine.

use std::ops::Range;

use crate::argument::{Argument, arguments};
use crate::table::Table;

/// Finds secrets in the arguments after the program's name; returns for each the number of the argument and the range
/// of bytes. Secret are the values of secret settings, and all words of the directives `named` but the first, which is
/// a name.
pub fn secret_arguments(table: &Table, named: &[&str], args: &[String]) -> Vec<(usize, Range<usize>)> {
    let (mut secrets, mut shown_words) = (Vec::new(), usize::MAX);
    // How many words of a directive are shown.
    let shown_of = |name: &str| match table.find(name) {
        _ if named.iter().any(|known| known.eq_ignore_ascii_case(name)) => 1,
        Some(id) if table.setting(id).is_secret => 0,
        _ => usize::MAX,
    };
    for (index, argument) in arguments(table, args).into_iter().enumerate() {
        let length = args[index].len();
        match argument {
            Argument::Name { name, .. } => shown_words = shown_of(name),
            Argument::NameAndWord(name, word) => {
                shown_words = shown_of(name);
                if shown_words == 0 {
                    secrets.push((index, length - word.len()..length));
                } else if shown_words == 1 {
                    shown_words = 0;
                }
            }
            Argument::Line(name, rest) => {
                shown_words = shown_of(name);
                if shown_words != usize::MAX {
                    // Hide the whole rest, with the word that could be shown.
                    shown_words = 0;
                    secrets.push((index, length - rest.len()..length));
                }
            }
            Argument::Word(_) if shown_words == 0 => secrets.push((index, 0..length)),
            Argument::Word(_) if shown_words != usize::MAX => shown_words -= 1,
            Argument::Word(_) | Argument::File(_) | Argument::StandardInput | Argument::Dash(_) => {}
        }
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::TABLE;

    #[test]
    fn values_of_secret_settings_are_secret_and_names_are_not() {
        for (line, expected) in [
            ("--port 1 --requirepass s1 --timeout 2", "s1"),
            ("--requirepass=s1 --port 1", "s1"),
            ("/etc/x.conf --RequirePass s1", "s1"),
            ("--user bob on >s1 ~* --port 1 --user=eve >s2", "on >s1 ~* >s2"),
            ("x.conf requirepass s1 --port 1", "s1"),
            ("--requirepass --s1 --port 1", "--s1"),
            ("--port 1", ""),
        ] {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = secret_arguments(&TABLE, &["user"], &args);
            let shown: Vec<&str> = found.iter().map(|(index, bytes)| &args[*index][bytes.clone()]).collect();
            assert_eq!(shown.join(" "), expected, "{line}");
        }
    }

    #[test]
    fn directives_in_one_argument_are_hidden_whole() {
        for (args, expected) in [
            (&["--requirepass s1", "--port", "1"][..], "s1"),
            (&["--user bob on >s1", ">s2", "--port 1"], "bob on >s1 >s2"),
        ] {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let found = secret_arguments(&TABLE, &["user"], &args);
            let shown: Vec<&str> = found.iter().map(|(index, bytes)| &args[*index][bytes.clone()]).collect();
            assert_eq!(shown.join(" "), expected, "{args:?}");
        }
    }
}
