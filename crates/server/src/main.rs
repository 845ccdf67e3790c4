//! The `darter` binary.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: heap::Allocator = heap::Allocator;

fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    server::run(&args)
}
