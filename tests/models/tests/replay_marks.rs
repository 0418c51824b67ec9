//! Traces of marks made by hand: each rule of the [replay](xqueue_models::marks::replay) refuses one that breaks it.

#[path = "replay_marks/trace.rs"]
mod trace;

use trace::*;
use xqueue_models::marks::replay::{Left, run};
use xqueue_models::marks::rules::Limits;
use xqueue_models::marks::trace::*;
use xqueue_models::model::position::{FIRST, LAST, Position};
use xqueue_models::parts::marks::mark::LOST_AFTER;

const SLOT: u64 = 7;

#[test]
fn what_the_model_permits_is_replayed() {
    let trace = made(|t| {
        t.put(1, 10);
        t.take(2, 10);
        t.start(ONE, 50);
        t.put(3, 20);
        t.end(ONE, 50, LAST);
        assert_eq!(t.seen.ready.at, 20);
        t.start(ONE, 51);
        t.prepare(4, 30);
        t.end(ONE, 51, 20);
        assert_eq!(t.seen.ready.at, FIRST);
        t.clear();
        t.settle(true);
        t.clear();
        t.settle(false);
        t.start(ONE, 52);
        t.end(ONE, 52, 20);
        t.put(5, 15);
        t.left.insert((SLOT, "30".into()), Status::Ready);
    });
    trace.is_replayed();
}

/// It stays where it was.
#[test]
fn a_look_may_fail() {
    let trace = made(|t| {
        t.start(ONE, 50);
        t.end(ONE, 50, None);
    });
    assert_eq!(trace.seen.ready.at, FIRST);
    trace.is_replayed();
}

#[test]
fn a_raise_has_begun() {
    made(|t| t.end(ONE, 50, LAST)).is_refused("a raise ends that has not begun");
    let ends_for_another = made(|t| {
        t.start(ONE, 50);
        t.end(OTHER, 50, LAST);
    });
    ends_for_another.is_refused("a raise ends that has not begun");
    made(|t| t.start(ONE, 50)).is_refused("a raise does not end");
}

#[test]
fn one_raises_at_a_time() {
    let raises = |since| {
        made(|t| {
            t.start(ONE, 50);
            t.start(OTHER, since);
            t.end(OTHER, since, 8);
            t.end(ONE, 50, LAST);
        })
    };
    raises(51).is_refused("two raise a mark at once");
    raises(50 + LOST_AFTER).is_refused("two raise a mark at once");
    let lost = raises(51 + LOST_AFTER);
    lost.is_replayed();
    assert_eq!(lost.seen.ready.at, 8);
    // A raise that was given up for lost does not end another.
    let mut ends_both = lost;
    let Some(What::Step(last)) = ends_both.events.last_mut().map(|event| &mut event.what) else {
        unreachable!()
    };
    last.after.ready.at = LAST;
    ends_both.is_refused("the rules have another outcome");
}

#[test]
fn no_step_is_lost() {
    let mut trace = made(|t| {
        t.put(1, 10);
        t.start(ONE, 50);
        t.end(ONE, 50, 10);
    });
    trace.is_replayed();
    // What the marks were forgotten by.
    trace.seen.ready = Limits::FORGOTTEN;
    trace.put(2, 20);
    trace.is_refused("a step is missing before this one");
}

/// Refused whatever else the slot may have come to be.
#[track_caller]
fn changed(trace: &Trace, change: impl Fn(&mut Seen)) {
    let mut events = trace.events.clone();
    let Some(What::Step(last)) = events.last_mut().map(|event| &mut event.what) else {
        unreachable!()
    };
    change(&mut last.after);
    let changed = Trace { events, seen: trace.seen, left: trace.left.clone() };
    changed.is_refused("the rules have another outcome");
}

#[test]
fn a_raise_begins_with_no_floor() {
    let trace = made(|t| {
        t.put(1, 10);
        t.start(ONE, 50);
    });
    trace.is_refused("a raise does not end");
    changed(&trace, |seen| seen.ready.floor = 10);
    changed(&trace, |seen| seen.ready.at = 5);
    changed(&trace, |seen| seen.ready.since = 0);
    changed(&trace, |seen| seen.buried.floor = LAST);
}

#[test]
fn a_raise_ends_at_the_lesser_of_what_is_found_and_the_floor() {
    for (found, at) in [(LAST, 20), (15, 15)] {
        let trace = made(|t| {
            t.put(1, 15);
            t.start(ONE, 50);
            t.put(2, 20);
            t.end(ONE, 50, found);
        });
        assert_eq!(trace.seen.ready.at, at);
        changed(&trace, |seen| seen.ready.at = found.max(20));
        changed(&trace, |seen| seen.ready.at = 14);
        changed(&trace, |seen| seen.ready.since = 50);
        changed(&trace, |seen| seen.buried.at = 3);
    }
}

#[test]
fn a_look_finds_nothing_before_its_beginning() {
    let trace = made(|t| {
        t.start(ONE, 50);
        t.end(ONE, 50, 20);
        t.start(ONE, 51);
        t.end(ONE, 51, 19);
    });
    trace.is_refused("it finds what is before where it looks");
}

#[test]
fn a_commit_lowers_mark_and_floor() {
    let trace = made(|t| {
        t.start(ONE, 50);
        t.end(ONE, 50, 30);
        t.start(ONE, 51);
        t.put(1, 10);
    });
    assert_eq!((trace.seen.ready.at, trace.seen.ready.floor), (10, 10));
    changed(&trace, |seen| seen.ready.at = 30);
    changed(&trace, |seen| seen.ready.floor = LAST);
    changed(&trace, |seen| seen.buried.at = 10);
    changed(&trace, |seen| seen.ready.since = 0);
}

#[test]
fn a_commit_lowers_the_marks_once_and_to_its_own_tasks() {
    made(|t| t.put_untold(1, &[10])).is_refused("a commit does not lower the marks");
    let twice = made(|t| {
        t.put(1, 10);
        t.lower(1, 10);
    });
    twice.is_refused("a commit lowers the marks twice");
    let elsewhere = |to| {
        made(|t| {
            t.put_untold(1, &[20, 10]);
            t.lower(1, to);
        })
    };
    elsewhere(20).is_refused("the commit has put its tasks elsewhere");
    elsewhere(9).is_refused("the commit has put its tasks elsewhere");
    elsewhere(10).is_replayed();
    let too_early = made(|t| {
        t.put(1, 10);
        t.put_untold(1, &[11]);
    });
    too_early.is_refused("its transaction has been told of already");
}

#[test]
fn no_task_stands_before_the_mark() {
    // In the snapshot of the look, and not found.
    let unseen = made(|t| {
        t.put(1, 10);
        t.start(ONE, 50);
        t.end(ONE, 50, 11);
    });
    unseen.is_refused("a task stands before the mark");
    // As a session that has taken it itself and gives it back by a rollback would raise the mark.
    let taken_too_late = made(|t| {
        t.put(1, 10);
        t.start(ONE, 50);
        t.end(ONE, 50, LAST);
        t.take(2, 10);
    });
    taken_too_late.is_refused("a task stands before the mark");
    let taken = made(|t| {
        t.put(1, 10);
        t.start(ONE, 50);
        t.take(2, 10);
        t.end(ONE, 50, LAST);
    });
    taken.is_replayed();
    // A commit that has not lowered the mark yet.
    let untold = made(|t| {
        t.start(ONE, 50);
        t.put_untold(1, &[10]);
        t.end(ONE, 50, LAST);
        t.lower(1, 10);
    });
    untold.is_replayed();
}

/// What the first has put, the second has taken and the third given back is the third's to tell.
#[test]
fn a_late_callback_reports_no_task_of_another_transaction() {
    let trace = made(|t| {
        t.put_untold(1, &[10]);
        t.take(2, 10);
        t.change(3, "10", Some(Status::Taken), Some(Status::Ready));
        t.lower(1, 10);
        // The third is not visible yet.
        t.start(ONE, 50);
        t.end(ONE, 50, LAST);
        t.lower(3, 10);
    });
    trace.is_replayed();
}

#[test]
fn no_raise_beside_a_prepared_transaction() {
    let prepared = |t: &mut Trace| {
        t.prepare(1, 10);
        t.left.insert((SLOT, "10".into()), Status::Ready);
    };
    let begins = |looks: bool| {
        made(|t| {
            prepared(t);
            if looks {
                t.clear();
            }
            t.start(ONE, 50);
        })
    };
    begins(false).is_refused("a raise begins beside a prepared transaction");
    begins(true).is_refused("a raise begins beside a prepared transaction");
    // Between the two steps of PREPARE.
    let between = made(|t| {
        t.start(ONE, 50);
        t.mark_prepared(1);
        t.seen.ready = Limits { at: FIRST, floor: LAST, since: 50 };
        t.end(ONE, 50, LAST);
    });
    between.is_refused("a step is missing before this one");
    let mut forgets_nothing = made(|t| {
        t.start(ONE, 50);
        t.end(ONE, 50, 10);
        t.mark_prepared(1);
    });
    changed(&forgets_nothing, |seen| seen.ready.at = 10);
    changed(&forgets_nothing, |seen| seen.prepared = false);
    // PREPARE has failed after its first step.
    forgets_nothing.clear();
    forgets_nothing.settle(false);
    forgets_nothing.is_replayed();
}

#[test]
fn a_prepared_transaction_marks_the_queue_twice_after_its_changes() {
    let with = |steps: usize| {
        made(|t| {
            t.push(1, What::Prepared(change("10", None, Some(Status::Ready))));
            (0..steps).for_each(|_| t.mark_prepared(1));
            t.clear();
            t.settle(false);
        })
    };
    with(0).is_refused("a prepared transaction does not mark the queue twice");
    with(1).is_refused("a prepared transaction does not mark the queue twice");
    with(2).is_replayed();
    with(3).is_refused("a transaction is prepared twice");
    let mut late = with(2);
    late.events.swap(2, 3);
    late.is_refused("its transaction has been prepared already");
    let doubled = made(|t| {
        (0..2).for_each(|_| t.push(1, What::Prepared(change("10", None, Some(Status::Ready)))));
    });
    doubled.is_refused("a prepared transaction puts a task twice");
}

#[test]
fn what_was_prepared_is_ready_when_the_worker_has_looked() {
    let raised = |found| {
        made(|t| {
            t.prepare(1, 10);
            t.left.insert((SLOT, "10".into()), Status::Ready);
            t.clear();
            t.settle(false);
            t.start(ONE, 50);
            t.end(ONE, 50, found);
        })
    };
    raised(10).is_replayed();
    raised(11).is_refused("a task stands before the mark");
    // It was rolled back.
    let mut rolled_back = raised(11);
    rolled_back.left.clear();
    rolled_back.is_replayed();
    // It is prepared after the beginning of a look that has found none: the next one tells.
    let mut later = made(|t| {
        t.mark_prepared(9);
        t.clear();
        t.prepare(1, 10);
        t.settle(false);
        t.left.insert((SLOT, "10".into()), Status::Ready);
    });
    later.is_refused("the worker has not seen the end of a prepared transaction");
    changed(&later, |seen| seen.prepared = false);
    later.clear();
    later.settle(false);
    later.is_replayed();
    made(|t| t.settle(false)).is_refused("the worker has not looked");
    let mut unmarked = made(|t| {
        t.clear();
        t.settle(true);
    });
    unmarked.is_replayed();
    unmarked.events.pop();
    unmarked.is_refused("the slot is not marked for what the worker has found");
    let why = "the slot is marked for what the worker finds, and for nothing else";
    made(Trace::forbid).is_refused(why);
}

#[test]
fn tasks_are_where_the_trace_leaves_them() {
    let put = made(|t| t.put(1, 10));
    let elsewhere = Trace { left: Left::new(), ..put };
    elsewhere.is_refused("the tables are not as the trace leaves them");
    let unknown = made(|t| t.take(1, 10));
    unknown.is_refused("the task is in another state");
}

#[test]
fn what_a_log_tells_is_read() {
    let seen = r#"{"ready":{"at":"0","floor":"340282366920938463463374607431768211455","since":5},"buried":{"at":"0","floor":"0","since":0},"prepared":false,"looking":true}"#;
    let log = format!(
        r#"LOG:  xqueue trace 9 {{"do":"End","group":"ready","since":5,"by":77,"found":null,"slot":3,"before":{seen},"after":{seen},"part":"marks"}}
LOG:  xqueue trace 8 {{"do":"Begin","by":"7b"}}
LOG:  xqueue trace 4 {{"task":"1","do":"Put","from":null,"to":{{"status":"R","tube":null}},"stand":["any","17"],"slot":3,"queue":"q"}}
LOG:  xqueue trace 5 {{"task":"2","from":null,"to":{{"status":"W","tube":7}},"stand":null,"slot":3,"queue":"q","part":"prepared"}}"#
    );
    let events = events(&log);
    let [first, second, third] = events.as_slice() else { panic!("{events:?}") };
    let What::Changed(put) = &first.what else { panic!("{first:?}") };
    assert_eq!((first.number, put.stand), (4, Some(Stand(Noted::Any, 17))));
    assert!(matches!(&second.what, What::Prepared(change) if change.to == Some(Status::Waiting)));
    let What::Step(step) = &third.what else { panic!("{third:?}") };
    assert_eq!((step.slot, step.after.ready.floor, step.after.looking), (3, LAST, true));
    assert_eq!(step.verb, Verb::End { group: Group::Ready, since: 5, by: 77, found: None });
}
