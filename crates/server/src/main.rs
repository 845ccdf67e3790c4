//! The `darter` binary.

#![allow(unexpected_cfgs, reason = "`scripts/sanitize` sets `sanitized`")]

use std::process::ExitCode;

// The sanitizers watch the system's allocator.
#[cfg(not(sanitized))]
#[global_allocator]
static ALLOCATOR: heap::Allocator = heap::Allocator;

fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    server::run(&args)
}
