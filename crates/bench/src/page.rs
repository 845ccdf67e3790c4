//! A report as a self-contained page with plots: no script, no font, no network. It can be printed. The plots are
//! also available as one picture.

use std::fmt::Write;

use crate::number::{bytes, rounded};
use crate::plot::{self, Chart, Line, Scale, escaped, plain};
use crate::report::Report;
use crate::table;

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;color:#1a1a1a;max-width:760px;margin:2em auto;padding:0 1em}
h1{font-size:1.4em;margin:0 0 .2em}
p{margin:.3em 0}
table{border-collapse:collapse;margin:1em 0;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
td,th{padding:.15em .7em;text-align:right;font-weight:normal;white-space:nowrap}
td:first-child,th:first-child{text-align:left;padding-left:0}
th{border-bottom:1px solid #888}
code{font-size:.85em;overflow-wrap:anywhere}
.bad{border-left:4px solid #c00;padding:.3em .8em;background:#fee;font-weight:bold}
figure{margin:1.2em 0;break-inside:avoid;overflow-x:auto}
svg{width:100%;min-width:560px;height:auto;font:11px system-ui,sans-serif}
@page{margin:15mm}
@media print{body{margin:0;max-width:none;font-size:9.5pt}table{display:table}td,th{padding:.1em .5em}
.bad{background:none}figure{margin:.6em 0}svg{width:85%;min-width:0}}
";

/// The report as an HTML page.
pub(crate) fn html(report: &Report) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n<style>\n{STYLE}{1}</style>\n\
         <h1>{0}</h1>\n<p>{2}: {3}\n<p>{4}\n<p><code>{5}</code>\n",
        escaped(&report.title),
        plot::STYLE,
        escaped(&report.target),
        escaped(&report.server),
        escaped(&report.machine),
        escaped(&report.command_line)
    );
    // Writing to a string does not fail.
    for complaint in &report.complaints {
        let _ = writeln!(out, "<p class=\"bad\">{}", escaped(complaint));
    }
    for note in &report.notes {
        let _ = writeln!(out, "<p>{}", escaped(note));
    }
    out += &rows(&table::headline(report), false);
    out += &rows(&table::kinds(report), true);
    for line in [table::account(report), table::transactions(report)].into_iter().flatten() {
        let _ = writeln!(out, "<p>{}", escaped(&line));
    }
    for (text, count) in &report.errors_by_text {
        let _ = writeln!(out, "<p>{count} × <code>{}</code>", escaped(text));
    }
    for svg in charts(report).iter().filter_map(Chart::svg) {
        let _ = writeln!(out, "<figure>{svg}</figure>");
    }
    let _ = writeln!(out, "<p>{}\n</html>", escaped(&report.tool));
    out
}

/// The report's plots as one picture.
pub(crate) fn svg(report: &Report) -> String {
    plot::picture(&report.title, &format!("{}; {}", report.server, report.machine), &charts(report))
}

fn rows(cells: &[Vec<String>], has_head: bool) -> String {
    let mut out = "<table>\n".to_owned();
    for (index, row) in cells.iter().enumerate() {
        let tag = if has_head && index == 0 { "th" } else { "td" };
        let cells: String = row.iter().map(|cell| format!("<{tag}>{}", escaped(cell))).collect();
        let _ = writeln!(out, "<tr>{cells}");
    }
    out + "</table>\n"
}

fn charts(report: &Report) -> Vec<Chart<'_>> {
    let over_time = |value: fn(&crate::run::Point) -> f64| {
        report.series.iter().map(|point| (point.seconds, value(point))).collect::<Vec<(f64, f64)>>()
    };
    let throughput = Chart {
        title: "Throughput",
        x: (Scale::Linear, "seconds"),
        y: Scale::Linear,
        y_text: rounded,
        lines: vec![Line { name: "per second", points: over_time(|point| point.per_second) }],
    };
    let latency = Chart {
        title: "Latency over time",
        x: (Scale::Linear, "seconds"),
        y: Scale::Log,
        y_text: time,
        lines: vec![
            Line { name: "median", points: over_time(|point| point.p50_us) },
            Line { name: "99 %", points: over_time(|point| point.p99_us) },
            Line { name: "longest", points: over_time(|point| point.max_us) },
        ],
    };
    let distribution = Chart {
        title: "Latency of so many per cent at most",
        x: (Scale::Quantile, "share of requests"),
        y: Scale::Log,
        y_text: time,
        lines: report
            .kinds
            .iter()
            .map(|kind| Line { name: kind.name, points: kind.distribution.clone() })
            .collect(),
    };
    vec![throughput, latency, distribution, memory(report)]
}

fn memory(report: &Report) -> Chart<'_> {
    let line = |name, value: fn(&crate::watch::Memory) -> Option<u64>| Line {
        name,
        points: report
            .memory
            .iter()
            .filter_map(|memory| Some((memory.seconds, value(memory)? as f64)))
            .collect(),
    };
    let mut lines = vec![
        line("used, it says", |memory| memory.used_bytes),
        line("resident", |memory| memory.rss_bytes),
        line("its share", |memory| memory.pss_bytes),
    ];
    lines.retain(|line| !line.points.is_empty());
    Chart {
        title: "Memory of the server",
        x: (Scale::Linear, "seconds"),
        y: Scale::Bytes,
        y_text: |count| bytes(count as u64).replace(".00 ", " ").replace(".0 ", " "),
        lines,
    }
}

/// Microseconds, in a suitable unit.
fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", plain(us / 1e6)),
        us if us >= 1e3 => format!("{} ms", plain(us / 1e3)),
        us => format!("{} µs", plain(us)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Point;
    use crate::watch::Memory;

    #[test]
    fn a_page_needs_nothing_else_and_says_what_is_wrong() {
        let mut report = table::tests::sample();
        for second in 1..=3 {
            let seconds = f64::from(second);
            report.series.push(Point {
                seconds,
                per_second: 500.0,
                p50_us: 10.0,
                p99_us: 100.0,
                max_us: 200.0,
            });
            report.memory.push(Memory { seconds, used_bytes: Some(1 << 20), ..Memory::default() });
        }
        let page = html(&report);
        assert_eq!(page.matches("<svg").count(), 4, "throughput, latency, distribution, memory");
        assert!(page.contains("class=\"bad\">1 JOBS LOST"));
        assert!(page.contains("darter-bench jobs &lt;x&gt;"), "text is escaped");
        let outside: Vec<&str> = page.match_indices("http").map(|(at, _)| &page[at..at + 26]).collect();
        assert!(outside.iter().all(|link| *link == "http://www.w3.org/2000/svg"), "{outside:?}");
        for unwanted in ["<script", "src=", "NaN", "inf"] {
            assert!(!page.contains(unwanted), "{unwanted}");
        }
    }

    #[test]
    fn a_picture_has_all_plots_and_stands_alone() {
        let mut report = table::tests::sample();
        report.title = "a < b".to_owned();
        let point = |second| Point {
            seconds: f64::from(second),
            per_second: 500.0,
            p50_us: 10.0,
            p99_us: 100.0,
            max_us: 200.0,
        };
        report.series = (1..=3).map(point).collect();
        let picture = svg(&report);
        assert!(picture.contains(">a &lt; b<"), "{picture}");
        assert_eq!(picture.matches("<svg").count(), 1, "viewers of pictures know no SVG in SVG");
        assert_eq!(picture.matches("<g transform").count(), 3, "throughput, latency, distribution");
        assert!(picture.contains(plot::STYLE));
    }

    #[test]
    fn times_have_units() {
        assert_eq!([time(12.0), time(1500.0), time(2e6)], ["12 µs", "1.5 ms", "2 s"]);
    }
}
