//! A queue with tubes and priorities, for tests of its low-water marks.

use postgres::Client;
use serde_json::{Value, json};

use crate::client::values;
use crate::queue::{COLUMNS, Queue};
use crate::reads::Reads;
use crate::repeat::{enough_takes, repeat_until};
use crate::tasks::ids;

/// Maximum number of index entries that a take reads if it begins at its marks. It reads 192 tasks ahead, and in an
/// order other than by priority, two of three entries are of removed tasks.
pub const FEW: i64 = 700;

/// A queue with tubes and priorities and an old snapshot. Thousands of tasks were removed, and some of priority 2
/// remain at the end. The marks of tube a are behind the keys that the tests make ready.
pub struct Tubes {
    pub q: Queue,
    pub name: String,
    /// Twice the number of takes that scan the priorities or raise a mark.
    pub enough: usize,
    _old: Client,
}

impl Tubes {
    pub fn new(features: &Value) -> Tubes {
        let mut all = json!({"features": {"priority": true, "tube": true}});
        if let (Some(all), Some(more)) = (all["features"].as_object_mut(), features.as_object()) {
            all.extend(more.clone());
        }
        Tubes::of(Queue::with("marks_tubes", COLUMNS, &all))
    }

    pub fn of(mut q: Queue) -> Tubes {
        let mut old = q.client();
        old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
        q.sql(
            "INSERT INTO {q} (id, priority, tube) SELECT 1000 + n, n % 3, chr(97 + n % 2) \
             FROM generate_series(1, 6000) n; \
             DELETE FROM {q} WHERE id <= 5000 OR priority < 2",
        );
        let mut tubes = Tubes { name: q.name.clone(), q, enough: enough_takes(), _old: old };
        assert!(tubes.walked("a") > 1000, "nothing is known of it yet");
        let takes = repeat_until("the priorities are known", || tubes.walked("a") < FEW);
        tubes.enough = tubes.enough.max(2 * takes);
        tubes.raise("a");
        tubes
    }

    /// Takes often enough for a scan of the priorities, unless something prevents it.
    pub fn scan_priorities(&mut self, tube: &str) {
        let take =
            format!("BEGIN; SELECT xqueue.take('{}', tube => '{tube}'); ROLLBACK", self.name);
        (0..self.enough).for_each(|_| self.q.sql(&take));
    }

    /// Takes until the marks of all priorities have been raised.
    #[track_caller]
    pub fn raise(&mut self, tube: &str) {
        let take = format!(
            "SELECT xqueue.take('{}', tube => '{tube}', count => {})",
            self.name, self.enough
        );
        (0..4).for_each(|_| self.q.sql(&format!("BEGIN; {take}; ROLLBACK")));
        let walked = self.walked(tube);
        assert!(walked < FEW, "a take of tube {tube} has read {walked} entries");
    }

    /// Returns the number of index entries that a take from a tube reads.
    pub fn walked(&mut self, tube: &str) -> i64 {
        let take = format!("SELECT xqueue.take('{}', tube => '{tube}')", self.name);
        Reads::of(&mut self.q.admin, &self.name, &take, "ROLLBACK").entries
    }

    /// Takes a task from a tube and asserts that it is the first by the table's order.
    #[track_caller]
    pub fn take(&mut self, tube: &str) -> Option<i64> {
        let first = format!(
            "SELECT id FROM {} WHERE status = 'R' AND tube = '{tube}' ORDER BY priority, id LIMIT 1",
            self.name
        );
        let first = self.q.admin.query_opt(&first, &[]).unwrap().map(|row| row.get::<_, i64>(0));
        let take = format!("SELECT xqueue.take('{}', tube => '{tube}')", self.name);
        let taken = ids(&values(&mut self.q.admin, &take, &[]));
        assert_eq!(taken.first().copied(), first, "the first task of tube {tube}");
        first
    }

    /// Asserts that the next task taken from tube a is this one.
    #[track_caller]
    pub fn finds(&mut self, id: i64) {
        assert_eq!(self.take("a"), Some(id));
        self.q.verify();
    }
}
