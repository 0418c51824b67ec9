//! The order of tasks: marks, candidates, tubes, sub-queues, priorities.

mod ahead;
mod by_column_random;
mod crowd;
mod front;
mod key_types;
mod marks;
mod marks_buried;
mod marks_tubes;
mod mid_statement;
mod redefined;
mod tubes;
mod utube;
mod utube_by_hand;
mod utube_clear;
mod utube_priority;
mod utube_review;
mod utube_secret;
mod utube_steps;
