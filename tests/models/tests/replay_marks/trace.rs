//! Makes a trace of marks, event by event.

use super::*;

/// A trace, and what the slot is after it.
pub struct Trace {
    pub events: Vec<Event>,
    pub seen: Seen,
    pub left: Left,
}

/// Processes that raise marks.
pub const ONE: i32 = 1;
pub const OTHER: i32 = 2;

impl Trace {
    /// Of a slot that the worker has looked after.
    pub fn new() -> Trace {
        let forgotten = Limits::FORGOTTEN;
        let seen = Seen { ready: forgotten, buried: forgotten, prepared: true, looking: false };
        let mut trace = Trace { events: vec![], seen, left: Left::new() };
        trace.clear();
        trace.settle(false);
        trace
    }

    pub fn push(&mut self, number: u64, what: What) {
        self.events.push(Event { number, what });
    }

    pub fn step(&mut self, verb: Verb, change: impl FnOnce(&mut Seen)) {
        let before = self.seen;
        change(&mut self.seen);
        let number = 1000 + self.events.len() as u64;
        self.push(
            number,
            What::Step(Box::new(Step { slot: SLOT, before, after: self.seen, verb })),
        );
    }

    pub fn clear(&mut self) {
        self.step(Verb::Clear, |seen| (seen.prepared, seen.looking) = (false, true));
    }

    pub fn settle(&mut self, found: bool) {
        self.step(Verb::Settle { found }, |seen| {
            seen.looking = false;
        });
        if found && !self.seen.prepared {
            self.forbid();
        }
    }

    pub fn forbid(&mut self) {
        self.step(Verb::Forbid, |seen| {
            let forgotten = Limits::FORGOTTEN;
            *seen = Seen { ready: forgotten, buried: forgotten, prepared: true, ..*seen };
        });
    }

    pub fn mark_prepared(&mut self, commit: u64) {
        self.step(Verb::Prepare { commit }, |seen| {
            let forgotten = Limits::FORGOTTEN;
            *seen = Seen { ready: forgotten, buried: forgotten, prepared: true, ..*seen };
        });
    }

    pub fn start(&mut self, by: i32, since: i64) {
        let verb = Verb::Start { group: Group::Ready, since, by };
        self.step(verb, |seen| (seen.ready.floor, seen.ready.since) = (LAST, since));
    }

    /// Ends what began `since`, with the mark where it comes to be by the rules if it is that of the raise.
    pub fn end(&mut self, by: i32, since: i64, found: impl Into<Option<Position>>) {
        let found = found.into();
        let verb = Verb::End { group: Group::Ready, since, by, found };
        self.step(verb, |seen| {
            if seen.ready.since == since {
                seen.ready.since = 0;
                seen.ready.at = found.map_or(seen.ready.at, |found| found.min(seen.ready.floor));
            }
        });
    }

    pub fn change(&mut self, by: u64, task: &str, from: Option<Status>, to: Option<Status>) {
        let change = change(task, from, to);
        self.push(by, What::Changed(change));
        let key = (SLOT, task.to_owned());
        match to {
            Some(to) => self.left.insert(key, to),
            None => self.left.remove(&key),
        };
    }

    /// A commit that makes tasks ready, by their keys, up to its callback.
    pub fn put_untold(&mut self, by: u64, tasks: &[Position]) {
        tasks.iter().for_each(|task| self.change(by, &task.to_string(), None, Some(Status::Ready)));
    }

    pub fn lower(&mut self, commit: u64, to: Position) {
        let verb = Verb::Lower { commit, ready: Some(to), buried: None, forgets: false };
        self.step(verb, |seen| {
            let ready = &mut seen.ready;
            (ready.at, ready.floor) = (ready.at.min(to), ready.floor.min(to));
        });
    }

    pub fn put(&mut self, by: u64, task: Position) {
        self.put_untold(by, &[task]);
        self.lower(by, task);
    }

    pub fn take(&mut self, by: u64, task: Position) {
        self.change(by, &task.to_string(), Some(Status::Ready), Some(Status::Taken));
    }

    pub fn prepare(&mut self, by: u64, task: Position) {
        let change = change(&task.to_string(), None, Some(Status::Ready));
        self.push(by, What::Prepared(change));
        self.mark_prepared(by);
        self.mark_prepared(by);
    }

    pub fn why(&self) -> Option<String> {
        let events: Vec<&Event> = self.events.iter().collect();
        run(&events, &self.left).err().map(|why| why.to_string())
    }

    #[track_caller]
    pub fn is_replayed(&self) {
        assert_eq!(self.why(), None);
    }

    #[track_caller]
    pub fn is_refused(&self, why: &str) {
        let refused = self.why().unwrap_or_else(|| panic!("what should be refused: {why}"));
        assert!(refused.starts_with(why), "{refused}");
    }
}

pub fn change(task: &str, from: Option<Status>, to: Option<Status>) -> Change {
    let noted = match to {
        Some(Status::Ready) => Some(Noted::Ready),
        Some(Status::Buried) => Some(Noted::Buried),
        _ => None,
    };
    let stand = noted.map(|noted| Stand(noted, task.parse().unwrap()));
    Change { slot: SLOT, queue: "q".into(), task: task.into(), from, to, stand }
}

pub fn made(make: impl FnOnce(&mut Trace)) -> Trace {
    let mut trace = Trace::new();
    make(&mut trace);
    trace
}
