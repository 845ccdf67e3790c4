//! Runs a program as confined as a unit file of systemd would: `confined UNIT PROGRAM ARGUMENT…`.
//!
//! ```text
//!   unshare --mount ─▶ confined UNIT … ─▶ file system read-only, except CONFINED_WRITABLE (the unit's folders)
//!                                      ─▶ setpriv: another user, no capabilities, no new privileges
//!                                      ─▶ confined --filter UNIT … ─▶ system calls ─▶ PROGRAM
//! ```
//!
//! A forbidden call ends the process at once (systemd returns an error instead), so a test that passes has shown that
//! the server does not even try. systemd itself is not needed, only its list of system calls (`systemd-analyze
//! syscall-filter`).
//!
//! Not here: control groups, devices, and which part of `/proc` is visible.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use seccompiler::{BpfProgram, TargetArch, apply_filter, compile_from_json};

type Failure = Box<dyn std::error::Error>;

/// The user and group id that the program runs under: those of the unprivileged user.
const USER: &str = "65534";
/// Option that says that the steps before the filter are done.
const FILTER: &str = "--filter";
/// Makes all mounts read-only, except these folders and the kernel's file systems.
const MOUNTS: &str = r#"
set -e
for folder in $CONFINED_WRITABLE; do mount --bind "$folder" "$folder"; done
while read -r _ place _; do
    case "$place" in /proc|/proc/*|/sys|/sys/*|/dev|/dev/*) continue ;; esac
    for folder in $CONFINED_WRITABLE; do [ "$place" != "$folder" ] || continue 2; done
    mount -o remount,bind,ro "$place"
done < /proc/self/mounts
exec "$@"
"#;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let failure = match &args[..] {
        [flag, unit, program, args @ ..] if flag == FILTER => filter(unit, program, args),
        [unit, program, args @ ..] => prepare(unit, program, args),
        _ => "usage: confined UNIT PROGRAM ARGUMENT…".into(),
    };
    eprintln!("confined: {failure}");
    ExitCode::FAILURE
}

/// Sets up mounts and user. Returns only on failure.
fn prepare(unit: &str, program: &str, args: &[String]) -> Failure {
    let Ok(own) = std::env::current_exe() else { return "nobody knows where this program is".into() };
    let user = [format!("--reuid={USER}"), format!("--regid={USER}")];
    let mut command = Command::new("sh");
    command.args(["-c", MOUNTS, "sh", "setpriv"]).args(user);
    command.args(["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]);
    command.arg(own).args([FILTER, unit, program]).args(args).exec().into()
}

/// Sets up the system call filter. Returns only on failure.
fn filter(unit: &str, program: &str, args: &[String]) -> Failure {
    match filters(unit) {
        Ok(filters) => {
            for filter in filters {
                if let Err(error) = apply_filter(&filter) {
                    return error.into();
                }
            }
            Command::new(program).args(args).exec().into()
        }
        Err(failure) => failure,
    }
}

/// Everything that the unit says about system calls, as filters. The strictest one applies.
fn filters(unit: &str) -> Result<Vec<BpfProgram>, Failure> {
    let unit = std::fs::read_to_string(unit)?;
    let values = |key: &str| -> Vec<String> {
        let of_key = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        of_key.map(str::to_owned).collect()
    };
    let listed = Command::new("systemd-analyze").arg("syscall-filter").output()?;
    let listed = String::from_utf8(listed.stdout)?;
    let groups = groups(&listed);
    let mut allowed = BTreeSet::new();
    for value in values("SystemCallFilter") {
        match value.strip_prefix('~') {
            Some(words) => expand(&groups, words, &mut |call| _ = allowed.remove(call)),
            None => expand(&groups, &value, &mut |call| _ = allowed.insert(call.to_owned())),
        }
    }
    if allowed.is_empty() {
        return Err("the unit, or systemd-analyze, lists no system call".into());
    }
    let is_on = |key: &str| values(key) == ["yes"];
    let mut rules: Vec<String> = Vec::new();
    if is_on("RestrictNamespaces") {
        const NAMESPACES: u64 = 0x7e02_0000;
        // Threads are not started by clone3: systemd cannot inspect its arguments, and refuses it so that clone is
        // tried.
        for call in ["unshare", "setns", "clone", "clone3"] {
            allowed.remove(call);
        }
        rules.push(call("clone3"));
        rules.push(rule("clone", &[(0, &format!(r#"{{"masked_eq":{NAMESPACES}}}"#), 0)]));
    }
    if is_on("MemoryDenyWriteExecute") {
        const WRITE_AND_EXECUTE: u64 = 6;
        const EXECUTE: u64 = 4;
        for call in ["mmap", "mprotect", "pkey_mprotect"] {
            allowed.remove(call);
        }
        let is = |mask: u64| format!(r#"{{"masked_eq":{mask}}}"#);
        rules.extend([0, 2, 4].map(|bits| rule("mmap", &[(2, &is(WRITE_AND_EXECUTE), bits)])));
        rules.extend(["mprotect", "pkey_mprotect"].map(|name| rule(name, &[(2, &is(EXECUTE), 0)])));
    }
    let families = values("RestrictAddressFamilies");
    if !families.is_empty() {
        allowed.remove("socket");
        for family in families.iter().flat_map(|value| value.split_whitespace()) {
            let number = match family {
                "AF_UNIX" => 1,
                "AF_INET" => 2,
                "AF_INET6" => 10,
                other => return Err(format!("what is {other}?").into()),
            };
            rules.push(rule("socket", &[(0, r#""eq""#, number)]));
        }
    }
    rules.extend(allowed.iter().filter(|name| is_known(name)).map(|name| call(name)));
    let no_clone3 = compile(r#"{"errno":38}"#, r#""allow""#, &[call("clone3")])?;
    Ok(vec![no_clone3, compile(r#""allow""#, r#""kill_process""#, &rules)?])
}

fn call(name: &str) -> String {
    format!(r#"{{"syscall":"{name}"}}"#)
}

/// A rule for a call with conditions on its arguments: index, comparison, value.
fn rule(name: &str, conditions: &[(u8, &str, u64)]) -> String {
    let conditions: Vec<String> = conditions
        .iter()
        .map(|(index, op, value)| format!(r#"{{"index":{index},"type":"dword","op":{op},"val":{value}}}"#))
        .collect();
    format!(r#"{{"syscall":"{name}","args":[{}]}}"#, conditions.join(","))
}

fn compile(matching: &str, otherwise: &str, rules: &[String]) -> Result<BpfProgram, Failure> {
    let text = format!(
        r#"{{"unit":{{"match_action":{matching},"mismatch_action":{otherwise},"filter":[{}]}}}}"#,
        rules.join(",")
    );
    let mut compiled = compile_from_json(text.as_bytes(), TargetArch::try_from(std::env::consts::ARCH)?)?;
    compiled.remove("unit").ok_or_else(|| "no filter came of it".into())
}

/// Whether this architecture has a system call with this name.
fn is_known(name: &str) -> bool {
    compile(r#""allow""#, r#""kill_process""#, &[call(name)]).is_ok()
}

/// Parses the output of `systemd-analyze syscall-filter`: each `@group`, followed by its indented members.
fn groups(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut group = "";
    for line in text.lines() {
        let word = line.trim();
        if line.starts_with('@') {
            group = word;
        } else if line.starts_with(' ') && !word.starts_with('#') {
            groups.entry(group).or_default().push(word);
        }
    }
    groups
}

/// Calls `found` with each system call in `words`, alone or in groups.
fn expand(groups: &BTreeMap<&str, Vec<&str>>, words: &str, found: &mut dyn FnMut(&str)) {
    for word in words.split_whitespace() {
        match groups.get(word) {
            Some(members) => expand(groups, &members.join(" "), found),
            None => found(word),
        }
    }
}
