//! Connection slots for browsers. If all slots are taken, a new connection replaces the least important one: any user
//! of the machine can open connections and send nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// The importance of a connection, lowest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Has sent no admitted request: silent so far, or without the key.
    Stranger,
    /// Was admitted, and has no request in progress.
    Idle,
    /// Waits for its response.
    Served,
}

struct Connection {
    standing: Standing,
    task: AbortHandle,
}

#[derive(Default)]
struct Taken {
    /// By number, in the order of arrival.
    connections: BTreeMap<u64, Connection>,
    next: u64,
}

#[derive(Clone)]
pub struct Places {
    limit: usize,
    taken: Arc<Mutex<Taken>>,
}

/// The slot of a connection, freed on drop.
pub struct Place {
    places: Places,
    number: u64,
}

/// An admitted request, until it is answered.
pub struct Served<'p>(&'p Place);

impl Places {
    pub fn new(limit: usize) -> Places {
        Places { limit, taken: Arc::default() }
    }

    /// Starts the task of a new connection. If no slot is free, the oldest of the least important connections ends. If
    /// all connections wait for responses, nothing is started and the new task is dropped.
    pub fn start<Task>(&self, connection: impl FnOnce(Place) -> Task)
    where
        Task: Future<Output = ()> + Send + 'static,
    {
        let mut taken = self.taken();
        if taken.connections.len() >= self.limit {
            let known = taken.connections.iter().map(|(number, known)| (known.standing, *number));
            let least = known.filter(|(standing, _)| *standing < Standing::Served).min();
            let Some((_, number)) = least else { return };
            if let Some(ended) = taken.connections.remove(&number) {
                ended.task.abort();
            }
        }
        let number = taken.next;
        taken.next += 1;
        let task = tokio::spawn(connection(Place { places: self.clone(), number })).abort_handle();
        taken.connections.insert(number, Connection { standing: Standing::Stranger, task });
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Records that a request was admitted.
    pub fn serve(&self) -> Served<'_> {
        self.stand(Standing::Served);
        Served(self)
    }

    fn stand(&self, standing: Standing) {
        if let Some(connection) = self.places.taken().connections.get_mut(&self.number) {
            connection.standing = standing;
        }
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.0.stand(Standing::Idle);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    /// Returns the numbers of the open connections.
    fn there(places: &Places) -> Vec<u64> {
        places.taken().connections.keys().copied().collect()
    }

    /// Starts a connection that stays open. `served`: it has sent an admitted request. `waits`: it also waits for the
    /// response.
    async fn start(places: &Places, served: bool, waits: bool) {
        places.start(move |place| async move {
            let request = served.then(|| place.serve());
            let _request = request.filter(|_| waits);
            pending::<()>().await;
        });
        tokio::task::yield_now().await;
    }

    #[test]
    fn new_connection_gets_the_place_of_the_one_that_matters_least() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let places = Places::new(4);
            for (served, waits) in [(true, true), (true, false), (false, false), (false, false)] {
                start(&places, served, waits).await;
            }
            assert_eq!(there(&places), [0, 1, 2, 3]);
            start(&places, false, false).await;
            assert_eq!(there(&places), [0, 1, 3, 4], "the oldest stranger ends");
            start(&places, true, true).await;
            start(&places, true, true).await;
            assert_eq!(there(&places), [0, 1, 5, 6], "strangers end first");
            start(&places, true, true).await;
            assert_eq!(there(&places), [0, 5, 6, 7], "then one that asks for nothing");
            start(&places, true, true).await;
            assert_eq!(there(&places), [0, 5, 6, 7], "none that waits for its answer");
        });
    }

    #[test]
    fn connection_that_ends_leaves_its_place() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let places = Places::new(4);
            places.start(|place| async move { drop(place) });
            assert_eq!(there(&places), [0]);
            tokio::task::yield_now().await;
            assert!(there(&places).is_empty());
        });
    }
}
