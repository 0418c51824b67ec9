//! Monitoring of queues: counters, views, metrics, memory.

mod administration;
mod busy;
mod counters;
mod counters_random;
mod graphite;
mod latency;
mod many_queues;
mod memory;
mod shared_memory;
mod tube_stats;
mod untold;
