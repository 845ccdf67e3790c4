//! The output formats of a report: terminal, JSON, page and picture.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use crate::options::Common;
use crate::report::Report;
use crate::{page, table};

/// Writes the report to wherever the options say. Complaints always go to standard error.
pub(crate) fn publish(report: &Report, common: &Common) -> io::Result<()> {
    for complaint in &report.complaints {
        eprintln!("darter-bench: {complaint}");
    }
    let named = |path: &Path, error: io::Error| {
        io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
    };
    let mut is_printed = false;
    if let Some(path) = &common.json {
        let json = serde_json::to_string_pretty(report).map_err(io::Error::other)? + "\n";
        if path == Path::new("-") {
            is_printed = true;
            io::stdout().write_all(json.as_bytes())?;
        } else {
            fs::write(path, json).map_err(|error| named(path, error))?;
        }
    }
    if let Some(path) = &common.html {
        fs::write(path, page::html(report)).map_err(|error| named(path, error))?;
    }
    if let Some(path) = &common.svg {
        fs::write(path, page::svg(report)).map_err(|error| named(path, error))?;
    }
    if !is_printed {
        io::stdout().write_all(table::text(report, common.hide_histogram).as_bytes())?;
    }
    Ok(())
}
