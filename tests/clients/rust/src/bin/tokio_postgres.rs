//! tokio-postgres: parameters have the types that the server infers, so keys and intervals need a cast.

use serde_json::json;
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, GenericClient, NoTls, Row, Transaction};
use uuid::Uuid;
use xqueue_clients::{LOOP, PGBOUNCER, Result, Work, env, pooler, server, test};

struct Job {
    id: i64,
    url: String,
    status: String,
    owner: Option<Uuid>,
}

impl From<Row> for Job {
    fn from(row: Row) -> Self {
        Job {
            id: row.get("id"),
            url: row.get("url"),
            status: row.get("status"),
            owner: row.get("owner"),
        }
    }
}

async fn connect((host, port): (String, u16)) -> Result<Client, Error> {
    let mut config = Config::new();
    config.host(host).port(port).user(env("PGUSER")).dbname(env("PGDATABASE"));
    let (db, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(db)
}

async fn put(db: &impl GenericClient, url: &str) -> Result<i64, Error> {
    let task = json!({ "url": url });
    Ok(db
        .query_one("SELECT id FROM xqueue.put(NULL::tokio_postgres_jobs, $1)", &[&task])
        .await?
        .get(0))
}

async fn take(db: &impl GenericClient, timeout: &str, count: i32) -> Result<Vec<Job>, Error> {
    let statement = "SELECT * FROM xqueue.take(NULL::tokio_postgres_jobs, $1::text::interval, $2)";
    Ok(db.query(statement, &[&timeout, &count]).await?.into_iter().map(Job::from).collect())
}

async fn ack(db: &impl GenericClient, id: i64) -> Result<Row, Error> {
    db.query_one("SELECT xqueue.ack('tokio_postgres_jobs', $1::bigint)", &[&id]).await
}

async fn structs() -> Result {
    let db = connect(server()).await?;
    let id = put(&db, "a").await?;
    let jobs = take(&db, "20s", 2).await?;
    let [job] = &jobs[..] else { panic!("not one task: {}", jobs.len()) };
    assert_eq!((job.id, &*job.url, &*job.status), (id, "a", "T"));
    let session = db.query_one("SELECT xqueue.identify()", &[]).await?.get(0);
    assert_eq!(job.owner, Some(session));
    ack(&db, id).await?;
    Ok(())
}

async fn batches() -> Result {
    let db = connect(server()).await?;
    let new = ["a", "b", "c", "d", "e"].map(|url| json!({ "url": url }));
    let put = "SELECT xqueue.put('tokio_postgres_jobs', $1)";
    assert_eq!(db.query(put, &[&json!(new)]).await?.len(), 5);
    let jobs = take(&db, "20s", 5).await?;
    let ids: Vec<i64> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(jobs.iter().map(|job| &*job.url).collect::<String>(), "abcde");
    db.query("SELECT xqueue.ack('tokio_postgres_jobs', $1::bigint[])", &[&&ids[..2]]).await?;
    db.query("SELECT xqueue.ack('tokio_postgres_jobs', $1::jsonb)", &[&json!({ "id": ids[2] })])
        .await?;
    db.query("SELECT xqueue.ack(j) FROM tokio_postgres_jobs j WHERE id = $1", &[&ids[3]]).await?;
    db.query("SELECT xqueue.ack('tokio_postgres_jobs', $1)", &[&ids[4].to_string()]).await?; // a text, as the server infers
    Ok(())
}

async fn pipeline() -> Result {
    let db = connect(server()).await?;
    // This try_join polls the put first. The order of tokio::try_join! changes from poll to poll.
    let (id, jobs) = futures_util::future::try_join(put(&db, "a"), take(&db, "20s", 1)).await?;
    assert_eq!(jobs[0].id, id);
    ack(&db, id).await?;
    Ok(())
}

async fn errors() -> Result {
    let db = connect(server()).await?;
    let error = ack(&db, 1_000_000).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!((error.code(), error.hint().is_some()), (&SqlState::NO_DATA_FOUND, true));
    Ok(())
}

async fn consume(work: &mut Work) -> Result {
    while !work.stopped {
        match take_tasks(work).await {
            // The server restarts, or ended the connection: its tasks are ready again.
            Err(error) if error.is_closed() || is_shutdown(&error) => {
                tokio::time::sleep(Duration::from_millis(200)).await
            }
            result => result?,
        }
    }
    Ok(())
}

fn is_shutdown(error: &Error) -> bool {
    let codes = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    error.code().is_some_and(|code| codes.contains(code))
}

async fn take_tasks(work: &mut Work) -> Result<(), Error> {
    let mut db = connect(server()).await?;
    loop {
        for job in take(&db, "5s", 10).await? {
            if work.stopped {
                // Unstarted tasks are ready again immediately, and use up no attempt.
                db.execute("SELECT xqueue.give_back()", &[]).await?;
                return Ok(());
            }
            if let Err(error) = process(&mut db, &job, work).await {
                // No row if the task was taken away meanwhile.
                let release = "SELECT xqueue.release('tokio_postgres_jobs', $1::bigint, error => $2, if_held => true)";
                db.execute(release, &[&job.id, &error.to_string()]).await?;
            }
        }
    }
}

/// Works, and acks in the transaction that writes the results.
async fn process(db: &mut Client, job: &Job, work: &mut Work) -> Result {
    work.attempt(&job.url).await?;
    let transaction = db.transaction().await?;
    ack(&transaction, job.id).await?;
    Ok(transaction.commit().await?)
}

async fn loop_() -> Result {
    let mut work = Work::begin("tokio_postgres_jobs").await?;
    consume(&mut work).await?;
    work.attempt("end").await
}

/// PgBouncer before 1.21 does not know prepared statements. `query_typed` sends one that has no name, with the types.
async fn take_unprepared(db: &Transaction<'_>) -> Result<Job, Error> {
    let statement = "SELECT * FROM xqueue.take(NULL::tokio_postgres_jobs, $1::text::interval)";
    Ok(db.query_typed(statement, &[(&"5s", Type::TEXT)]).await?.remove(0).into())
}

async fn ack_unprepared(db: &Transaction<'_>, id: i64) -> Result<(), Error> {
    let statement = "SELECT xqueue.ack('tokio_postgres_jobs', $1)";
    db.query_typed(statement, &[(&id, Type::INT8)]).await.map(drop)
}

async fn pgbouncer() -> Result {
    let db = connect(server()).await?;
    let mut pooled = connect(pooler()).await?;
    for url in ["a", "b"] {
        put(&db, url).await?;
        let transaction = pooled.transaction().await?;
        let job = take_unprepared(&transaction).await?;
        assert_eq!(job.url, url);
        ack_unprepared(&transaction, job.id).await?;
        transaction.commit().await?;
    }
    Ok(())
}

const TABLE: &str = "tokio_postgres_jobs";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    test(TABLE, "a task is a struct", structs()).await;
    test(TABLE, "put a list; ack a list, an object, a row, text", batches()).await;
    test(TABLE, "put and take in a pipeline", pipeline()).await;
    test(TABLE, "an error has code and hint", errors()).await;
    test(TABLE, LOOP, loop_()).await;
    test(TABLE, PGBOUNCER, pgbouncer()).await;
}
