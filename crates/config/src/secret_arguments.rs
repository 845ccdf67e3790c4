//! Which parts of a command line must be hidden: the system shows it to everybody on the machine.

use std::ops::Range;

use crate::table::Table;

/// Finds secrets in the arguments after the program's name; returns for each the number of the argument and the range
/// of bytes. Secret are the values of secret settings, and all words of the directives `named` but the first, which is
/// a name.
pub fn secret_arguments<E: Copy>(
    table: &Table<E>,
    named: &[&str],
    args: &[String],
) -> Vec<(usize, Range<usize>)> {
    let (mut secrets, mut shown_words) = (Vec::new(), usize::MAX);
    for (index, arg) in args.iter().enumerate() {
        let Some(flag) = arg.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
            if shown_words == 0 {
                secrets.push((index, 0..arg.len()));
            }
            shown_words = shown_words.saturating_sub(usize::from(shown_words != usize::MAX));
            continue;
        };
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        let is_secret = table.find(name).is_some_and(|id| table.setting(id).is_secret);
        shown_words = match () {
            () if named.iter().any(|known| known.eq_ignore_ascii_case(name)) => 1,
            () if is_secret => 0,
            () => usize::MAX,
        };
        if let Some(value) = value.filter(|_| shown_words == 0) {
            secrets.push((index, arg.len() - value.len()..arg.len()));
        }
        if value.is_some() && shown_words == 1 {
            shown_words = 0;
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
            ("--port 1", ""),
        ] {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let found = secret_arguments(&TABLE, &["user"], &args);
            let shown: Vec<&str> = found.iter().map(|(index, bytes)| &args[*index][bytes.clone()]).collect();
            assert_eq!(shown.join(" "), expected, "{line}");
        }
    }
}
