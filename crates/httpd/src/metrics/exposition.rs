//! The text formats of metrics: Prometheus' own, version 0.0.4, and OpenMetrics 1.0.0.
//!
//! They differ in the name of a counter's family (OpenMetrics: without `_total`; a counter without that suffix has the
//! type unknown there, as in Go's client) and in the last line.

use std::fmt::Write;

use observe::Value;

/// The format of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    Prometheus,
    OpenMetrics,
}

/// The type of a family of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// Writes a page of metrics.
#[derive(Debug)]
pub(super) struct Exposition {
    format: Format,
    text: String,
}

impl Format {
    /// The format that an `Accept` header prefers.
    pub(super) fn wanted(accept: &str) -> Format {
        let quality = |wanted: &[&str]| {
            let matching = accept.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let kind = parts.next()?;
                let quality = parts.find_map(|part| part.strip_prefix("q="));
                let quality = quality.map_or(Some(1.0), |quality| quality.parse::<f64>().ok())?;
                wanted.contains(&kind).then_some(quality)
            });
            matching.fold(0.0, f64::max)
        };
        let open = quality(&["application/openmetrics-text"]);
        if open > 0.0 && open >= quality(&["text/plain"]) { Format::OpenMetrics } else { Format::Prometheus }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Exposition {
    pub(super) fn new(format: Format) -> Exposition {
        Exposition { format, text: String::with_capacity(64 << 10) }
    }

    /// Begins a family. Its samples must follow.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let (mut family, mut word) = (
            name,
            match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
                Kind::Summary => "summary",
            },
        );
        if self.format == Format::OpenMetrics && kind == Kind::Counter {
            match name.strip_suffix("_total") {
                Some(base) => family = base,
                None => word = "unknown",
            }
        }
        let _ = writeln!(self.text, "# HELP {family} {help}\n# TYPE {family} {word}");
    }

    /// A sample with these labels.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        if !labels.is_empty() {
            for (index, (label, text)) in labels.iter().enumerate() {
                self.text.push(if index == 0 { '{' } else { ',' });
                self.text.push_str(label);
                self.text.push_str("=\"");
                self.push_escaped(text);
                self.text.push('"');
            }
            self.text.push('}');
        }
        let _ = match value {
            value if value == f64::INFINITY => writeln!(self.text, " +Inf"),
            value => writeln!(self.text, " {value}"),
        };
    }

    /// A family with one sample.
    pub(super) fn single(&mut self, name: &str, kind: Kind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn push_escaped(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                letter => self.text.push(letter),
            }
        }
    }

    /// The complete page.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

/// A figure of INFO as a number, in the way of redis_exporter; `None` if it is not one.
pub(super) fn number(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Number(number) => Some(number as f64),
        Value::Bytes(bytes) => Some(bytes as f64),
        // Rounded as INFO shows them, so that both show equal figures.
        Value::Ratio(ratio) | Value::Percent(ratio) => Some((ratio * 100.0).round() / 100.0),
        Value::Seconds(seconds) => Some((seconds * 1e6).round() / 1e6),
        Value::Text("ok") => Some(1.0),
        Value::Text("err") => Some(0.0),
        Value::Text(_) => None,
    }
}

/// Bytes as the text of a label. Different bytes give different texts: invalid UTF-8 is written `\xNN`, and so is a
/// backslash before an `x`.
pub(super) fn label_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for (index, letter) in chunk.valid().char_indices() {
            let is_ambiguous = letter == '\\' && chunk.valid()[index + 1..].starts_with('x');
            if is_ambiguous { text.push_str("\\x5c") } else { text.push(letter) }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_preferred_one() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            (prometheus, Format::OpenMetrics),
            ("text/plain, application/openmetrics-text;q=0.9", Format::Prometheus),
            ("application/openmetrics-text;q=0", Format::Prometheus),
            ("application/openmetrics-text; version=1.0.0", Format::OpenMetrics),
        ] {
            assert_eq!(Format::wanted(accept), format, "{accept}");
        }
    }

    #[test]
    fn formats_name_counters_in_their_ways() {
        let page = |format| {
            let mut page = Exposition::new(format);
            page.single("jobs_total", Kind::Counter, "Jobs.", 2.0);
            page.single("errors", Kind::Counter, "Errors.", 0.5);
            page.family("wait", Kind::Gauge, "Waits.");
            page.sample("wait", &[("queue", "a\"\\\nb"), ("db", "0")], f64::INFINITY);
            page.finish()
        };
        let wait = "# HELP wait Waits.\n# TYPE wait gauge\nwait{queue=\"a\\\"\\\\\\nb\",db=\"0\"} +Inf\n";
        let prometheus = "# HELP jobs_total Jobs.\n# TYPE jobs_total counter\njobs_total 2\n\
             # HELP errors Errors.\n# TYPE errors counter\nerrors 0.5\n";
        assert_eq!(page(Format::Prometheus), format!("{prometheus}{wait}"));
        let open = "# HELP jobs Jobs.\n# TYPE jobs counter\njobs_total 2\n\
             # HELP errors Errors.\n# TYPE errors unknown\nerrors 0.5\n";
        assert_eq!(page(Format::OpenMetrics), format!("{open}{wait}# EOF\n"));
    }

    #[test]
    fn different_names_have_different_labels() {
        for (name, label) in [
            (&b"queue:a"[..], "queue:a"),
            ("größe\0\n".as_bytes(), "größe\0\n"),
            (b"a\xffb\xc3", "a\\xffb\\xc3"),
            (b"a\\xff", "a\\x5cxff"),
            (b"App\\Jobs", "App\\Jobs"),
            (b"a\\\xff", "a\\\\xff"),
        ] {
            assert_eq!(label_text(name), label);
        }
    }
}
