//! A session that sends random statements.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use postgres::{Client, Config, NoTls};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::arguments::one_of;
use crate::statements::{Material, step};

/// Roles of sessions: a superuser, an owner of queues, a consumer, a role that only reads, and another one.
const ROLES: [&str; 5] = ["fuzz_super", "fuzz_owner", "fuzz_consumer", "fuzz_reader", "fuzz_other"];
/// Steps until the session is reset, so that earlier statements do not make all later ones fail.
const STEPS: u32 = 40;
/// Number of statements that are shown after a crash of the server.
const REMEMBERED: usize = 60;
/// Number of sessions without a final server message whose statements are kept.
const KEPT: usize = 3;

/// The outcome of the statements of one or more walkers.
#[derive(Default)]
pub struct Tally {
    pub statements: u64,
    /// The last statements of sessions that ended without a message from the server.
    pub broken: Vec<Vec<String>>,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.statements += other.statements;
        self.broken.extend(other.broken);
    }
}

pub struct Walker<'a> {
    pub config: &'a Config,
    pub material: &'a Material,
    pub number: usize,
    pub seed: u64,
}

impl Walker<'_> {
    /// Sends statements until `is_open` is false.
    pub fn walk(&self, is_open: &AtomicBool) -> Tally {
        let mut random = StdRng::seed_from_u64(self.seed.wrapping_add(self.number as u64));
        let mut tally = Tally::default();
        while is_open.load(Ordering::Relaxed) {
            // The first three usually have different privileges.
            let role = match self.number {
                number @ 0..3 if random.random_bool(0.7) => ROLES[number],
                _ => ROLES.choose(&mut random).copied().unwrap_or(ROLES[0]),
            };
            match self.config.clone().user(role).connect(NoTls) {
                Ok(client) => self.session(client, &mut random, &mut tally, is_open),
                // The server recovers from a crash, which its log reports.
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(100)),
            }
        }
        tally
    }

    fn session(
        &self,
        mut client: Client,
        random: &mut StdRng,
        tally: &mut Tally,
        is_open: &AtomicBool,
    ) {
        let mut last = VecDeque::with_capacity(REMEMBERED);
        for _ in 0..random.random_range(1..8) {
            for _ in 0..STEPS {
                for sql in step(self.material, self.number, random) {
                    if !is_open.load(Ordering::Relaxed) {
                        return;
                    }
                    if last.len() == REMEMBERED {
                        last.pop_front();
                    }
                    last.push_back(sql);
                    let sql = last.back().map_or("", String::as_str);
                    match send(&mut client, sql, random, tally) {
                        Session::Lives => {}
                        Session::WasEnded => return,
                        Session::Broke => {
                            if tally.broken.len() < KEPT {
                                tally.broken.push(last.into());
                            }
                            return;
                        }
                    }
                }
            }
            // Resets the session; commands that fail here take effect when the connection ends.
            drop(client.batch_execute("ROLLBACK"));
            drop(client.batch_execute("RESET SESSION AUTHORIZATION"));
            drop(client.batch_execute("DISCARD ALL"));
        }
    }
}

enum Session {
    Lives,
    /// The server reported the end.
    WasEnded,
    /// The session ended without a message.
    Broke,
}

/// Sends a statement in the simple or in the extended protocol.
fn send(client: &mut Client, sql: &str, random: &mut StdRng, tally: &mut Tally) -> Session {
    tally.statements += 1;
    let outcome = if random.random_bool(0.25) {
        client.query(sql, &[]).map(|_| ())
    } else {
        client.simple_query(sql).map(|_| ())
    };
    let Err(error) = outcome else { return Session::Lives };
    let Some(known) = error.as_db_error() else {
        return if client.is_closed() { Session::Broke } else { Session::Lives };
    };
    let state = known.code().code();
    if state.starts_with("57P") || client.is_closed() {
        return Session::WasEnded;
    }
    if state == "25P02" && random.random_bool(0.8) {
        // If this fails, the next statement fails as well.
        drop(client.batch_execute(&one_of("ROLLBACK|ROLLBACK TO s0", random)));
    }
    Session::Lives
}
