//! Models of the algorithms that xqueue rests on. Each is a small state machine that `stateright` explores in
//! full: every order in which processes may take their steps, for small numbers of processes, tasks and
//! transactions. A model has properties that hold in every state, and some that show that it does something.
//!
//! Each model is also explored with one step left out or in the wrong place (`Flaw`): that must give a
//! counterexample, or the model would prove nothing.
//!
//! What is pure in the extension is not copied but compiled as it is, from the same files: the models of marks and
//! sub-queues run the code that the server runs. What cannot be (SQL, latches, snapshots) is written down as steps;
//! the head of each model says which function each step stands for.

#[allow(clippy::new_without_default, reason = "inside the extension it is no public type")]
#[path = "../../../src/delta/mod.rs"]
pub mod delta;
#[path = "../../../src/lanes/mod.rs"]
pub mod lanes;
#[path = "../../../src/marks/mark.rs"]
pub mod mark;
#[path = "../../../src/model/mod.rs"]
pub mod model;

pub mod leases;
pub mod marks;
pub mod recount;
pub mod subqueues;
pub mod wakeups;

use stateright::{Checker, HasDiscoveries, Model};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

/// A model whose states can be explored.
pub trait Explorable:
    Model<
        State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
        Action: Clone + Debug + PartialEq + Send + Sync,
    > + Send
    + Sync
    + 'static
{
}

impl<M> Explorable for M
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
}

/// Explores all states of a model, none of which may break a property; says how many there are.
pub fn holds(name: &str, model: impl Explorable) -> usize {
    let explored = model.checker().threads(THREADS).spawn_bfs().join();
    explored.assert_properties();
    println!("{name}: {} states, {} deep", explored.unique_state_count(), explored.max_depth());
    explored.unique_state_count()
}

/// Explores a flawed model, which must break a property; gives a way there.
pub fn breaks<M: Explorable>(flaw: impl Debug, model: M, property: &'static str) -> Vec<M::Action> {
    let is_broken = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let explored = model.checker().finish_when(is_broken).spawn_bfs().join();
    let Some(path) = explored.discovery(property) else {
        let count = explored.unique_state_count();
        panic!("{flaw:?} does not break \"{property}\" in {count} states")
    };
    let actions = path.into_actions();
    println!("{flaw:?} breaks \"{property}\": {actions:?}");
    actions
}

const THREADS: usize = 2;
