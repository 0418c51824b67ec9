//! Every function in both forms.

/// Functions that name tasks, with their arguments after the task.
const OF_TASKS: [(&str, &str); 12] = [
    ("peek", ""),
    ("stats", ""),
    ("touch", ", increment => '1 second'"),
    ("release", ""),
    ("bury", ", update => '{\"payload\": 1}'"),
    ("dig", ""),
    ("snatch", ", delay => '1 second'"),
    ("restart", ""),
    ("ack", ""),
    ("switch", ", status => 'B'"),
    ("wait", ", timeout => '1 millisecond'"),
    ("delete", ""),
];

/// Functions of a queue, with {q} for the queue.
const OF_QUEUES: [&str; 24] = [
    "take({q})",
    "take({q}, count => 3, ttr => '1 minute')",
    "take({q}, tube => 'a')",
    "put({q}, '{\"payload\": 1}')",
    "put({q}, '[{\"tube\": \"a\"}, {\"id\": 77, \"status\": \"R\"}]', priority => 1)",
    "put({q}, '{}', delay => '1 millisecond', ttl => '1 hour', tube => 'b')",
    "put({q}, '{}', front => true, timeout => '1 millisecond')",
    "tasks_by_state({q}, 'R')",
    "tasks_by_state({q}, 'taken', 2)",
    "plow({q}, 2)",
    "kick({q}, 2)",
    "stats({q})",
    "stats_reset({q})",
    "check({q})",
    "upgrade({q}, dry_run => true)",
    "upgrade({q}, '{\"features\": {\"keep\": true}}', dry_run => true)",
    "release_all({q})",
    "give_back({q})",
    "pause({q}, '1 hour')",
    "resume({q})",
    "take({q}, id => 1)",
    "take({q}, done => 1)",
    "truncate({q})",
    "put({q}, '{}')",
];

/// Afterwards the table can be no queue any more.
const LAST: [&str; 3] = ["upgrade({q})", "downgrade({q})", "upgrade({q})"];

/// The functions that read all queues.
pub const BESIDE: [&str; 4] = [
    "SELECT xqueue.stats()",
    "SELECT xqueue.metrics()",
    "SELECT xqueue.state()",
    "SELECT xqueue_internal.database_workers()",
];

/// Returns all calls on a queue.
pub fn all(queue: &str) -> Vec<String> {
    let forms = [format!("'{queue}'"), format!("NULL::{queue}")];
    let mut calls: Vec<String> = Vec::new();
    for form in &forms {
        calls.extend(
            OF_QUEUES.map(|call| format!("SELECT * FROM xqueue.{}", call.replace("{q}", form))),
        );
    }
    for (function, more) in OF_TASKS {
        for (number, form) in forms.iter().enumerate() {
            let id = ["1", "'2'"][number];
            calls.push(format!("SELECT * FROM xqueue.{function}({form}, {id}{more})"));
        }
        calls.push(format!("SELECT xqueue.{function}('{queue}', ARRAY[1, 2]{more})"));
        calls.push(match function {
            "stats" => format!("SELECT xqueue.stats(t, 3) FROM {queue} AS t LIMIT 2"),
            _ => format!("SELECT xqueue.{function}(t{more}) FROM {queue} AS t LIMIT 2"),
        });
    }
    calls.extend([
        format!("CALL xqueue.next('{queue}', '1 millisecond')"),
        format!("CALL xqueue.next(NULL::{queue}, '1 millisecond')"),
        format!("CALL xqueue.put_wait('{queue}', '{{}}', '1 millisecond')"),
        format!("CALL xqueue.put_wait(NULL::{queue}, '{{}}', '1 millisecond')"),
        format!("SELECT xqueue.put(t) FROM {queue} AS t LIMIT 2"),
        format!("SELECT xqueue.time64('{queue}')"),
        format!("INSERT INTO {queue} DEFAULT VALUES"),
        format!("UPDATE {queue} SET payload = '2'"),
        format!("DELETE FROM {queue}"),
    ]);
    calls.extend(LAST.map(|call| format!("SELECT xqueue.{}", call.replace("{q}", &forms[0]))));
    calls
}
