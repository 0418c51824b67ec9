//! The sections of the page. Each is one bounded statement that returns one JSON value.
//!
//! The statements read the views of docs/reference/views.md, and count no rows of a table. Lists are limited to 20 rows
//! on the page of all queues, and to 50 on the page of one queue.

use std::time::Duration;

use crate::query::Query;
use crate::sort;

const QUEUES_PER_PAGE: u32 = 50;

/// Minimum time between two reads of a section, across all windows of a viewer.
const SECOND: Duration = Duration::from_millis(900);

/// One section of a response.
pub struct Section {
    pub name: &'static str,
    pub statement: String,
    pub parameters: Vec<String>,
    pub at_most_every: Duration,
}

/// Returns the sections of the requested page: with `queue` that of one queue, otherwise that of all queues.
pub fn sections(query: &Query) -> Vec<Section> {
    let queue = query.get("queue");
    let section = |name, statement: &str, parameters: &[&str]| Section {
        name,
        statement: statement.into(),
        parameters: parameters.iter().map(ToString::to_string).collect(),
        at_most_every: SECOND,
    };
    let mut sections = vec![section("server", SERVER, &[])];
    if queue.is_empty() {
        let offset = query.number("page").saturating_mul(QUEUES_PER_PAGE).to_string();
        let statement = queues(&sort::order_by(query.get("sort")));
        sections.push(section("queues", &statement, &[query.get("filter"), &offset]));
    } else {
        sections.push(section("queue", QUEUE, &[queue]));
        sections.push(Section {
            at_most_every: Duration::from_secs(5),
            ..section("latency", LATENCY, &[queue])
        });
        sections.push(section("buried", BURIED, &[queue]));
    }
    sections.push(section("in_flight", IN_FLIGHT, &[queue]));
    sections.push(section("consumers", CONSUMERS, &[queue]));
    sections.push(section("producers", PRODUCERS, &[queue]));
    sections
}

const SERVER: &str = "
SELECT json_build_object(
    'database', current_database(), 'role', current_user, 'version', current_setting('server_version'),
    'standby', pg_is_in_recovery(), 'worker', xqueue.state(),
    'error', (SELECT w.error FROM xqueue.workers w WHERE w.database = current_database()),
    'now', extract(epoch FROM clock_timestamp()))::text";

/// Returns the statement. $1: part of a name; $2: number of queues before this page.
fn queues(order_by: &str) -> String {
    format!(
        "
WITH queues AS MATERIALIZED (
    SELECT q.queue::text AS name, q.ready, q.taken, q.waiting, q.buried, extract(epoch FROM q.oldest_ready) AS oldest,
           q.in_1m, q.out_1m, q.consumers, q.error,
           s->>'paused_until' AS paused_until, s->'transitions' AS transitions
    FROM xqueue.queues q LEFT JOIN xqueue.stats() AS s ON (s->>'relation')::oid = q.queue
), matching AS (
    SELECT * FROM queues WHERE strpos(lower(name), lower($1)) > 0
)
SELECT json_build_object(
    'total', (SELECT json_build_object(
        'queues', count(*), 'ready', coalesce(sum(ready), 0), 'taken', coalesce(sum(taken), 0),
        'waiting', coalesce(sum(waiting), 0), 'buried', coalesce(sum(buried), 0), 'in_1m', coalesce(sum(in_1m), 0),
        'out_1m', coalesce(sum(out_1m), 0), 'consumers', coalesce(sum(consumers), 0),
        'errors', count(error), 'paused', count(paused_until)) FROM queues),
    'transitions', (SELECT coalesce(json_object_agg(name, tasks), '{{}}') FROM (
        SELECT t.name, sum(t.tasks::bigint) AS tasks
        FROM queues, jsonb_each_text(transitions) AS t(name, tasks) GROUP BY t.name) AS sums),
    'matching', (SELECT count(*) FROM matching),
    'per_page', {QUEUES_PER_PAGE},
    'rows', (SELECT coalesce(json_agg(shown), '[]') FROM (
        SELECT name, ready, taken, waiting, buried, oldest, in_1m, out_1m, consumers, error, paused_until
        FROM matching ORDER BY {order_by} LIMIT {QUEUES_PER_PAGE} OFFSET $2::bigint) AS shown))::text"
    )
}

const QUEUE: &str = "
SELECT json_build_object(
    'name', d.queue::text, 'key', d.key, 'features', d.features,
    'oldest', (SELECT extract(epoch FROM q.oldest_ready) FROM xqueue.queues q WHERE q.queue = d.queue),
    'stats', xqueue.stats(d.queue::text))::text
FROM xqueue.definitions d WHERE d.queue::text = $1";

const LATENCY: &str = "
SELECT json_build_object(
    'wait', ARRAY[extract(epoch FROM wait_p50), extract(epoch FROM wait_p95), extract(epoch FROM wait_p99)], 'taken', taken,
    'work', ARRAY[extract(epoch FROM work_p50), extract(epoch FROM work_p95), extract(epoch FROM work_p99)], 'acked', acked)::text
FROM xqueue.latency WHERE queue::text = $1";

/// The tasks come from `xqueue_internal.buried`, which shows values through the output functions of their types. A
/// SELECT from the table, or a conversion to json, could run functions of the table's owner with the viewer's rights.
/// The id goes to the page and back as text, because JavaScript's numbers cannot hold every bigint.
const BURIED: &str = "
SELECT coalesce(json_agg(json_build_object(
    'id', (t.task->'id')::text, 'key', left(t.task->>'key', 200), 'attempts', t.task->>'attempts',
    'reason', left(t.task->>'reason', 500),
    'task', (SELECT left(string_agg(name || ': ' || value, E'\\n'), 1000) FROM jsonb_each_text(t.task->'columns') AS c(name, value))
    ) ORDER BY t.place), '[]')::text
FROM xqueue.definitions d, xqueue_internal.buried(d.queue, 50) WITH ORDINALITY AS t(task, place)
WHERE d.queue::text = $1 AND (d.features->'buried' IS NOT NULL OR d.features #> '{retry,limit}' IS NOT NULL)";

/// The id tells tasks apart whose shown keys are the same. Unlike md5, the hash works on servers in FIPS mode, too.
const IN_FLIGHT: &str = "
SELECT coalesce(json_agg(shown), '[]')::text FROM (
    SELECT queue::text, hashtextextended(key, 0)::text AS id, left(key, 200) AS key, attempts, pid, application, client,
           extract(epoch FROM taken_for) AS taken_for, extract(epoch FROM time_left) AS time_left
    FROM xqueue.tasks_in_flight t WHERE $1 IN ('', queue::text)
    ORDER BY t.taken_for DESC NULLS LAST, queue, key LIMIT CASE $1 WHEN '' THEN 20 ELSE 50 END) AS shown";

const CONSUMERS: &str = "
SELECT coalesce(json_agg(shown), '[]')::text FROM (
    SELECT queue::text, c.pid, extract(epoch FROM c.since) AS since, a.application_name AS application, a.client_addr AS client
    FROM xqueue.consumers c LEFT JOIN pg_stat_activity a ON a.pid = c.pid WHERE $1 IN ('', queue::text)
    ORDER BY c.since, c.pid LIMIT CASE $1 WHEN '' THEN 20 ELSE 50 END) AS shown";

const PRODUCERS: &str = "
SELECT coalesce(json_agg(shown), '[]')::text FROM (
    SELECT queue::text, p.pid, extract(epoch FROM p.since) AS since, p.tasks, a.application_name AS application,
           a.client_addr AS client
    FROM xqueue.producers p LEFT JOIN pg_stat_activity a ON a.pid = p.pid WHERE $1 IN ('', queue::text)
    ORDER BY p.since, p.pid LIMIT CASE $1 WHEN '' THEN 20 ELSE 50 END) AS shown";

#[cfg(test)]
mod tests {
    use super::*;

    fn names(query: &str) -> Vec<&'static str> {
        sections(&Query::parse(query)).iter().map(|section| section.name).collect()
    }

    #[test]
    fn page_of_a_queue_has_other_sections_than_that_of_all() {
        assert_eq!(
            names("sort=-ready"),
            ["server", "queues", "in_flight", "consumers", "producers"]
        );
        assert_eq!(
            names("queue=public.jobs"),
            ["server", "queue", "latency", "buried", "in_flight", "consumers", "producers"]
        );
    }

    #[test]
    fn nothing_of_a_request_gets_into_a_statement() {
        let query = Query::parse("sort=zzz&filter=zzz&page=zzz");
        let queue = Query::parse("queue=zzz&sort=zzz");
        for section in sections(&query).iter().chain(&sections(&queue)) {
            assert!(!section.statement.contains("zzz"), "{}", section.name);
        }
        assert_eq!(sections(&Query::parse("page=3&filter=a"))[1].parameters, ["a", "150"]);
    }
}
