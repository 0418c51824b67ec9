//! A server under the acts of a hostile owner, with a check that all other queues go on.

use super::acts::Act;
use super::calls;
use xqueue_tests::*;

const SHAPES: [&str; 3] = [
    r#"{"delayed": true, "buried": true, "zombie": true, "ttl": 3600, "ttr": 600, "priority": true, "tube": true, "retry": {"limit": 3}}"#,
    r#"{"delayed": true, "buried": true, "ttl": true, "ttr": true, "priority": true, "utube": true, "capacity": 50, "retry": {"limit": 3}}"#,
    r#"{"delayed": true, "buried": true, "keep": true, "ttl": true, "ttr": true, "priority": true, "tube": true, "retry": {"limit": 3}}"#,
];

pub struct Victim {
    /// A connection of the hostile owner that has used the queues before.
    owner: Client,
    /// Another session of this owner.
    other: Client,
    admin: Client,
    /// A connection that a restart of the server would end.
    canary: Client,
    started: String,
    /// A queue of another owner.
    healthy: Queue,
    /// Queries of the views, and of the functions that read all queues.
    beside: Vec<String>,
    number: usize,
    // Dropped in this order.
    database: Database,
    role: Role,
}

impl Victim {
    pub fn new() -> Victim {
        let role = Role::create();
        let mut database = Database::new("hostile");
        let name = database.name.clone();
        database.sql(&format!("ALTER DATABASE {name} SET synchronous_commit = off"));
        let (mut admin, mut canary) = (database.client(), database.client());
        admin.run("CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler");
        let started = scalar(&mut canary, STARTED, &[]);
        let (owner, other) = (database.client_as(&role.name), database.client_as(&role.name));
        let healthy = Queue::new_in(&database.name, "healthy");
        let mut beside = every_function::views(&mut admin);
        beside.extend(calls::BESIDE.map(str::to_owned));
        Victim { owner, other, admin, canary, started, healthy, beside, number: 0, database, role }
    }

    fn calls(&self, queue: &str) -> Vec<String> {
        [self.beside.clone(), calls::all(queue)].concat()
    }

    /// Does an act to a queue, makes all calls, and checks that all other queues are served. Returns false if
    /// PostgreSQL refuses the act.
    pub fn endure(&mut self, act: &Act, complaints: &mut Vec<String>) -> bool {
        let queue = unique("hostile");
        self.number += 1;
        self.make(&queue);
        if act.strips {
            self.strip(&queue, act.strips_key);
        }
        let sql = act.sql.replace("{q}", &queue);
        let mut complain = |call: &str, error: &postgres::Error| {
            let said = match error.as_db_error() {
                Some(said) if !said.code().code().starts_with("XX") => return,
                Some(said) => format!("{} {}", said.code().code(), said.message()),
                None => format!("the connection broke: {error}"),
            };
            complaints.push(format!("{sql}\n    {call}\n        {said}"));
        };
        // In its own transaction, with everything that the session has cached.
        let begin = "SET statement_timeout = '500ms'; BEGIN";
        self.owner.run(begin);
        let mut done = self.owner.batch_execute(&sql);
        if done.is_ok() && self.number.is_multiple_of(3) {
            for call in self.calls(&queue).into_iter().skip(self.number / 3 % 9).step_by(9) {
                let tried = self.owner.batch_execute(&format!("SAVEPOINT s; {call}"));
                if let Err(error) = &tried {
                    complain(&call, error);
                    assert!(!self.owner.is_closed(), "{sql}: {call}");
                }
                self.owner.run("ROLLBACK TO s");
            }
        }
        self.owner.run("ROLLBACK");
        if done.is_ok() {
            done = self.owner.batch_execute(&sql);
        }
        if let Err(error) = &done {
            complain("", error);
        } else {
            self.stay_well(&sql);
            self.beside.iter().for_each(|look| self.admin.run(look));
            // Makes a third of the calls now, and the others after the next two acts.
            let is_tried = |number: usize| (number + self.number).is_multiple_of(3);
            let calls = self.calls(&queue).into_iter().enumerate();
            for (number, call) in calls.filter(|(number, _)| is_tried(*number)) {
                let limit = if call.contains(".check(") { "50ms" } else { "500ms" };
                let client = if number % 4 == 3 { &mut self.other } else { &mut self.owner };
                let limit = format!("SET statement_timeout = '{limit}'");
                // A procedure that commits cannot share a query string with other statements.
                client.run(&limit);
                if let Err(error) = &client.batch_execute(&call) {
                    complain(&call, error);
                    assert!(!client.is_closed(), "{sql}: {call}");
                }
            }
            self.stay_well(&sql);
        }
        self.unmake(&queue);
        done.is_ok()
    }

    /// Creates a queue of the hostile owner with tasks in several states. Both of the owner's sessions have used it.
    fn make(&mut self, queue: &str) {
        let shape = SHAPES[self.number % SHAPES.len()];
        let sql = format!(
            "CREATE TABLE {queue} (id bigserial PRIMARY KEY, payload jsonb);
             CREATE DOMAIN {queue}_domain AS text CHECK (VALUE <> 'y');
             CREATE TYPE {queue}_row AS (a int, b text);
             CREATE FUNCTION {queue}_loud(bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
               RAISE 'loud %', $1 USING ERRCODE = 'P0001'; END $$;
             CREATE FUNCTION {queue}_quiet(bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 > 0';
             CREATE FUNCTION {queue}_null() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE FUNCTION {queue}_other() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               NEW.owner = '00000000-0000-0001-7fff-ffffffffffff'; NEW.tube = 'z'; NEW.id = NEW.id + 1000; RETURN NEW; END $$;
             CREATE FUNCTION {queue}_alter() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               BEGIN ALTER TABLE public.{queue} ALTER owner TYPE bigint USING 140737488355328;
               EXCEPTION WHEN OTHERS THEN NULL; END;
               DELETE FROM public.{queue}; INSERT INTO public.{queue} (status) VALUES ('R'); RETURN NULL; END $$;
             SELECT xqueue.upgrade('{queue}', '{{\"features\": {shape}}}');
             INSERT INTO {queue} (tube, runat, status) VALUES ('a', NULL, 'R'), ('b', NULL, 'R'), ('c', NULL, 'R'), ('d', NULL, 'R'),
               ('a', now() + interval '1 hour', 'W'), ('e', NULL, 'B');
             SELECT xqueue.take('{queue}')"
        );
        self.lift_limits();
        self.owner.run(&sql);
        // This session ends, so the worker has to find its tasks.
        let mut leaves = self.database.client_as(&self.role.name);
        for client in [&mut self.other, &mut leaves] {
            client.run(&format!("SELECT xqueue.take('{queue}')"));
        }
    }

    /// Replaces the short time limits of earlier calls before the next queue is prepared.
    fn lift_limits(&mut self) {
        for client in [&mut self.owner, &mut self.other] {
            client.run("SET statement_timeout = '60s'");
        }
    }

    fn strip(&mut self, queue: &str, with_key: bool) {
        let drop_key = format!("ALTER TABLE {queue} DROP CONSTRAINT {queue}_pkey;");
        let key = if with_key { &drop_key } else { "" };
        let sql = format!(
            "DO $$ DECLARE x text; BEGIN
               FOR x IN SELECT tgname FROM pg_trigger WHERE tgrelid = '{queue}'::regclass AND NOT tgisinternal
               LOOP EXECUTE format('DROP TRIGGER %I ON {queue}', x); END LOOP;
               FOR x IN SELECT indexrelid::regclass FROM pg_index WHERE indrelid = '{queue}'::regclass AND NOT indisprimary
               LOOP EXECUTE format('DROP INDEX %s', x); END LOOP;
               {key}
             END $$;
             INSERT INTO {queue} (status, runat) VALUES ('W', '-infinity'), ('T', '-infinity')"
        );
        // VACUUM clears relhastriggers and relhasindex.
        self.lift_limits();
        for sql in [sql, format!("VACUUM {queue}")] {
            self.owner.run(&sql);
        }
    }

    /// Asserts that the server has not restarted and that the worker serves another queue.
    #[track_caller]
    fn stay_well(&mut self, act: &str) {
        let started = self.canary.query_one(STARTED, &[]);
        let started: String = started.unwrap_or_else(|error| panic!("{act}: {error:?}")).get(0);
        assert_eq!(started, self.started, "{act}");
        self.healthy.sql("SELECT xqueue.put('{q}', '{}', '1 millisecond')");
        self.healthy.wait_for("waiting", 0);
    }

    /// Drops all objects of the owner, who keeps the right to make others.
    fn unmake(&mut self, queue: &str) {
        let sql = format!(
            "SET lock_timeout = '10s'; DROP OWNED BY {0} CASCADE; GRANT CREATE ON SCHEMA public TO {0}",
            self.role.name
        );
        self.admin.batch_execute(&sql).unwrap_or_else(|error| panic!("{queue}: {sql}: {error:?}"));
    }
}

const STARTED: &str = "SELECT pg_postmaster_start_time()::text";
