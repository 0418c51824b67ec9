//! The functions and their effect on a task: one file per function or feature.

mod ack_in_place;
mod bad_input;
mod direct;
mod done;
mod evicted;
mod extremes;
mod fires;
mod hooks;
mod ids;
mod if_held;
mod lineage;
mod nesting;
mod next;
mod on_conflict;
mod passed_over;
mod pause;
mod pick;
mod raised;
mod shortcuts;
mod state_machine;
mod wrong_types;
