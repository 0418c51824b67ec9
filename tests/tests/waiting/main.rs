//! Calls that wait for a task, for its end or for capacity, and the events that wake them.

mod blocking_ddl;
mod blocking_end;
mod blocking_order;
mod blocking_tenants;
mod blocking_wake;
mod capacity;
mod capacity_crowd;
mod capacity_ends;
mod capacity_waiting;
mod outcome;
mod user_code;
