//! The program as users run it, against servers that misbehave in every way, and against Darter.

mod bad_servers;
mod darter;
mod fake;
mod tls;
mod tool;
