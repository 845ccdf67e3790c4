//! Line charts as SVG, for the page and for pictures: axes with round numbers, and a colour and a dash pattern for each
//! line, so that lines can also be told apart in print.
//!
//! ```text
//!   title                    ── name  ╌╌ name
//!   y │        ╱╲
//!     │  ╱────╱  ╲__
//!     └──────────────── x
//! ```

use std::fmt::Write;

/// The size of a drawing, and the margins around the plot area.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 40.0;
/// The margin around the charts of a picture, and the height of its heading.
const MARGIN: f64 = 12.0;
const HEADING: f64 = 56.0;
/// Okabe and Ito's colours, which colour-blind people can tell apart, and dash patterns.
const STYLES: [(&str, &str); 7] = [
    ("#0072b2", ""),
    ("#d55e00", "6 3"),
    ("#009e73", "2 3"),
    ("#cc79a7", "8 3 2 3"),
    ("#56b4e9", "4 2"),
    ("#000000", "1 2"),
    ("#e69f00", "10 3"),
];
/// Names of lines in a row. There is room for two rows.
const NAMES_A_ROW: usize = 4;
/// Most points that are drawn of a line. If there are more, only the highest of each stretch is drawn.
const POINTS_MAX: usize = 600;

/// The styles of the classes in a drawing.
pub(crate) const STYLE: &str = "\
svg .title{font-size:13px;font-weight:bold}
svg .grid{stroke:#ddd;stroke-width:1}
svg .line{fill:none;stroke-width:1.6}
svg .x{text-anchor:middle}
svg .y{text-anchor:end}
";

/// How values are placed along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// Linear, with ticks that are round in KiB, MiB or GiB.
    Bytes,
    Log,
    /// Shares of a whole, stretched towards 1: 0, 0.9, 0.99, …
    Quantile,
}

/// A chart.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    pub(crate) title: &'a str,
    pub(crate) x: (Scale, &'a str),
    pub(crate) y: Scale,
    /// Formats the numbers of the y axis.
    pub(crate) y_text: fn(f64) -> String,
    pub(crate) lines: Vec<Line<'a>>,
}

/// A line with its name.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A standalone picture, on white and with its own style: a heading, a line of text, and the charts below each other.
pub(crate) fn picture(heading: &str, below: &str, charts: &[Chart]) -> String {
    let drawings: Vec<String> = charts.iter().filter_map(Chart::drawing).collect();
    let (width, height) = (WIDTH + 2.0 * MARGIN, HEADING + HEIGHT * drawings.len() as f64);
    let mut out = format!(
        r#"<svg viewBox="-{MARGIN} 0 {width} {height}" width="{width}" xmlns="http://www.w3.org/2000/svg"><style>
svg{{font:11px system-ui,sans-serif}}
{STYLE}</style><rect x="-{MARGIN}" width="100%" height="100%" fill="white"/><text y="20" class="title">{}</text><text y="36">{}</text>"#,
        escaped(heading),
        escaped(below)
    );
    for (index, drawing) in drawings.iter().enumerate() {
        // Writing to a string does not fail.
        let _ =
            write!(out, r#"<g transform="translate(0 {})">{drawing}</g>"#, HEADING + HEIGHT * index as f64);
    }
    out + "</svg>\n"
}

impl Chart<'_> {
    /// The chart for a page; `None` if there is nothing to draw.
    pub(crate) fn svg(&self) -> Option<String> {
        Some(format!(
            r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg"><title>{}</title>{}</svg>"#,
            escaped(self.title),
            self.drawing()?
        ))
    }

    /// The inside of the chart's frame, from (0, 0) to (WIDTH, HEIGHT); `None` if there is nothing to draw.
    fn drawing(&self) -> Option<String> {
        let shown = |&(x, y): &(f64, f64)| {
            x.is_finite()
                && y.is_finite()
                && (self.y != Scale::Log || y > 0.0)
                && (self.x.0 != Scale::Quantile || x < 1.0)
        };
        let lines: Vec<Vec<(f64, f64)>> = self
            .lines
            .iter()
            .map(|line| thinned(line.points.iter().copied().filter(shown).collect()))
            .collect();
        let all: Vec<(f64, f64)> = lines.iter().flatten().copied().collect();
        if lines.iter().all(|line| line.len() < 2) {
            return None;
        }
        let x = Axis::new(self.x.0, all.iter().map(|point| point.0), LEFT, WIDTH - RIGHT);
        let y = Axis::new(self.y, all.iter().map(|point| point.1), HEIGHT - BOTTOM, TOP);
        let mut out = String::new();
        self.draw_frame(&x, &y, &mut out);
        for (index, (line, points)) in self.lines.iter().zip(&lines).enumerate() {
            draw_line(index, line.name, points, &x, &y, &mut out);
        }
        Some(out)
    }

    fn draw_frame(&self, x: &Axis, y: &Axis, out: &mut String) {
        // Writing to a string does not fail.
        let _ = write!(out, r#"<text x="0" y="16" class="title">{}</text>"#, escaped(self.title));
        for tick in &y.ticks {
            let at = y.place(*tick);
            let _ = write!(
                out,
                r#"<line x1="{LEFT}" x2="{:.1}" y1="{at:.1}" y2="{at:.1}" class="grid"/><text x="{:.1}" y="{:.1}" class="y">{}</text>"#,
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                escaped(&(self.y_text)(*tick))
            );
        }
        for tick in &x.ticks {
            let at = x.place(*tick);
            let text = match self.x.0 {
                Scale::Quantile => percent(*tick),
                Scale::Linear | Scale::Bytes | Scale::Log => plain(*tick),
            };
            let _ = write!(
                out,
                r#"<line x1="{at:.1}" x2="{at:.1}" y1="{:.1}" y2="{:.1}" class="grid"/><text x="{at:.1}" y="{:.1}" class="x">{text}</text>"#,
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 4.0,
                HEIGHT - BOTTOM + 18.0
            );
        }
        let _ = write!(
            out,
            r#"<text x="{:.1}" y="{:.1}" class="x">{}</text>"#,
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 6.0,
            escaped(self.x.1)
        );
    }
}

fn draw_line(index: usize, name: &str, points: &[(f64, f64)], x: &Axis, y: &Axis, out: &mut String) {
    let (colour, dash) = STYLES[index % STYLES.len()];
    let path: Vec<String> =
        points.iter().map(|point| format!("{:.1},{:.1}", x.place(point.0), y.place(point.1))).collect();
    let style = format!(r#"stroke="{colour}" stroke-dasharray="{dash}""#);
    let _ = write!(out, r#"<polyline points="{}" class="line" {style}/>"#, path.join(" "));
    // Names are beside each other, above the lines.
    let left = LEFT + 150.0 * (index % NAMES_A_ROW) as f64;
    let top = 29.0 + 14.0 * (index / NAMES_A_ROW) as f64;
    let _ = write!(
        out,
        r#"<line x1="{left}" x2="{:.1}" y1="{top}" y2="{top}" class="line" {style}/><text x="{:.1}" y="{:.1}" class="name">{}</text>"#,
        left + 22.0,
        left + 27.0,
        top + 4.0,
        escaped(name)
    );
}

/// Maps values to positions in the drawing.
#[derive(Debug)]
struct Axis {
    scale: Scale,
    /// The values at both ends, stretched by the scale.
    ends: (f64, f64),
    places: (f64, f64),
    ticks: Vec<f64>,
}

impl Axis {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (min, max) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), value| (min.min(value), max.max(value)));
        let ticks = match scale {
            Scale::Linear => linear_ticks(max, 1.0),
            Scale::Bytes => linear_ticks(max, 1024f64.powf(max.max(1.0).log(1024.0).floor())),
            Scale::Log => log_ticks(min, max),
            Scale::Quantile => quantile_ticks(max),
        };
        let last = ticks.last().copied().unwrap_or(max);
        let low = if scale == Scale::Log { min.min(ticks.first().copied().unwrap_or(min)) } else { 0.0 };
        let ends = (stretched(scale, low), stretched(scale, max.max(last)));
        Axis { scale, ends, places: (from, to), ticks }
    }

    fn place(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        let share = if high > low { (stretched(self.scale, value) - low) / (high - low) } else { 0.5 };
        self.places.0 + share * (self.places.1 - self.places.0)
    }
}

/// A value's position on its scale.
fn stretched(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear | Scale::Bytes => value,
        Scale::Log => value.log10(),
        Scale::Quantile => -(1.0 - value).log10(),
    }
}

/// From 0 to `max` in steps of 1, 2 or 5 times a power of ten, in multiples of `unit`.
fn linear_ticks(max: f64, unit: f64) -> Vec<f64> {
    if max <= 0.0 {
        return vec![0.0];
    }
    let most = max / unit;
    let power = 10f64.powf((most / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| most / step <= 5.0);
    let step = step.unwrap_or(10.0 * power);
    let count = (most / step - 1e-9).ceil() as u32;
    (0..=count).map(|index| f64::from(index) * step * unit).collect()
}

/// The powers of ten around the values.
fn log_ticks(min: f64, max: f64) -> Vec<f64> {
    let (first, last) = (min.log10().floor() as i32, max.log10().ceil() as i32);
    (first..=last).map(|power| 10f64.powi(power)).collect()
}

/// 0, 0.9, 0.99, … up to the first one beyond the values.
fn quantile_ticks(max: f64) -> Vec<f64> {
    let mut ticks = vec![0.0];
    for nines in 1..=6 {
        ticks.push(1.0 - 10f64.powi(-nines));
        if ticks[nines as usize] >= max {
            break;
        }
    }
    ticks
}

/// Reduces a line to at most [`POINTS_MAX`] points: the highest of each stretch.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(POINTS_MAX).max(1);
    let highest = |part: &[(f64, f64)]| part.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1));
    points.chunks(stretch).filter_map(highest).collect()
}

/// The number with as many decimals as it has, at most three.
pub(crate) fn plain(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn percent(share: f64) -> String {
    let text = format!("{:.4}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Text escaped for HTML and SVG.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        assert_eq!(linear_ticks(143_420.0, 1.0), [0.0, 50_000.0, 100_000.0, 150_000.0]);
        assert_eq!(linear_ticks(1.0, 1.0).last(), Some(&1.0));
        assert_eq!(linear_ticks(0.0, 1.0), [0.0]);
        let axis = Axis::new(Scale::Bytes, [5.5 * 1048576.0].into_iter(), 0.0, 1.0);
        assert_eq!(axis.ticks, [0.0, 2097152.0, 4194304.0, 6291456.0]);
        assert_eq!(log_ticks(35.0, 4200.0), [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(
            quantile_ticks(0.999).iter().map(|tick| percent(*tick)).collect::<Vec<_>>(),
            ["0 %", "90 %", "99 %", "99.9 %"]
        );
    }

    #[test]
    fn values_lie_where_they_belong() {
        let axis = Axis::new(Scale::Log, [10.0, 1000.0].into_iter(), 100.0, 0.0);
        assert_eq!([axis.place(10.0), axis.place(100.0), axis.place(1000.0)], [100.0, 50.0, 0.0]);
        let axis = Axis::new(Scale::Linear, [3.0, 4.0].into_iter(), 0.0, 100.0);
        assert_eq!([axis.place(0.0), axis.place(4.0)], [0.0, 100.0]);
    }

    #[test]
    fn long_lines_keep_their_peaks() {
        let points: Vec<(f64, f64)> =
            (0..100_000).map(|n| (f64::from(n), f64::from(u8::from(n == 77_777)))).collect();
        let thin = thinned(points);
        assert!(thin.len() <= POINTS_MAX);
        assert!(thin.contains(&(77_777.0, 1.0)));
    }

    #[test]
    fn names_of_many_lines_stand_above_the_drawing_and_look_different() {
        let points = || vec![(0.0, 1.0), (1.0, 2.0)];
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let lines = names.into_iter().map(|name| Line { name, points: points() }).collect();
        let chart = Chart { title: "many", x: (Scale::Linear, "s"), y: Scale::Linear, y_text: plain, lines };
        let svg = chart.svg().expect("two points");
        let styles: HashSet<&str> =
            svg.split("<polyline").skip(1).filter_map(|rest| rest.split('"').nth(5)).collect();
        assert_eq!(styles.len(), names.len(), "{styles:?}");
        let tops = svg.split(r#"class="name""#).count() - 1;
        assert_eq!(tops, names.len());
        for line in svg.split("<line ").filter(|line| line.contains(r#"class="name""#)) {
            let top: f64 = line
                .split(r#"y1=""#)
                .nth(1)
                .and_then(|rest| rest.split('"').next()?.parse().ok())
                .expect("y1");
            assert!(top < TOP - 4.0, "{line}");
        }
    }

    #[test]
    fn a_chart_without_lines_is_none() {
        let chart = |points| Chart {
            title: "a < b",
            x: (Scale::Linear, "s"),
            y: Scale::Log,
            y_text: plain,
            lines: vec![Line { name: "n", points }],
        };
        assert_eq!(chart(vec![]).svg(), None);
        assert_eq!(chart(vec![(0.0, 0.0), (1.0, 0.0), (2.0, f64::NAN)]).svg(), None);
        let svg = chart(vec![(0.0, 1.0), (1.0, 10.0)]).svg().expect("two points");
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN"), "{svg}");
    }
}
