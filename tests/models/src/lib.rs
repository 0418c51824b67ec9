//! Models of the algorithms that xqueue depends on. Each model is a small state machine that `stateright` explores
//! exhaustively: every order of the processes' steps, for small numbers of processes, tasks and transactions. A model
//! has properties that hold in every state, and properties which show that it does useful work.
//!
//! Each model is also explored with a flaw (`Flaw`): one step is left out or misplaced. The flaw must lead to a
//! counterexample, or the model would prove nothing.
//!
//! The models run the code of xqueue-core, which the server runs too. The other parts (SQL, latches, snapshots) are
//! modelled as steps. The head of each model names the function that each step stands for.

mod explore;
pub mod marks;
pub mod ring;
pub mod subqueues;

pub use explore::{breaks, holds};
