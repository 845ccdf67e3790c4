//! A report as text for a terminal, in columns.

use std::fmt::Write;

use crate::number::{bytes, grouped, rounded};
use crate::report::Report;

/// The report as text. If `is_brief`, the distribution is left out.
pub(crate) fn text(report: &Report, is_brief: bool) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(out, "{}\n{}: {}\n", report.title, report.target, report.server);
    out += &columns(&headline(report));
    if !report.kinds.is_empty() {
        out += "\n";
        out += &columns(&kinds(report));
    }
    if !is_brief && !report.kinds.is_empty() {
        out += "\n";
        out += &columns(&distribution(report));
    }
    if let Some(account) = account(report) {
        let _ = writeln!(out, "\n{account}");
    }
    if let Some(transactions) = transactions(report) {
        let _ = writeln!(out, "{transactions}");
    }
    for (text, count) in &report.errors_by_text {
        let _ = writeln!(out, "{} × {text}", grouped(*count));
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    for complaint in &report.complaints {
        let _ = writeln!(out, "!! {complaint}");
    }
    out
}

/// The fate of the jobs, in one line.
pub(crate) fn account(report: &Report) -> Option<String> {
    let account = report.account?;
    Some(format!(
        "jobs: {} pushed, {} fetched, {} left in queues, {} lost, {} duplicates",
        grouped(account.pushed),
        grouped(account.fetched),
        grouped(account.left),
        grouped(account.lost),
        grouped(account.duplicates)
    ))
}

/// Darter's transactions by type, in one line.
pub(crate) fn transactions(report: &Report) -> Option<String> {
    let types = report.transactions.iter().map(|(name, count)| format!("{name} {}", grouped(*count)));
    let types: Vec<String> = types.collect();
    (!types.is_empty()).then(|| format!("transactions: {}", types.join(", ")))
}

pub(crate) fn headline(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![
        vec!["operations".to_owned(), grouped(report.operations)],
        vec!["seconds".to_owned(), format!("{:.3}", report.seconds)],
        vec!["per second".to_owned(), grouped(report.operations_per_second.round() as u64)],
    ];
    if let Some(cpu) = report.server_cpu_us() {
        rows.push(vec!["server CPU µs each".to_owned(), rounded(cpu)]);
    }
    rows.extend(report.figures.iter().map(|figure| vec![figure.name.to_owned(), rounded(figure.value)]));
    if let Some(used) = report.memory.iter().filter_map(|memory| memory.used_bytes).max() {
        rows.push(vec!["used memory, most".to_owned(), bytes(used)]);
    }
    rows
}

pub(crate) fn kinds(report: &Report) -> Vec<Vec<String>> {
    let head = ["µs", "count", "per second", "mean", "p50", "p90", "p99", "p99.9", "max"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for kind in &report.kinds {
        let times = [kind.mean_us, kind.p50_us, kind.p90_us, kind.p99_us, kind.p999_us, kind.max_us];
        let mut row =
            vec![kind.name.to_owned(), grouped(kind.count), grouped(kind.per_second.round() as u64)];
        row.extend(times.map(rounded));
        rows.push(row);
    }
    rows
}

fn distribution(report: &Report) -> Vec<Vec<String>> {
    let mut head = vec!["% within µs".to_owned()];
    head.extend(report.kinds.iter().map(|kind| kind.name.to_owned()));
    let mut rows = vec![head];
    for (index, (quantile, _)) in report.kinds[0].distribution.iter().enumerate() {
        let percent = format!("{:.4}", quantile * 100.0);
        let mut row = vec![percent.trim_end_matches('0').trim_end_matches('.').to_owned()];
        row.extend(report.kinds.iter().map(|kind| rounded(kind.distribution[index].1)));
        rows.push(row);
    }
    rows
}

/// Rows with aligned cells: the first column to the left, numbers to the right.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        out += cells.collect::<Vec<String>>().join("  ").trim_end();
        out += "\n";
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::line::Info;
    use crate::report::{AccountReport, KindReport};

    /// A small report of a drain that lost something.
    pub(crate) fn sample() -> Report {
        let kind = KindReport {
            name: "pop",
            count: 1000,
            per_second: 500.0,
            mean_us: 12.34,
            p50_us: 10.0,
            p90_us: 20.0,
            p99_us: 123.4,
            p999_us: 1234.5,
            max_us: 2000.0,
            distribution: vec![(0.5, 10.0), (0.9999, 1999.9)],
        };
        let target = "redis://h:1".parse().expect("a URL");
        let mut report = Report {
            command_line: "darter-bench jobs <x>".to_owned(),
            server: "Darter 1".to_owned(),
            notes: vec!["a note".to_owned()],
            seconds: 2.0,
            operations: 1000,
            operations_per_second: 500.0,
            errors: 2,
            errors_by_text: vec![("ERR no".to_owned(), 2)],
            server_cpu_seconds: Some(0.004),
            kinds: vec![kind],
            transactions: vec![("inline".to_owned(), 990), ("quick".to_owned(), 1010)],
            ..Report::bare("jobs", "Jobs: drain".to_owned(), &target, &Info::default())
        };
        report.set_account(AccountReport {
            pushed: 1001,
            fetched: 1000,
            lost: 1,
            ..AccountReport::default()
        });
        report
    }

    #[test]
    fn everything_stands_in_columns() {
        let expected = "\
Jobs: drain
redis://h:1/0: Darter 1

operations          1,000
seconds             2.000
per second            500
server CPU µs each   4.00

µs   count  per second  mean   p50   p90  p99  p99.9    max
pop  1,000         500  12.3  10.0  20.0  123  1,235  2,000

% within µs    pop
50            10.0
99.99        2,000

jobs: 1,001 pushed, 1,000 fetched, 0 left in queues, 1 lost, 0 duplicates
transactions: inline 990, quick 1,010
2 × ERR no
note: a note
!! 1 JOBS LOST: acknowledged, but neither fetched nor left in a queue
";
        assert_eq!(text(&sample(), false), expected);
        assert!(!text(&sample(), true).contains("% within"));
        assert!(!sample().is_good);
    }
}
