//! `darter-bench`: loads a server that speaks the Redis protocol, and says how fast it answered.
//!
//! One thread on our own proactor, with requests that are encoded before the clock starts: the generator has to cost less
//! than the server, or it measures itself. What the server spent is read by the caller (`scripts/bench-quick`).

mod load;
mod requests;

use std::process::ExitCode;

use clap::Parser;

use requests::Requests;

/// Send a command again and again over many connections, and count the replies.
///
/// `__rand_int__` in an argument becomes a random number of twelve digits below --keys, as with redis-benchmark.
#[derive(Debug, Parser)]
#[command(name = "darter-bench", version)]
struct Options {
    /// The server's host.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The server's port.
    #[arg(short, long, default_value_t = 6379)]
    port: u16,
    /// Connections.
    #[arg(short, long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: u32,
    /// Requests that a connection sends before it waits for all their replies.
    #[arg(short = 'P', long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pipeline: u32,
    /// Requests in all.
    #[arg(short = 'n', long, default_value_t = 1_000_000)]
    requests: u64,
    /// How many different keys `__rand_int__` makes.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let requests = Requests::new(&options.command, options.pipeline, options.keys, options.seed);
    let load = load::Load {
        address: (&options.host, options.port),
        connections: options.connections,
        pipeline: options.pipeline,
        requests: options.requests,
    };
    match load.run(requests) {
        Ok(done) => {
            let seconds = done.elapsed.as_secs_f64();
            println!(
                r#"{{"requests": {}, "errors": {}, "seconds": {seconds:.6}, "requests_per_second": {:.0}}}"#,
                done.replies,
                done.errors,
                done.replies as f64 / seconds
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("darter-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
