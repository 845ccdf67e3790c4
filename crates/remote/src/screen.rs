//! Properties of standard output: width, height, and whether it shows colours.

use std::io::{self, IsTerminal};

/// Where a table is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Screen {
    /// Letters in a line; `None`: as many as there are.
    pub(crate) width: Option<usize>,
    /// Lines that fit, if what is shown is to take the place of what was shown before.
    pub(crate) height: Option<usize>,
    /// It shows colours.
    pub(crate) has_colour: bool,
    /// What is shown is followed by more.
    pub(crate) is_repeated: bool,
}

impl Screen {
    /// That of standard output.
    pub(crate) fn of_standard_output(is_repeated: bool) -> Screen {
        let output = io::stdout();
        if !output.is_terminal() {
            return Screen { is_repeated, ..Screen::default() };
        }
        let size = rustix::termios::tcgetwinsize(&output).ok();
        let known = |number: u16| Some(usize::from(number)).filter(|number| *number > 0);
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Screen {
            width: size.and_then(|size| known(size.ws_col)),
            height: size.and_then(|size| known(size.ws_row)).filter(|_| is_repeated),
            has_colour: !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
            is_repeated,
        }
    }

    /// What to write so that `text` is shown: in the place of what was there on a terminal that is as high as is known, behind it
    /// elsewhere.
    pub(crate) fn page(&self, text: &str) -> String {
        match self.height {
            // To the top; each line clears what stood behind it, the last one what stood below.
            Some(_) => format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n")),
            None if self.is_repeated => format!("{text}\n"),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_take_the_place_of_others_on_terminals_only() {
        let mut screen = Screen::default();
        assert_eq!(screen.page("a\nb\n"), "a\nb\n");
        screen.is_repeated = true;
        assert_eq!(screen.page("a\nb\n"), "a\nb\n\n");
        screen.height = Some(24);
        assert_eq!(screen.page("a\nb\n"), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
    }
}
