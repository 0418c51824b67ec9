//! Models of the algorithms that xqueue rests on. Each is a small state machine that `stateright` explores in
//! full: every order in which processes may take their steps, for small numbers of processes, tasks and
//! transactions. A model has properties that hold in every state, and some that show that it does something.
//!
//! Each model is also explored with one step left out or in the wrong place (`Flaw`): that must give a
//! counterexample, or the model would prove nothing.
//!
//! The models of marks, rings and sub-queues run the code of xqueue-core, which the server runs too. The rest (SQL,
//! latches, snapshots) is written down as steps; the head of each model says which function each step stands for.

mod explore;
pub mod leases;
pub mod levels;
pub mod marks;
pub mod recount;
pub mod ring;
pub mod subqueues;
pub mod wakeups;

pub use explore::{Explorable, breaks, holds};
