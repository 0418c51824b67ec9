//! Explores models: exhaustively, which must break no property, and with a flaw, which must break one.

use stateright::{Checker, HasDiscoveries, Model};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

/// Explores all states of a model. Fails if a state breaks a property.
pub fn holds<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let explored = model.checker().threads(THREADS).spawn_bfs().join();
    explored.assert_properties();
    println!("{name}: {} states, {} deep", explored.unique_state_count(), explored.max_depth());
}

/// Explores a flawed model up to a state that breaks the property. Fails if there is no such state.
pub fn breaks<M>(flaw: impl Debug, model: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let is_broken = HasDiscoveries::AnyOf(BTreeSet::from([property]));
    let explored = model.checker().finish_when(is_broken).spawn_bfs().join();
    let Some(path) = explored.discovery(property) else {
        let count = explored.unique_state_count();
        panic!("{flaw:?} does not break \"{property}\" in {count} states")
    };
    println!("{flaw:?} breaks \"{property}\": {:?}", path.into_actions());
}

const THREADS: usize = 2;
