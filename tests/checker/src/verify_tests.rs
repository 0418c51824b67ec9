//! The verifier is able to fail: it finds each broken promise in hand-made logs, and nothing else.

use super::*;
use crate::event::{Event, Item, Kind};
use crate::queues::QUEUES;

fn queue(name: &str) -> usize {
    QUEUES.iter().position(|q| q.name == name).expect("a queue of the checker")
}

struct Case {
    history: History,
    remains: Remains,
    queue: usize,
}

impl Case {
    fn on(name: &str) -> Case {
        let remains = Remains { at: 1_000_000, ..Remains::default() };
        Case { history: History::default(), remains, queue: queue(name) }
    }

    fn event(mut self, client: u32, kind: Kind, begin: u64, end: u64, items: &[Item]) -> Case {
        let event = Event { kind, queue: self.queue, begin, end, items: items.to_vec() };
        // The parsed event equals the written one.
        let read = Event::parse(&event.line()).expect("a whole line");
        self.history.add(client, &read);
        self
    }

    fn put(self, client: u32, at: u64, task: Item) -> Case {
        self.event(client, Kind::WillPut, at, at, &[task]).event(
            client,
            Kind::Put,
            at,
            at + 1,
            &[task],
        )
    }

    fn take(self, client: u32, at: u64, task: Item) -> Case {
        self.event(client, Kind::Took, at, at + 1, &[task])
    }

    fn ack(self, client: u32, at: u64, task: Item) -> Case {
        self.event(client, Kind::WillAck, at, at, &[task]).event(
            client,
            Kind::Acked,
            at,
            at + 1,
            &[task],
        )
    }

    fn row(mut self, task: Item, state: char) -> Case {
        self.remains.rows.entry(task.token).or_default().push(state);
        self
    }

    fn effects(mut self, task: Item, count: u32) -> Case {
        self.remains.effects.insert(task.token, count);
        self
    }

    fn found(&self) -> Vec<&'static str> {
        let mut kinds: Vec<_> =
            violations(&self.history, &self.remains, &QUEUES).iter().map(|v| v.kind).collect();
        kinds.sort_unstable();
        kinds
    }
}

fn task(key: i64) -> Item {
    Item { token: (9 << 32) + key as u64, key, tube: 1, dies: 0 }
}

#[test]
fn work_as_it_should_be_has_no_violation() {
    let (a, b, c) = (task(1), task(2), task(3));
    let case = Case::on("plain").put(1, 10, a).put(1, 20, b).put(2, 25, c);
    let case =
        case.take(2, 30, a).event(2, Kind::GaveBack, 40, 41, &[a]).take(1, 45, a).ack(1, 50, a);
    assert_eq!(case.take(2, 50, b).row(b, 'R').row(c, 'B').found(), [""; 0]);
}

#[test]
fn a_lost_task() {
    let case = Case::on("plain").put(1, 10, task(1));
    assert_eq!(case.found(), ["lost"]);
    // A task that was taken and released can also be lost.
    let case = case.take(2, 20, task(1)).event(2, Kind::GaveBack, 30, 31, &[task(1)]);
    assert_eq!(case.found(), ["lost"]);
    // An ack that the server has refused does not count.
    let case = case.take(2, 40, task(1)).event(2, Kind::WillAck, 50, 50, &[task(1)]);
    assert_eq!(case.found(), [""; 0], "the ack may have been done");
    assert_eq!(case.event(2, Kind::AckRefused, 50, 51, &[task(1)]).found(), ["lost"]);
}

#[test]
fn only_the_end_of_its_life_explains_that_a_task_is_gone() {
    let mortal = Item { dies: 500, ..task(1) };
    assert_eq!(Case::on("timed").put(1, 10, mortal).found(), [""; 0]);
    let lives = Item { dies: 2_000_000, ..task(1) };
    assert_eq!(Case::on("timed").put(1, 10, lives).found(), ["lost"]);
}

#[test]
fn puts_that_were_not_acknowledged() {
    let case = Case::on("plain").event(1, Kind::WillPut, 10, 10, &[task(1)]);
    assert_eq!(case.found(), [""; 0]);
    let case = case.row(task(1), 'R');
    assert_eq!(case.found(), [""; 0], "it may have been done");
    let case = case.event(1, Kind::PutRefused, 10, 11, &[task(1)]);
    assert_eq!(case.found(), ["a refused put is there"]);
    let case = Case::on("plain").event(1, Kind::WillPut, 10, 10, &[task(1)]);
    let case = case.event(1, Kind::PutRefused, 10, 11, &[task(1)]).take(2, 20, task(1));
    assert_eq!(case.found(), ["a refused put was taken"]);
}

#[test]
fn a_task_from_nowhere() {
    let kind = ["a task that was never put"];
    assert_eq!(Case::on("plain").row(task(1), 'R').found(), kind);
    assert_eq!(Case::on("plain").take(1, 10, task(1)).found(), kind);
}

#[test]
fn a_doubled_task() {
    let case = Case::on("plain").put(1, 10, task(1)).row(task(1), 'R').row(task(1), 'R');
    assert_eq!(case.found(), ["doubled"]);
}

#[test]
fn a_doubled_ack() {
    let case = Case::on("plain").put(1, 10, task(1)).take(2, 20, task(1)).ack(2, 30, task(1));
    let case = case.take(3, 25, task(1)).ack(3, 40, task(1));
    // The second lease was live at the same time.
    assert_eq!(case.found(), ["acked twice", "two leases of one task"]);
}

#[test]
fn an_acked_task_that_lives_on() {
    let case = Case::on("plain").put(1, 10, task(1)).take(2, 20, task(1)).ack(2, 30, task(1));
    assert_eq!(case.found(), [""; 0]);
    let case = case.take(3, 40, task(1));
    assert_eq!(case.found(), ["taken after its ack"]);
    let case = Case::on("plain").put(1, 10, task(1)).take(2, 20, task(1)).ack(2, 30, task(1));
    assert_eq!(case.row(task(1), 'W').found(), ["acked, but still there"]);
}

#[test]
fn a_done_task_without_an_ack() {
    let case = Case::on("kept").put(1, 10, task(1)).row(task(1), 'D');
    assert_eq!(case.found(), ["done without an ack"]);
}

#[test]
fn a_task_left_taken() {
    let case = Case::on("plain").put(1, 10, task(1)).take(2, 20, task(1)).row(task(1), 'T');
    assert_eq!(case.found(), ["taken by a session that is gone"]);
}

#[test]
fn an_ack_without_a_lease() {
    let case = Case::on("plain").put(1, 10, task(1));
    assert_eq!(case.ack(2, 30, task(1)).found(), ["settled without a lease"]);
    // A lease of an earlier connection does not count.
    let case = Case::on("plain").put(1, 10, task(1)).take(2, 20, task(1));
    let case = case.event(2, Kind::Connected, 25, 25, &[]);
    assert_eq!(case.ack(2, 30, task(1)).found(), ["settled without a lease"]);
}

#[test]
fn two_live_leases() {
    // Both were held at instant 35.
    let case = Case::on("plain").put(1, 10, task(1)).take(2, 20, task(1)).take(3, 30, task(1));
    let case = case.event(2, Kind::GaveBack, 40, 41, &[task(1)]).ack(3, 50, task(1));
    assert_eq!(case.found(), ["two leases of one task"]);
    // The end of the second lease is unknown, but it began while the first was held.
    let case = Case::on("plain").put(1, 10, task(1)).take(2, 20, task(1)).take(3, 30, task(1));
    assert_eq!(case.ack(2, 40, task(1)).found(), ["two leases of one task"]);
    // No violation: the first lease can have ended before the second began.
    let case = Case::on("plain").put(1, 10, task(1)).take(2, 20, task(1)).take(3, 30, task(1));
    assert_eq!(case.ack(3, 40, task(1)).found(), [""; 0]);
}

#[test]
fn two_tasks_of_a_subqueue() {
    let work = |name: &str, other: Item| {
        let case = Case::on(name).put(1, 10, task(1)).put(1, 12, other);
        let case =
            case.take(2, 20, task(1)).take(3, 30, other).ack(2, 40, task(1)).ack(3, 50, other);
        case.found()
    };
    assert_eq!(work("subqueues", task(2)), ["two tasks of one sub-queue in flight"]);
    assert_eq!(work("subqueues", Item { tube: 2, ..task(2) }), [""; 0]);
    assert_eq!(work("plain", task(2)), [""; 0]);
}

#[test]
fn wrong_order() {
    let work = |name: &str| {
        let case = Case::on(name).put(1, 10, task(1)).put(1, 20, task(2));
        case.take(2, 30, task(2))
            .take(2, 40, task(1))
            .ack(2, 50, task(2))
            .ack(2, 60, task(1))
            .found()
    };
    assert_eq!(work("ordered"), ["out of order"]);
    assert_eq!(work("plain"), [""; 0], "several consumers may pass over locked rows");
    // No violation: the put ended, or could have ended, after the take began.
    let case = Case::on("ordered").put(1, 29, task(1)).put(1, 20, task(2));
    let case = case.take(2, 30, task(2)).take(2, 40, task(1)).row(task(2), 'R').row(task(1), 'R');
    assert_eq!(case.found(), [""; 0]);
    // No violation if the task can have been taken and acked already.
    let case = Case::on("ordered").put(1, 10, task(1)).put(1, 20, task(2));
    let case = case.event(2, Kind::WillAck, 25, 25, &[task(1)]).take(2, 30, task(2));
    assert_eq!(case.row(task(2), 'R').found(), [""; 0]);
    // No violation if the task had been taken before and was released.
    let case = Case::on("ordered").put(1, 10, task(1)).put(1, 20, task(2)).take(2, 22, task(1));
    let case = case.event(2, Kind::GaveBack, 24, 25, &[task(1)]).take(2, 30, task(2));
    assert_eq!(case.row(task(2), 'R').row(task(1), 'R').found(), [""; 0]);
}

#[test]
fn an_ack_and_its_effect_are_one() {
    let work = || Case::on("noted").put(1, 10, task(1)).take(2, 20, task(1)).ack(2, 30, task(1));
    assert_eq!(work().effects(task(1), 1).found(), [""; 0]);
    assert_eq!(work().found(), ["an ack without its effect"]);
    assert_eq!(work().effects(task(1), 2).found(), ["an effect twice"]);
    let case = Case::on("noted").put(1, 10, task(1)).row(task(1), 'R').effects(task(1), 1);
    assert_eq!(case.found(), ["an effect without its ack"]);
}
