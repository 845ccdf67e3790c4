//! Runs the program and reads its output.

use std::process::Command;

use serde_json::Value;

/// The output of a run.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) is_success: bool,
    pub(crate) report: Value,
    pub(crate) errors: String,
}

/// Runs `darter-bench` with these options against a server on this machine.
pub(crate) fn bench(port: u16, line: &str) -> Said {
    bench_at(&format!("redis://127.0.0.1:{port}"), line)
}

/// Runs `darter-bench` with these options against the server at a URL.
pub(crate) fn bench_at(url: &str, line: &str) -> Said {
    let mut words = line.split_whitespace();
    let mode = words.next().expect("a mode");
    let output = Command::new(env!("CARGO_BIN_EXE_darter-bench"))
        .args([mode, "--url", url, "--json", "-"])
        .args(words)
        .output()
        .expect("the program runs");
    Said {
        is_success: output.status.success(),
        report: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Said {
    /// Checks that the run failed, said why, and still wrote a report.
    #[track_caller]
    pub(crate) fn fails_with(&self, part: &str) -> &Said {
        assert!(!self.is_success && self.errors.contains(part), "{part:?} is missing: {self:?}");
        assert_eq!(self.report["is_good"], false, "{self:?}");
        self
    }

    /// A figure of the report, by its name.
    #[track_caller]
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let figures = self.report["figures"].as_array().expect("figures");
        let figure = figures.iter().find(|figure| figure["name"] == name);
        figure.and_then(|figure| figure["value"].as_f64()).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }

    /// A number of the report, by its path.
    #[track_caller]
    pub(crate) fn number(&self, path: &str) -> u64 {
        self.report.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path}: {self:?}"))
    }
}
