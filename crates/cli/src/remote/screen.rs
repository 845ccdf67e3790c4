//! Properties of standard output: width, height, and whether it shows colours.

use std::io::{self, IsTerminal};

/// Properties of the place where a table is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Screen {
    /// The most characters in a line; `None`: no limit.
    pub(crate) width: Option<usize>,
    /// The most lines, if each table replaces the one before.
    pub(crate) height: Option<usize>,
    /// Colours are supported.
    pub(crate) has_colour: bool,
    /// More tables follow.
    pub(crate) is_repeated: bool,
}

impl Screen {
    /// The properties of standard output.
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

    /// The characters that show `text`. On a terminal of known height it replaces the text before; elsewhere it follows
    /// it.
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
