//! The tool as its users have it: the program, against servers that misbehave in every way, and against Darter.

mod bad_servers;
mod darter;
mod fake;
mod tls;
mod tool;
