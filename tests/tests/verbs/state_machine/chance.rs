//! Chooses a session's next operation at random, so that most operations make sense.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::model::*;
use super::operation::{ByHand, Conflict, Given, Operation, Verb};

/// Maximum number of tasks.
const CROWD: usize = 24;
const TUBES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    Operation,
    Begin,
    Commit,
    RollBack,
    Savepoint,
    RollBackTo,
    Release,
    /// The connection closes, in order or by force (`Terminate`), and another one opens.
    Leave,
    Terminate,
    Discard,
}

impl Step {
    pub fn random(random: &mut StdRng, model: &Model, connection: usize) -> Step {
        let n = random.random_range(0..100);
        if model.in_transaction(connection) {
            let has_savepoint = model.savepoints(connection) > 0;
            return match n {
                0..8 => Step::Commit,
                8..13 => Step::RollBack,
                13..20 if model.savepoints(connection) < 3 => Step::Savepoint,
                20..25 if has_savepoint => Step::RollBackTo,
                25..29 if has_savepoint => Step::Release,
                29 => Step::Leave,
                30 => Step::Terminate,
                _ => Step::Operation,
            };
        }
        match n {
            0..8 => Step::Begin,
            8 => Step::Leave,
            9 => Step::Terminate,
            10 => Step::Discard,
            _ => Step::Operation,
        }
    }
}

/// Chooses operations for a session.
pub struct Chooser<'model> {
    pub random: &'model mut StdRng,
    pub model: &'model Model,
    pub connection: usize,
    pub me: Session,
    pub next_key: &'model mut Key,
}

impl Chooser<'_> {
    pub fn operation(&mut self) -> Operation {
        let is_crowded = self.model.view(self.connection).len() > CROWD;
        let n = self.random.random_range(0..100);
        if (38..64).contains(&n) && self.has_nothing() && self.is(0.7) {
            return self.take();
        }
        match n {
            0..14 if !is_crowded => self.put(),
            14..19 if !is_crowded => self.insert(),
            19..34 => self.take(),
            34..38 => self.take_named(),
            38..48 => self.step(Verb::Ack),
            48..55 => self.step(Verb::Release),
            55..60 => self.step(Verb::Bury),
            60..64 => self.step(Verb::Touch),
            64..67 => self.step(Verb::Dig),
            67..69 => Operation::Plow(self.random.random_range(0..4), self.given_back()),
            69..71 => Operation::Kick(self.random.random_range(0..4)),
            71..75 => {
                let to = self.any_of(&['R', 'W', 'B', 'Z', 'D', 'T']);
                self.step(Verb::Switch(to))
            }
            75 if self.is(0.5) => Operation::ReleaseAll,
            75 | 76 if self.is(0.4) => Operation::GiveBack,
            75..78 => self.step(Verb::Snatch),
            78..82 => self.step(Verb::Restart),
            82..84 => self.step(Verb::Delete),
            84..86 => Operation::Remove(self.key(|_| true)),
            _ => self.update(),
        }
    }

    fn has_nothing(&self) -> bool {
        let view = self.model.view(self.connection);
        !view.values().any(|task| task.status == 'T' && task.owner == Some(self.me))
    }

    fn any_of<T: Copy>(&mut self, choices: &[T]) -> T {
        *choices.choose(self.random).expect("something to choose from")
    }

    fn is(&mut self, chance: f64) -> bool {
        self.random.random_bool(chance)
    }

    /// Returns true with this chance, but rarely if the feature is off.
    fn give(&mut self, chance: f64, is_on: bool) -> bool {
        self.is(chance) && (is_on || self.is(0.05))
    }

    fn maybe(&mut self, chance: f64, is_on: bool) -> Option<i64> {
        self.give(chance, is_on).then(|| self.random.random_range(-3..4))
    }

    fn tube(&mut self, chance: f64) -> Option<&'static str> {
        let is_on = self.model.features.tube;
        self.give(chance, is_on).then(|| self.any_of(&TUBES))
    }

    /// Returns a new key, rarely an existing one.
    fn new_key(&mut self) -> Key {
        if self.is(0.04) {
            return self.key(|_| true);
        }
        *self.next_key += 1;
        *self.next_key
    }

    /// Returns mostly the key of a task with this property, sometimes of another task, rarely of a missing one.
    fn key(&mut self, is_so: impl Fn(&Task) -> bool) -> Key {
        let view = self.model.view(self.connection);
        let likely: Vec<Key> =
            view.iter().filter(|(_, task)| is_so(task)).map(|(key, _)| *key).collect();
        let all: Vec<Key> = view.into_keys().collect();
        match self.random.random_range(0..20) {
            0..17 if !likely.is_empty() => self.any_of(&likely),
            0..19 if !all.is_empty() => self.any_of(&all),
            _ => self.random.random_range(1..*self.next_key + 2),
        }
    }

    fn put(&mut self) -> Operation {
        let features = self.model.features.clone();
        let count = if self.is(0.7) { 1 } else { self.random.random_range(2..5) };
        let delay = self.give(0.25, features.delayed);
        let conflict = match self.random.random_range(0..10) {
            0 => Some(Conflict::Nothing),
            1 | 2 => Some(match !delay && self.is(0.3) {
                true => Conflict::UpdateAtOnce,
                false => Conflict::Update,
            }),
            _ => None,
        };
        let key = |chooser: &mut Self| match conflict {
            Some(_) if chooser.is(0.7) => chooser.key(|_| true),
            _ => chooser.new_key(),
        };
        let keys = (0..count).map(|_| key(self)).collect();
        let given = Given {
            conflict,
            delay,
            ttl: self.give(0.4, features.ttl.is_some()),
            ttr: self.give(0.4, features.ttr.is_some()),
            priority: self.maybe(0.6, features.priority),
            tube: self.tube(0.7),
            update: self.maybe(0.5, true),
            ..Given::default()
        };
        Operation::Put(keys, given)
    }

    fn insert(&mut self) -> Operation {
        let features = self.model.features.clone();
        let status = self.is(0.5).then(|| self.any_of(&['R', 'W', 'B', 'Z', 'D']));
        let status = status.filter(|status| features.has(*status));
        let runat = match status {
            Some('W' | 'Z') => true,
            Some('B' | 'D') => false,
            _ => features.delayed && self.is(0.3),
        };
        Operation::Insert(self.new_key(), status, runat)
    }

    fn take(&mut self) -> Operation {
        let count = if self.is(0.6) { 1 } else { self.random.random_range(2..5) };
        Operation::Take(count, self.given_to_take(0.3))
    }

    fn take_named(&mut self) -> Operation {
        let count = if self.is(0.7) { 1 } else { self.random.random_range(2..4) };
        let can_be_taken = |task: &Task| matches!(task.status, 'R' | 'W' | 'B');
        let keys = (0..count).map(|_| self.key(can_be_taken)).collect();
        Operation::TakeNamed(keys, self.given_to_take(0.1))
    }

    fn given_to_take(&mut self, tubes: f64) -> Given {
        let has_deadlines = self.model.features.ttr.is_some();
        let (tube, ttr) = (self.tube(tubes), self.give(0.3, has_deadlines));
        Given { tube, ttr, ..Given::default() }
    }

    fn given_back(&mut self) -> Given {
        let features = self.model.features.clone();
        Given {
            delay: self.give(0.3, features.delayed),
            ttl: self.give(0.3, features.ttl.is_some()),
            ..Given::default()
        }
    }

    fn step(&mut self, verb: Verb) -> Operation {
        let (me, features) = (self.me, self.model.features.clone());
        let is_likely = move |task: &Task| match verb {
            Verb::Ack | Verb::Release | Verb::Bury | Verb::Touch => {
                task.status == 'T' && task.owner == Some(me)
            }
            Verb::Dig => task.status == 'B',
            Verb::Snatch => task.status == 'T',
            Verb::Restart => matches!(task.status, 'W' | 'Z' | 'D'),
            Verb::Switch(_) => task.status != 'T',
            Verb::Delete => true,
        };
        let count = if self.is(0.8) { 1 } else { self.random.random_range(2..4) };
        let keys: Vec<Key> = (0..count).map(|_| self.key(is_likely)).collect();
        let back = self.given_back();
        let if_held = self.is(0.3);
        let given = match verb {
            Verb::Ack => Given {
                if_held,
                delay: self.give(0.5, features.zombie.is_some()),
                update: self.maybe(0.3, features.keep),
                attempt: self.attempt(&keys),
                ..Given::default()
            },
            Verb::Release => Given {
                if_held,
                update: self.maybe(0.3, true),
                unused: self.is(0.3),
                error: self.give(0.5, features.retry.is_some()),
                ..back
            },
            Verb::Bury => Given { if_held, update: self.maybe(0.3, true), delay: false, ..back },
            Verb::Dig => back,
            Verb::Switch(to) => {
                let chance = if matches!(to, 'W' | 'Z') { 0.9 } else { 0.05 };
                Given { delay: self.is(chance), ..Given::default() }
            }
            Verb::Snatch | Verb::Restart => Given { ttl: false, ..back },
            Verb::Touch => Given { if_held, ..Given::default() },
            Verb::Delete => Given::default(),
        };
        Operation::Step(verb, keys, given)
    }

    /// Returns the right attempt of the first task, or the one before it.
    fn attempt(&mut self, keys: &[Key]) -> Option<i64> {
        let is_on = self.model.features.retry.is_some();
        let view = self.model.view(self.connection);
        let attempts = view.get(keys.first()?)?.attempts;
        self.give(0.5, is_on).then(|| attempts - i64::from(self.random.random_bool(0.3)))
    }

    fn update(&mut self) -> Operation {
        let features = self.model.features.clone();
        let by_hand = match self.random.random_range(0..8) {
            0 => {
                let status = self.any_of(&['R', 'W', 'B', 'Z', 'D']);
                ByHand::Status(if features.has(status) { status } else { 'R' })
            }
            1 if features.priority => ByHand::Priority(self.random.random_range(-3..4)),
            2 if features.tube => ByHand::Tube(self.any_of(&TUBES)),
            3 | 4 if features.ttl.is_some() => ByHand::Expired,
            5..8 if features.has_runat() => return self.due(),
            _ => ByHand::Payload(self.random.random_range(10..20)),
        };
        Operation::Update(self.key(|_| true), by_hand)
    }

    /// The order of two reasons for a release is not defined. A taken task is therefore made due only outside of a
    /// transaction and while its owner lives.
    fn due(&mut self) -> Operation {
        let view = self.model.view(self.connection);
        let may_be_taken =
            self.model.features.ttr.is_some() && !self.model.in_transaction(self.connection);
        let fit = view.into_iter().filter(|(key, task)| match task.status {
            'W' | 'Z' => true,
            'T' => {
                let is_dead = task.owner.is_some_and(|owner| self.model.dead.contains(&owner));
                may_be_taken && !is_dead && !self.model.is_locked(*key, None)
            }
            _ => false,
        });
        let fit: Vec<Key> = fit.map(|(key, _)| key).collect();
        match fit.choose(self.random) {
            Some(key) => Operation::Update(*key, ByHand::Due),
            None => self.take(),
        }
    }
}
