//! Crashes, standbys, lack of memory: no task is lost, and no task is done twice.

mod capacity_crash;
mod crash;
mod durability;
mod ends;
mod out_of_memory;
mod standby;
mod subscriber;
mod utube_crash;
mod wal_consistency;
