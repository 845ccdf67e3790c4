//! The table of queues, in the order in which the server lists them, with totals for each state at the end.
//!
//! ```text
//! queue          system   state    depth  oldest  in/s  out/s  clients  paused   memory
//! queue:default  sidekiq  waiting  1,200   8.4 s  51.3   40.0       25       -  400 KiB
//! retry          sidekiq  retry        3       -     0      0        0       -    612 B
//!
//! 1 queue                 waiting  1,200   8.4 s  51.3   40.0       25       0  400 KiB
//! 1 queue                 retry        3       -     0      0        0       0    612 B
//! ```
//!
//! All of it is ASCII, one column per letter. Names are cut so that lines fit the screen; if the screen is too narrow
//! for the rest, lines are cut.

use crate::remote::figures::{age, bytes, count, cut, rate};
use crate::remote::queue::Queue;
use crate::remote::screen::Screen;

/// The space between two columns.
const GAP: &str = "  ";
/// How many characters of names remain on a narrow screen.
const NAME_LETTERS_MIN: usize = 12;
/// The columns of text, which are aligned to the left.
const WORDS: usize = 3;
const TITLES: [&str; 10] =
    ["queue", "system", "state", "depth", "oldest", "in/s", "out/s", "clients", "paused", "memory"];

/// A line of the table.
struct Line {
    cells: [String; TITLES.len()],
    style: Style,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    /// Headings and sums.
    Bold,
    /// A paused queue.
    Paused,
}

/// The table of a database's queues.
pub(crate) fn text(mut queues: Vec<Queue>, db: u32, screen: &Screen) -> String {
    if queues.is_empty() {
        return format!("database {db} has no queues\n");
    }
    let sums = sums(&queues);
    // Titles, an empty line, how many are left out, and where the cursor stays.
    let room = screen.height.map_or(usize::MAX, |height| height.saturating_sub(sums.len() + 4));
    let left_out = queues.len().saturating_sub(room);
    queues.truncate(room);
    let titles = Line { cells: TITLES.map(str::to_owned), style: Style::Bold };
    let mut lines: Vec<Line> = [titles].into_iter().chain(queues.iter().map(line)).collect();
    let end = lines.len();
    lines.extend(sums);
    let widths = fit(&mut lines, screen.width);
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        if index == end {
            if left_out > 0 {
                text.push_str(&format!("and {} more\n", count(left_out as u64)));
            }
            text.push('\n');
        }
        text.push_str(&laid_out(line, &widths, screen));
        text.push('\n');
    }
    text
}

/// Computes the widths of the columns. Shortens names if necessary.
fn fit(lines: &mut [Line], width: Option<usize>) -> [usize; TITLES.len()] {
    let mut widths = [0; TITLES.len()];
    for line in &*lines {
        for (width, cell) in widths.iter_mut().zip(&line.cells) {
            *width = cell.len().max(*width);
        }
    }
    if let Some(width) = width {
        let others: usize = widths[1..].iter().map(|width| width + GAP.len()).sum();
        widths[0] = widths[0].min(width.saturating_sub(others).max(NAME_LETTERS_MIN));
    }
    for line in lines {
        line.cells[0] = cut(std::mem::take(&mut line.cells[0]), widths[0]);
    }
    widths
}

fn laid_out(line: &Line, widths: &[usize; TITLES.len()], screen: &Screen) -> String {
    let cells = line.cells.iter().zip(widths).enumerate().map(|(index, (cell, width))| {
        if index < WORDS { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    let text = cells.collect::<Vec<_>>().join(GAP);
    let text = screen.width.map_or_else(|| text.clone(), |width| cut(text.clone(), width));
    match line.style {
        Style::Bold if screen.has_colour => format!("\x1b[1m{text}\x1b[0m"),
        Style::Paused if screen.has_colour => format!("\x1b[33m{text}\x1b[0m"),
        _ => text,
    }
}

fn line(queue: &Queue) -> Line {
    Line {
        cells: [
            queue.name.clone(),
            queue.system.clone(),
            queue.state.clone(),
            count(queue.depth),
            age(queue.oldest_ms),
            rate(queue.in_per_s),
            rate(queue.out_per_s),
            count(queue.waiters),
            if queue.is_paused { "paused" } else { "-" }.to_owned(),
            bytes(queue.memory_bytes),
        ],
        style: if queue.is_paused { Style::Paused } else { Style::Plain },
    }
}

/// The sums of the queues in each state, in the order in which the states first occur.
fn sums(queues: &[Queue]) -> Vec<Line> {
    let mut states: Vec<&str> = Vec::new();
    for queue in queues {
        if !states.contains(&&*queue.state) {
            states.push(&queue.state);
        }
    }
    states.into_iter().map(|state| sum(queues, state)).collect()
}

fn sum(queues: &[Queue], state: &str) -> Line {
    let of_state = || queues.iter().filter(|queue| queue.state == state);
    // A server may say what it likes.
    let total = |figure: fn(&Queue) -> u64| of_state().map(figure).fold(0, u64::saturating_add);
    let queue_count = of_state().count() as u64;
    Line {
        cells: [
            format!("{} {}", count(queue_count), if queue_count == 1 { "queue" } else { "queues" }),
            String::new(),
            state.to_owned(),
            count(total(|queue| queue.depth)),
            age(of_state().filter_map(|queue| queue.oldest_ms).max()),
            rate(of_state().map(|queue| queue.in_per_s).sum()),
            rate(of_state().map(|queue| queue.out_per_s).sum()),
            count(total(|queue| queue.waiters)),
            count(total(|queue| u64::from(queue.is_paused))),
            bytes(total(|queue| queue.memory_bytes)),
        ],
        style: Style::Bold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str, state: &str, depth: u64, oldest_ms: Option<u64>) -> Queue {
        Queue {
            name: name.to_owned(),
            system: "sidekiq".to_owned(),
            state: state.to_owned(),
            depth,
            oldest_ms,
            in_per_s: 0.2,
            out_per_s: 40.0,
            waiters: 25,
            is_paused: name == "b",
            memory_bytes: 410_112,
        }
    }

    fn queues() -> Vec<Queue> {
        vec![
            queue("b", "waiting", 1_200, Some(8_400)),
            queue("a", "waiting", 2, Some(100)),
            queue("retry", "retry", 3, None),
            queue("dead", "dead", 7, Some(172_800_000)),
        ]
    }

    #[track_caller]
    fn check(queues: Vec<Queue>, screen: Screen, expected: &[&str]) {
        let text = text(queues, 0, &screen);
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "\n{text}");
    }

    #[test]
    fn the_queues_keep_their_order_and_sums_come_last() {
        check(
            queues(),
            Screen::default(),
            &[
                "queue     system   state    depth  oldest  in/s  out/s  clients  paused   memory",
                "b         sidekiq  waiting  1,200   8.4 s  0.20   40.0       25  paused  400 KiB",
                "a         sidekiq  waiting      2  100 ms  0.20   40.0       25       -  400 KiB",
                "retry     sidekiq  retry        3       -  0.20   40.0       25       -  400 KiB",
                "dead      sidekiq  dead         7     2 d  0.20   40.0       25       -  400 KiB",
                "",
                "2 queues           waiting  1,202   8.4 s  0.40   80.0       50       1  801 KiB",
                "1 queue            retry        3       -  0.20   40.0       25       0  400 KiB",
                "1 queue            dead         7     2 d  0.20   40.0       25       0  400 KiB",
            ],
        );
        check(Vec::new(), Screen::default(), &["database 0 has no queues"]);
    }

    #[test]
    fn lines_fit_the_screen() {
        let long = || vec![queue(&"n".repeat(100), "waiting", 1, Some(1))];
        let screen = |width| Screen { width: Some(width), ..Screen::default() };
        check(
            long(),
            screen(90),
            &[
                "queue               system   state    depth  oldest  in/s  out/s  clients  paused   memory",
                "nnnnnnnnnnnnnnn...  sidekiq  waiting      1    1 ms  0.20   40.0       25       -  400 KiB",
                "",
                "1 queue                      waiting      1    1 ms  0.20   40.0       25       0  400 KiB",
            ],
        );
        for width in [1, 2, 20, 60] {
            let text = text(long(), 0, &screen(width));
            assert!(text.lines().all(|line| line.len() <= width), "{width}\n{text}");
        }
    }

    #[test]
    fn what_is_repeated_fits_the_screen() {
        let screen = Screen { height: Some(9), is_repeated: true, ..Screen::default() };
        let text = text(queues(), 0, &screen);
        assert_eq!(text.lines().count(), 8, "{text}");
        assert!(text.contains("and 2 more\n\n2 queues"), "{text}");
    }

    #[test]
    fn colours_are_for_screens_that_have_them() {
        let screen = Screen { has_colour: true, ..Screen::default() };
        let text = text(queues(), 0, &screen);
        assert!(text.starts_with("\x1b[1mqueue"), "{text:?}");
        assert_eq!(text.matches("\x1b[33mb ").count(), 1, "{text:?}");
        assert_eq!(text.matches("\x1b[0m\n").count(), 5, "{text:?}");
    }
}
