//! The whole server in simulation, in one program: most of the time went into linking one for each file. Tests that
//! look at the memory of the process have a program of their own.

mod account;
mod again;
mod blocked_replies;
mod caches;
mod channels;
mod clock_jumps;
mod crashes;
mod cron;
mod durable;
mod effects_stream;
mod functions;
mod jobs;
mod journaled;
mod leases;
mod moved;
mod moving;
mod pressure;
mod queues;
mod roaming;
mod serializable;
mod servers;
mod snapshots;
mod spool;
mod starvation;
mod subscriptions;
mod timeouts;
mod too_few_databases;
mod transcripts;
