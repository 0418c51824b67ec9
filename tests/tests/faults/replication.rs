//! A standby is promoted after the loss of its primary, then a standby of the new primary. The cases of `ends` also try
//! a promotion. The checker promotes a synchronous standby under load, and counts lost tasks.

use crate::ends::fail_over;
use xqueue_tests::*;

#[test]
fn a_new_primary_gives_back_promotes_and_counts() {
    let (primary, standby) = Cluster::with_standby();
    let features = json!({"delayed": true, "buried": true, "keep": true, "ttr": true});
    let mut q = Queue::make_at(primary.config(), "jobs", COLUMNS, &json!({"features": features}));
    q.sql("INSERT INTO {q} SELECT FROM generate_series(1, 50)");
    let mut lost = q.client();
    assert_eq!(take(&mut lost, "jobs", "0", 14).len(), 14);
    (1..=4).for_each(|id| drop(ack(&mut lost, "jobs", id)));
    q.sql("SELECT xqueue.bury('{q}', t.id) FROM xqueue.take(NULL::{q}, count => 5) t");
    q.sql("SELECT xqueue.put('{q}', '[{}, {}]', '1 hour')");
    q.sql("SELECT xqueue.put('{q}', '[{}, {}, {}]', '4 seconds')");
    q.assert_tasks(&[("ready", 31), ("taken", 10), ("waiting", 5), ("buried", 5), ("done", 4)]);
    // Sessions that exist before the promotion go on after it.
    standby.catch_up(&primary);
    let mut reader = standby.client();
    assert_eq!(scalar::<String>(&mut reader, "SELECT xqueue.state()", &[]), "WAITING");
    assert_eq!(status(&mut reader, "jobs", 5).as_deref(), Some("T"));

    // The standby has seen the queue before the pause.
    let paused = "SELECT xqueue.stats('jobs')->>'paused_until'";
    assert_eq!(scalar::<Option<String>>(&mut reader, paused, &[]), None);
    q.sql("SELECT xqueue.pause('{q}')");
    standby.catch_up(&primary);
    assert_eq!(scalar::<Option<String>>(&mut reader, paused, &[]).as_deref(), Some("infinity"));

    fail_over(&primary, &standby);
    q.move_to(standby.config());
    q.wait_for("ready", 44);
    q.assert_tasks(&[("ready", 44), ("taken", 0), ("waiting", 2), ("buried", 5), ("done", 4)]);

    assert!(take_all(&mut reader, "jobs").is_empty());
    q.sql("SELECT xqueue.resume('{q}')");
    assert_eq!(take_all(&mut reader, "jobs").len(), 44);
    drop(reader);
    q.wait_for("ready", 44);
    standby.assert_quiet();

    // The new primary can be lost as well.
    let third = standby.standby();
    let mut lost = q.client();
    assert_eq!(take(&mut lost, "jobs", "0", 7).len(), 7);
    fail_over(&standby, &third);
    q.move_to(third.config());
    q.wait_for("ready", 44);
    q.assert_tasks(&[("ready", 44), ("taken", 0), ("waiting", 2), ("buried", 5), ("done", 4)]);
    third.assert_quiet();
    drop(q); // It checks itself while its server is there.
}
