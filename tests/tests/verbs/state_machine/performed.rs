//! The model's outcome of each statement.

use std::collections::BTreeMap;

use super::model::*;
use super::operation::{ByHand, Conflict, Given, Operation, Verb};

impl Model {
    /// Performs a statement and returns the tasks that it returns.
    pub fn perform(
        &mut self,
        connection: usize,
        me: Session,
        operation: &Operation,
    ) -> Result<Vec<Key>, Refusal> {
        self.statement(connection, |model| {
            let mut actor = Actor { model, connection, me };
            match operation {
                Operation::Put(keys, given) => actor.put(keys, given),
                Operation::Take(count, given) => actor.take(*count, given),
                Operation::TakeNamed(keys, given) => actor.take_named(keys, given),
                Operation::Step(verb, keys, given) => actor.step(*verb, keys, given),
                Operation::Plow(n, given) => actor.plow(*n, given),
                Operation::Kick(n) => actor.plow(*n, &Given::default()),
                Operation::ReleaseAll => Ok(actor.take_away("snatch", |_| true)),
                Operation::GiveBack => {
                    Ok(actor.take_away("give_back", |task| task.owner == Some(me)))
                }
                Operation::Insert(key, status, runat) => actor.insert(*key, *status, *runat),
                Operation::Update(key, by_hand) => actor.update(*key, *by_hand),
                Operation::Remove(key) => actor.remove(*key),
            }
        })
    }
}

/// A session at work.
struct Actor<'model> {
    model: &'model mut Model,
    connection: usize,
    me: Session,
}

impl Actor<'_> {
    fn write(&mut self, key: Key, task: Option<Task>) {
        self.model.write(self.connection, key, task);
    }

    fn find(&self, key: Key) -> Option<Task> {
        self.model.view(self.connection).remove(&key)
    }

    fn unless_locked(&self, key: Key) -> Result<(), Refusal> {
        if self.model.is_locked(key, Some(self.connection)) { Err(LOCKED) } else { Ok(()) }
    }

    fn add(&mut self, key: Key, task: Task) -> Result<(), Refusal> {
        self.unless_locked(key)?;
        if self.find(key).is_some() {
            return Err(DUPLICATE);
        }
        self.write(key, Some(task));
        self.model.count(self.connection, "put", 1);
        Ok(())
    }

    fn put(&mut self, keys: &[Key], given: &Given) -> Result<Vec<Key>, Refusal> {
        let features = &self.model.features;
        if given.delay && !features.delayed {
            return Err(FEATURE_OFF);
        }
        self.unless_lacking(given)?;
        let lives = given.ttl || features.ttl == Some(true);
        let task = Task {
            priority: given.priority.unwrap_or(0),
            tube: given.tube,
            payload: given.update,
            runat: given.delay.then_some(Time::Future),
            expires: lives.then_some(Time::Future),
            has_ttr: given.ttr,
            ..Task::new(if given.delay { 'W' } else { 'R' })
        };
        for key in keys {
            match (given.conflict, self.find(*key)) {
                (Some(conflict), Some(there)) => {
                    self.unless_locked(*key)?;
                    if conflict != Conflict::Nothing {
                        self.write(*key, Some(merged(there, &task, given)));
                    }
                }
                _ => self.add(*key, task.clone())?,
            }
        }
        Ok(keys.to_vec())
    }

    fn insert(&mut self, key: Key, status: Option<char>, runat: bool) -> Result<Vec<Key>, Refusal> {
        let features = &self.model.features;
        let status = match status.unwrap_or('R') {
            'R' if runat && features.delayed => 'W',
            status => status,
        };
        let lives = features.ttl == Some(true) && matches!(status, 'R' | 'W');
        let task = Task {
            runat: runat.then_some(Time::Future),
            expires: lives.then_some(Time::Future),
            ..Task::new(status)
        };
        self.add(key, task).map(|()| vec![])
    }

    /// Returns the tasks that are meant and not locked, in the order of takes.
    fn free(&self, is_meant: impl Fn(&Task) -> bool) -> Vec<(Key, Task)> {
        let mut free: Vec<_> = self.model.view(self.connection).into_iter().collect();
        free.retain(|(key, task)| is_meant(task) && self.unless_locked(*key).is_ok());
        if self.model.features.priority {
            free.sort_by_key(|(key, task)| (task.priority, *key));
        }
        free
    }

    /// Writes and counts the changed tasks.
    fn change(&mut self, call: &'static str, changed: Vec<(Key, Task)>) -> Vec<Key> {
        self.model.count(self.connection, call, changed.len());
        let keys = changed.iter().map(|(key, _)| *key).collect();
        changed.into_iter().for_each(|(key, task)| self.write(key, Some(task)));
        keys
    }

    fn take(&mut self, count: usize, given: &Given) -> Result<Vec<Key>, Refusal> {
        self.unless_lacking(given)?;
        let mut ready = self.free(|task| task.status == 'R' && can_be_taken(task, given));
        ready.truncate(count);
        ready.iter_mut().for_each(|(_, task)| self.give(task, given));
        Ok(self.change("take", ready))
    }

    /// Checks that the queue has the feature of each argument except a delay.
    fn unless_lacking(&self, given: &Given) -> Result<(), Refusal> {
        let features = &self.model.features;
        let lacking = [
            given.ttl && features.ttl.is_none(),
            given.ttr && features.ttr.is_none(),
            given.priority.is_some() && !features.priority,
            given.tube.is_some() && !features.tube,
            (given.attempt.is_some() || given.error) && features.retry.is_none(),
        ];
        if lacking.contains(&true) { Err(FEATURE_OFF) } else { Ok(()) }
    }

    /// Gives a task to this session.
    fn give(&self, task: &mut Task, given: &Given) {
        let features = &self.model.features;
        (task.status, task.owner) = ('T', Some(self.me));
        if let Some(default) = features.ttr {
            let has_time = given.ttr || task.has_ttr || default;
            task.runat = has_time.then_some(Time::Future);
        }
        task.attempts += i64::from(features.retry.is_some());
    }

    /// Takes tasks in the order of `keys` and skips those that cannot be taken.
    fn take_named(&mut self, keys: &[Key], given: &Given) -> Result<Vec<Key>, Refusal> {
        self.unless_lacking(given)?;
        let mut free: BTreeMap<Key, Task> = self
            .free(|task| matches!(task.status, 'R' | 'W' | 'B') && can_be_taken(task, given))
            .into_iter()
            .collect();
        let mut chosen: Vec<_> = keys.iter().filter_map(|key| free.remove_entry(key)).collect();
        for (_, task) in &mut chosen {
            (task.runat, task.has_reason) = (None, false);
            self.give(task, given);
        }
        Ok(self.change("take", chosen))
    }

    /// Makes taken tasks ready; the take does not count as an attempt.
    fn take_away(&mut self, call: &'static str, is_meant: impl Fn(&Task) -> bool) -> Vec<Key> {
        let taken = self.free(|task| task.status == 'T' && is_meant(task));
        self.return_all(call, taken, &Return { unused: true, ..Return::default() })
    }

    fn return_all(
        &mut self,
        call: &'static str,
        mut tasks: Vec<(Key, Task)>,
        back: &Return,
    ) -> Vec<Key> {
        tasks.iter_mut().for_each(|(_, task)| *task = self.model.returned(task, back));
        self.change(call, tasks)
    }

    fn plow(&mut self, n: usize, given: &Given) -> Result<Vec<Key>, Refusal> {
        self.allow(Verb::Dig, given)?;
        let mut buried = self.free(|task| task.status == 'B');
        buried.truncate(n);
        Ok(self.return_all("kick", buried, &back(given, false, false)))
    }

    fn step(&mut self, verb: Verb, keys: &[Key], given: &Given) -> Result<Vec<Key>, Refusal> {
        self.allow(verb, given)?;
        let mut settled = vec![];
        for key in keys {
            let task = self.find(*key).ok_or(NOT_FOUND);
            let task = match task.and_then(|task| self.is_fit(&task, verb, given).map(|()| task)) {
                Err(_) if given.if_held => continue,
                task => task?,
            };
            self.unless_locked(*key)?;
            let new = self.outcome(task, verb, given);
            self.write(*key, new);
            settled.push(*key);
        }
        self.model.count(self.connection, verb.call(given), settled.len());
        Ok(settled)
    }

    /// Checks a call against the features and its arguments.
    fn allow(&self, verb: Verb, given: &Given) -> Result<(), Refusal> {
        let features = &self.model.features;
        let delays = match verb {
            Verb::Ack => features.zombie.is_some(),
            Verb::Switch(to) => return self.allow_switch(to, given.delay),
            _ => features.delayed,
        };
        let lacking = [
            given.delay && !delays,
            matches!(verb, Verb::Bury | Verb::Dig) && !features.buried,
            verb == Verb::Touch && features.ttr.is_none() && features.ttl.is_none(),
            verb == Verb::Ack && given.update.is_some() && features.ack_deletes(given.delay),
        ];
        if lacking.contains(&true) { Err(FEATURE_OFF) } else { self.unless_lacking(given) }
    }

    fn allow_switch(&self, to: char, delay: bool) -> Result<(), Refusal> {
        let features = &self.model.features;
        let has_time = delay || to == 'Z' && features.zombie == Some(true);
        match to {
            'T' => Err(INVALID),
            _ if !features.has(to) => Err(FEATURE_OFF),
            'W' | 'Z' if !has_time => Err(INVALID),
            'R' | 'B' | 'D' if delay => Err(INVALID),
            _ => Ok(()),
        }
    }

    fn is_fit(&self, task: &Task, verb: Verb, given: &Given) -> Result<(), Refusal> {
        let is_taken = task.status == 'T';
        match verb {
            Verb::Ack | Verb::Release | Verb::Bury | Verb::Touch => {
                match (is_taken, task.owner == Some(self.me), given.attempt) {
                    (true, true, Some(attempt)) if attempt != task.attempts => Err(WRONG_STATE),
                    (true, true, _) => Ok(()),
                    (true, false, _) => Err(IN_USE),
                    (false, _, _) => Err(WRONG_STATE),
                }
            }
            Verb::Dig if task.status != 'B' => Err(WRONG_STATE),
            Verb::Snatch if !is_taken => Err(WRONG_STATE),
            Verb::Switch(_) if is_taken => Err(IN_USE),
            Verb::Restart if !matches!(task.status, 'W' | 'Z' | 'D') => Err(WRONG_STATE),
            _ => Ok(()),
        }
    }

    /// Returns the task after the step; None if it is deleted.
    fn outcome(&self, task: Task, verb: Verb, given: &Given) -> Option<Task> {
        let features = &self.model.features;
        let put_away = |status, runat| {
            let has_reason = task.has_reason && status == 'B';
            Task { status, owner: None, runat, has_reason, ..task.clone() }
        };
        let in_an_hour = Some(Time::Future);
        let mut new = match verb {
            Verb::Ack if features.ack_deletes(given.delay) => return None,
            Verb::Delete => return None,
            Verb::Ack if features.keep => put_away('D', None),
            Verb::Ack | Verb::Switch('Z') => put_away('Z', in_an_hour),
            Verb::Release => self.model.returned(&task, &back(given, !given.unused, false)),
            Verb::Bury => put_away('B', None),
            Verb::Touch => task.clone(),
            Verb::Snatch => {
                let unused = Return { unused: true, ..back(given, false, false) };
                self.model.returned(&task, &unused)
            }
            Verb::Dig => self.model.returned(&task, &back(given, false, false)),
            Verb::Restart | Verb::Switch('R' | 'W') => {
                self.model.returned(&task, &back(given, false, true))
            }
            Verb::Switch('B') if is_over(task.status) => {
                Task { expires: features.new_life(), ..put_away('B', None) }
            }
            Verb::Switch(status) => put_away(status, None),
        };
        if verb == Verb::Touch {
            let later = |time: Option<Time>| time.map(|_| Time::Future);
            (new.runat, new.expires) = (later(new.runat), later(new.expires));
        }
        if verb == Verb::Bury && given.ttl {
            new.expires = in_an_hour;
        }
        new.payload = given.update.or(new.payload);
        Some(new)
    }

    fn update(&mut self, key: Key, by_hand: ByHand) -> Result<Vec<Key>, Refusal> {
        let Some(mut task) = self.find(key) else { return Ok(vec![]) };
        self.unless_locked(key)?;
        match by_hand {
            // The guard refuses changes of tasks that other sessions hold.
            ByHand::Status(_) if task.owner.is_some_and(|owner| owner != self.me) => {
                return Err(IN_USE);
            }
            ByHand::Status(status) => {
                let is_timed = matches!(status, 'W' | 'Z');
                (task.status, task.owner) = (status, None);
                task.runat = is_timed.then_some(Time::Future);
            }
            ByHand::Priority(priority) => task.priority = priority,
            ByHand::Tube(tube) => task.tube = Some(tube),
            ByHand::Payload(payload) => task.payload = Some(payload),
            ByHand::Due => task.runat = Some(Time::Past),
            ByHand::Expired => task.expires = Some(Time::Past),
        }
        self.write(key, Some(task));
        Ok(vec![])
    }

    fn remove(&mut self, key: Key) -> Result<Vec<Key>, Refusal> {
        if self.find(key).is_some() {
            self.unless_locked(key)?;
            self.write(key, None);
        }
        Ok(vec![])
    }
}

fn can_be_taken(task: &Task, given: &Given) -> bool {
    (given.tube.is_none() || task.tube == given.tube) && task.expires != Some(Time::Past)
}

fn back(given: &Given, failed: bool, renews: bool) -> Return {
    let Given { delay, ttl, unused, error, .. } = *given;
    Return { delay, ttl, failed, unused, error, renews }
}

/// Returns an existing task after a put of `new` with its key.
fn merged(there: Task, new: &Task, given: &Given) -> Task {
    let at_once = given.conflict == Some(Conflict::UpdateAtOnce);
    let mut task = Task { payload: new.payload, ..there };
    if !matches!(task.status, 'R' | 'W') {
        return task;
    }
    if given.delay || at_once {
        (task.status, task.runat) = (new.status, new.runat);
    }
    if given.delay || at_once || given.ttl {
        task.expires = new.expires.or(task.expires);
    }
    task.priority = given.priority.unwrap_or(task.priority);
    task.tube = given.tube.or(task.tube);
    task.has_ttr |= given.ttr;
    task
}
