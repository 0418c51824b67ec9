//! Changes of a session's grace period while another transaction holds the session's row.

use super::*;

/// The change waits briefly for the other transaction. Then a warning says that nothing has changed.
#[test]
fn a_grace_that_another_transaction_prevents() {
    let mut q = Queue::new("session");
    let (mut c, warnings) = Heard::open(q.config());
    let session = open(&mut c, "1 hour");
    q.sql(&format!("BEGIN; SELECT FROM xqueue.session WHERE uuid = '{session}' FOR UPDATE"));
    assert_eq!(open(&mut c, "2 hours"), session);
    let warned = warnings.take();
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!(warned[0].code().code(), "01000");
    assert!(warned[0].message().contains(&session), "{warned:?}");
    assert!(warned[0].hint().is_some_and(|hint| hint.contains("again")), "{warned:?}");
    q.sql("ROLLBACK");
    assert_eq!(shown(&mut q.admin, &session).unwrap()["grace"], "01:00:00");
    assert_eq!(open(&mut c, "2 hours"), session);
    assert_eq!(warnings.take().len(), 0);
    assert_eq!(shown(&mut q.admin, &session).unwrap()["grace"], "02:00:00");
    open(&mut c, "0");
}

/// The worker writes the row after each call. The next call waits for the worker.
#[test]
fn giving_grace_beside_the_worker() {
    let q = Queue::new("session");
    let (mut c, warnings) = Heard::open(q.config());
    let session = open_local(&mut c);
    let give = |c: &mut Client, grace: &str| {
        c.run(&format!("SELECT xqueue.identify('{session}', grace => '{grace}', local => true)"));
    };
    for minutes in 61..=260 {
        give(&mut c, &format!("{minutes} min"));
        let sql = format!(
            "SELECT grace = '{minutes} min' FROM xqueue.sessions WHERE session = '{session}'"
        );
        let is_given: bool = scalar(&mut c, &sql, &[]);
        assert!(is_given || !warnings.take().is_empty(), "{minutes} min");
    }
    give(&mut c, "0");
}
