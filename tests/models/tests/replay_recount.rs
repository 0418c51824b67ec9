//! Wrong traces of recounts, each refused by its rule.

use xqueue_models::model::status::Tasks;
use xqueue_models::recount::replay::{Event, Shown, Step, replay};

const NEXT: u32 = 10;

fn ready(count: i64) -> Tasks {
    [count, 0, 0, 0, 0, 0]
}

fn event(step: Step, tasks: i64, since: &[(usize, i64)]) -> Event {
    let since = since.iter().map(|(area, count)| (*area, ready(*count))).collect();
    let after = Shown {
        tasks: ready(tasks),
        since,
        prepared: false,
        looks: false,
        wanted: false,
        exact: true,
    };
    Event { step, queue: 1, after }
}

fn tell(xid: u32, change: i64) -> Step {
    Step::Tell { xid, change: ready(change), replaces: false }
}

fn begin(renews: bool) -> Step {
    Step::Begin { area: 0, xmax: NEXT, in_progress: vec![8], renews }
}

fn end(counted: i64, result: i64) -> Step {
    Step::End { area: 0, counted: ready(counted), result: ready(result), certain: true }
}

/// Two tasks; a recount sees both, and is notified of what it does not see, and of what it does.
fn right() -> Vec<Event> {
    vec![
        event(tell(5, 1), 1, &[]),
        event(tell(6, 1), 2, &[]),
        event(begin(true), 2, &[(0, 0)]),
        event(tell(8, 1), 3, &[(0, 1)]),
        event(tell(9, 1), 4, &[(0, 1)]),
        event(tell(NEXT, 1), 5, &[(0, 2)]),
        event(end(3, 5), 5, &[]),
        event(Step::Set, 5, &[]),
        event(tell(11, -1), 4, &[]),
    ]
}

fn is_refused(events: &[Event], why: &str) {
    let refusal = replay(events).expect_err(why);
    assert!(refusal.contains(why), "{refusal}");
}

fn changed(change: impl FnOnce(&mut Vec<Event>)) -> Vec<Event> {
    let mut events = right();
    change(&mut events);
    events
}

#[test]
fn what_is_right_is_not_refused() {
    let exact = replay(&right()).unwrap();
    assert_eq!(exact.into_values().collect::<Vec<_>>(), [ready(4)]);
}

#[test]
fn since_takes_what_the_snapshot_does_not_see() {
    let told_twice = changed(|events| events[4].after.since = vec![(0, ready(2))]);
    is_refused(&told_twice, "have been told something else");
    let not_told = changed(|events| events[5].after.since = vec![(0, ready(1))]);
    is_refused(&not_told, "have been told something else");
}

#[test]
fn a_result_is_what_was_counted_and_came_since() {
    is_refused(&changed(|events| events[6].step = end(3, 4)), "not what was counted");
    is_refused(&changed(|events| events[6].step = end(2, 4)), "there are Some");
}

#[test]
fn it_ends_after_the_callbacks_of_what_it_saw() {
    let ahead = changed(|events| {
        let mut late = events.remove(4);
        events.truncate(4);
        late.after.since = vec![];
        events.push(event(end(2, 3), 3, &[]));
        events.push(event(Step::Set, 3, &[]));
        late.after.tasks = ready(4);
        events.push(late);
    });
    is_refused(&ahead, "a recount has seen it");
}

#[test]
fn the_counters_become_the_result_at_once() {
    is_refused(&changed(|events| drop(events.remove(7))), "become what was counted");
    is_refused(&changed(|events| events.truncate(7)), "not come to an end");
    is_refused(&changed(|events| events.swap(7, 8)), "become what was counted");
    is_refused(&changed(|events| events[7].after.tasks = ready(4)), "the counters are others");
}

#[test]
fn an_area_is_of_one_recount() {
    let again = changed(|events| events.insert(3, events[2].clone()));
    is_refused(&again, "another recount's");
    is_refused(&changed(|events| drop(events.remove(2))), "told something else");
}

/// From its beginning until a recount that has begun after the worker has found none.
#[test]
fn nothing_is_exact_beside_a_prepared_transaction() {
    let mut prepared = right();
    let flagged = |step, (is_prepared, looks, wanted)| {
        let mut event = event(step, 4, &[]);
        event.after.exact = false;
        (event.after.prepared, event.after.looks, event.after.wanted) =
            (is_prepared, looks, wanted);
        event
    };
    prepared.extend([
        flagged(Step::Mark, (true, false, false)),
        flagged(Step::Clear, (false, true, true)),
        flagged(Step::Resolve, (false, false, true)),
    ]);
    replay(&prepared).unwrap();
    for (index, why) in [(9, "exact beside"), (10, "exact beside")] {
        let mut wrong = prepared.clone();
        wrong[index].after.exact = true;
        is_refused(&wrong, why);
    }
    let mut unwanted = prepared.clone();
    unwanted[11].after.wanted = false;
    is_refused(&unwanted, "nobody will count");
    let unlooked: Vec<Event> =
        prepared.iter().filter(|event| event.step != Step::Clear).cloned().collect();
    is_refused(&unlooked, "nothing was looked for");
    // A recount that was running, and does not know that its result is not certain.
    let mut running = right();
    running.truncate(6);
    let mut marked = event(Step::Mark, 5, &[(0, 2)]);
    (marked.after.prepared, marked.after.exact) = (true, false);
    let mut ended = event(end(3, 5), 5, &[]);
    (ended.after.prepared, ended.after.exact) = (true, false);
    running.extend([marked, ended]);
    is_refused(&running, "whether the result is certain");
    // Committed with two tasks, of which no callback tells.
    let mut counted = prepared.clone();
    counted.extend([
        Event {
            after: Shown { wanted: false, exact: false, ..event(Step::Set, 4, &[(0, 0)]).after },
            ..event(begin(true), 4, &[])
        },
        Event {
            after: Shown { exact: false, ..event(Step::Set, 4, &[]).after },
            ..event(end(6, 6), 4, &[])
        },
        event(Step::Set, 6, &[]),
    ]);
    replay(&counted).unwrap();
}
