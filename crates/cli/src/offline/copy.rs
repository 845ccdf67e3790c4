//! `--copy-journal`: makes a copy from which a server can start, up to a given time or to the end.

use std::process::ExitCode;
use std::sync::Arc;

use config::Export;
use journal::{Copied, Copying, Folder, Tuning, content, time};
use proactor::Entropy;

use crate::offline::error::Error;
use crate::offline::meter::Meter;
use crate::offline::{check, in_new_folder, say};

/// Makes the copy, and reports its content.
pub(crate) fn copy(from: &Folder, export: &Export) -> Result<ExitCode, Error> {
    from.journal()?;
    let id = random_id()?;
    let copying = Copying { id, until_unix_ms: export.until_unix_ms, tuning: Tuning::default() };
    let (folder, copied) = in_new_folder(from, export, |path| {
        let folder = Folder::new(from.disk().clone(), path);
        let locked = Arc::new(folder.lock()?);
        let mut meter = Meter::new();
        let copied = copying.copy(from, &locked, &mut |scanned| {
            meter.show(|| format!("slice {}, {} UTC", scanned.slice.number, time(scanned.unix_ms)));
        });
        meter.end();
        Ok((folder, copied?))
    })?;
    let Copied { has_base, slices, is_confirmed, end, rest } = copied;
    let status = check::check(&folder)?;
    let last = end.place.last_slice();
    let more = match is_confirmed {
        true => format!("; the copy has slice {} behind it, which is empty and confirms it", last.next()),
        false => String::new(),
    };
    say(&format!("copied: {}, up to slice {last}{more}", content(has_base, slices)))?;
    if export.until_unix_ms.is_some() {
        say(&format!("left out: {rest}"))?;
    }
    say(&format!("start it with: darter --appendonly yes --dir {}", export.to.display()))?;
    Ok(status)
}

fn random_id() -> Result<u64, Error> {
    let entropy = Entropy::from_os();
    let entropy =
        entropy.map_err(|source| Error::Io { what: "the system has no random numbers".to_owned(), source });
    Ok(entropy?.next_u64())
}
