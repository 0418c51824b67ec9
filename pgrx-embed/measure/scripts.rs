//! The contenders of the throughput measurement: their tables and pgbench scripts.

/// The table of the hand-written SQL has what such SQL needs: a key, a status with a partial index,
/// and who holds the task.
pub const TABLES: &str = "
    SELECT xqueue.create('measure.queue', if_not_exists => true);
    CREATE TABLE IF NOT EXISTS measure.hand (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                               payload jsonb, status \"char\" NOT NULL DEFAULT 'R', owner int);
    CREATE INDEX IF NOT EXISTS ready_idx ON measure.hand (id) WHERE status = 'R';";

#[derive(Clone, Copy, PartialEq)]
pub enum Contender {
    Hand,
    /// xqueue.take(NULL::measure.queue)
    Rows,
    /// xqueue.take('measure.queue')
    Json,
    /// CALL xqueue.next(): acks the task before and takes the next one, in one call and commit.
    Next,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Work {
    Lifecycle,
    Put,
    Take,
    Ack,
}

/// An ack alone needs tasks that its session holds: each session gets them, so many at a time.
/// What that takes is not counted.
const HOLD_AT_ONCE: u32 = 1000;

const FIRST: &str = "CALL xqueue.next('measure.queue', '0')";
const NEXT: &str = "CALL xqueue.next('measure.queue', '0', task => :task)";

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Contender::Hand => "hand-written",
            Contender::Rows => "xqueue, rows",
            Contender::Json => "xqueue, jsonb",
            Contender::Next => "xqueue, put + next",
        }
    }

    pub fn table(self) -> &'static str {
        match self {
            Contender::Hand => "measure.hand",
            _ => "measure.queue",
        }
    }

    pub fn script(self, work: Work) -> String {
        let (put, take) = (self.put(), self.take());
        match work {
            Work::Lifecycle if self == Contender::Next => format!(
                "{put};\n\\if :next = 0\n{FIRST} \\gset\n\\set next 1\n\\else\n{NEXT} \\gset\n\\endif\n"
            ),
            Work::Lifecycle => format!("{put};\n{take} \\gset\n{} \\gset\n", self.ack()),
            Work::Put => format!("{put};\n"),
            Work::Take => format!("{take} \\gset\n"),
            Work::Ack => format!(
                "\\set from :client_id * :span + :next\n\
                 \\set upto :from + {HOLD_AT_ONCE}\n\
                 \\if :next % {HOLD_AT_ONCE} = 0\n\
                 UPDATE {} SET status = 'T', owner = {} WHERE id > :from AND id <= :upto;\n\
                 \\endif\n\
                 \\set next :next + 1\n\
                 \\set id :from + 1\n\
                 {} \\gset\n",
                self.table(),
                self.me(),
                self.ack()
            ),
        }
    }

    fn me(self) -> &'static str {
        match self {
            Contender::Hand => "pg_backend_pid()",
            _ => "xqueue.identify()",
        }
    }

    fn put(self) -> &'static str {
        match self {
            Contender::Hand => {
                "INSERT INTO measure.hand (payload) VALUES ('{\"n\": 1}') RETURNING id, payload"
            }
            Contender::Rows => {
                "SELECT id, payload \
                 FROM xqueue.put(NULL::measure.queue, '{\"payload\": {\"n\": 1}}')"
            }
            Contender::Json | Contender::Next => {
                "SELECT task->>'id' AS id, task->'payload' AS payload \
                 FROM xqueue.put('measure.queue', '{\"payload\": {\"n\": 1}}') task"
            }
        }
    }

    fn take(self) -> &'static str {
        match self {
            Contender::Hand => {
                "UPDATE measure.hand SET status = 'T', owner = pg_backend_pid() \
                 WHERE id = (SELECT id FROM measure.hand WHERE status = 'R' ORDER BY id \
                 FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id, payload"
            }
            Contender::Rows => "SELECT id, payload FROM xqueue.take(NULL::measure.queue)",
            Contender::Json | Contender::Next => {
                "SELECT task->>'id' AS id, task->'payload' AS payload \
                 FROM xqueue.take('measure.queue') task"
            }
        }
    }

    /// Part of the text tells it from the other statements: see `ACK_MARK`.
    fn ack(self) -> &'static str {
        match self {
            Contender::Hand => "DELETE FROM measure.hand WHERE id = :id RETURNING id AS acked",
            Contender::Rows => {
                "SELECT id AS acked FROM xqueue.ack(NULL::measure.queue, :id::bigint)"
            }
            Contender::Json | Contender::Next => {
                "SELECT task->>'id' AS acked FROM xqueue.ack('measure.queue', :id::bigint) task"
            }
        }
    }
}

pub const ACK_MARK: &str = "AS acked";
