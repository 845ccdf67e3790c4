//! Darter beside other servers, and over kills, in one program: files of tests wait for their servers at the same time, and one
//! program is linked rather than one for each file.

mod changes;
mod commands;
mod crash;
mod darters;
mod differential;
mod dumps;
mod failover;
mod follow;
mod formats;
mod groups;
mod handover;
mod haproxy;
mod journal_folder;
mod journal_full_disk;
mod journal_refused;
mod leases;
mod memcached;
mod memcached_requests;
mod offsets;
mod outputs;
mod pages;
mod power;
mod queue_kinds;
mod queues;
mod replica_clients;
mod replicas;
mod restarts;
mod sandbox;
mod sentinel;
mod shutdown_replicas;
mod tls;
mod transcripts;
mod users;
