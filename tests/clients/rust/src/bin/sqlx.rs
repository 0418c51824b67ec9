//! sqlx: a pool, rows as structs, parameters with the types of Rust, errors.

use serde::Serialize;
use serde_json::json;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgPoolOptions};
use sqlx::types::{Json, Uuid};
use sqlx::{Connection, Executor, FromRow, PgConnection, PgPool};
use std::time::Duration;
use xqueue_clients::{LOOP, PGBOUNCER, Result, Work, env, pooler, server, test};

#[derive(FromRow)]
struct Job {
    id: i64,
    url: String,
    status: String,
    owner: Option<Uuid>,
}

#[derive(Serialize)]
struct NewJob<'a> {
    url: &'a str,
}

async fn put(db: &mut PgConnection, url: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar("INSERT INTO sqlx_jobs (url) VALUES ($1) RETURNING id")
        .bind(url)
        .fetch_one(db)
        .await
}

async fn take(db: &mut PgConnection, timeout: Duration, count: i32) -> sqlx::Result<Vec<Job>> {
    sqlx::query_as("SELECT * FROM xqueue.take(NULL::sqlx_jobs, $1, $2)")
        .bind(timeout)
        .bind(count)
        .fetch_all(db)
        .await
}

async fn ack(db: &mut PgConnection, id: i64) -> sqlx::Result<()> {
    db.execute(sqlx::query("SELECT xqueue.ack('sqlx_jobs', $1)").bind(id)).await.map(drop)
}

fn options((host, port): (String, u16)) -> PgConnectOptions {
    PgConnectOptions::new()
        .host(&host)
        .port(port)
        .username(&env("PGUSER"))
        .database(&env("PGDATABASE"))
}

/// A pool whose connections give back their tasks before another part of the program gets them.
async fn pool() -> sqlx::Result<PgPool> {
    PgPoolOptions::new()
        .max_connections(2)
        .after_release(|db, _| {
            Box::pin(async move {
                db.execute("SELECT xqueue.give_back()").await?;
                Ok(true)
            })
        })
        .connect_with(options(server()))
        .await
}

async fn structs(pool: &PgPool) -> Result {
    let mut db = pool.acquire().await?;
    let id = put(&mut db, "a").await?;
    let jobs = take(&mut db, Duration::from_secs(20), 2).await?;
    let [job] = &jobs[..] else { panic!("not one task: {}", jobs.len()) };
    assert_eq!((job.id, &*job.url, &*job.status), (id, "a", "T"));
    let session: Uuid = sqlx::query_scalar("SELECT xqueue.identify()").fetch_one(&mut *db).await?;
    assert_eq!(job.owner, Some(session));
    Ok(ack(&mut db, id).await?)
}

async fn batches(pool: &PgPool) -> Result {
    let mut db = pool.acquire().await?;
    let new = ["a", "b", "c", "d", "e"].map(|url| NewJob { url });
    db.execute(sqlx::query("SELECT xqueue.put('sqlx_jobs', $1)").bind(Json(&new))).await?;
    let jobs = take(&mut db, Duration::from_secs(20), 5).await?;
    let ids: Vec<i64> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(jobs.iter().map(|job| &*job.url).collect::<String>(), "abcde");
    let acked: Vec<Job> = sqlx::query_as("SELECT * FROM xqueue.ack(NULL::sqlx_jobs, $1)")
        .bind(&ids[..2])
        .fetch_all(&mut *db)
        .await?;
    assert_eq!(acked.len(), 2);
    let ack_object = sqlx::query("SELECT xqueue.ack('sqlx_jobs', $1::jsonb)");
    db.execute(ack_object.bind(json!({ "id": ids[2] }))).await?;
    let ack_row = sqlx::query("SELECT xqueue.ack(j) FROM sqlx_jobs j WHERE id = $1");
    db.execute(ack_row.bind(ids[3])).await?;
    let ack_text = sqlx::query("SELECT xqueue.ack('sqlx_jobs', $1::text)");
    db.execute(ack_text.bind(ids[4].to_string())).await?;
    Ok(())
}

async fn errors(pool: &PgPool) -> Result {
    let mut db = pool.acquire().await?;
    let error = ack(&mut db, 1_000_000).await.unwrap_err();
    let error = error.as_database_error().unwrap().downcast_ref::<PgDatabaseError>();
    assert_eq!((error.code(), error.hint().is_some()), ("P0002", true));
    Ok(())
}

async fn consume(pool: &PgPool, work: &mut Work) -> Result {
    while !work.stopped {
        match take_tasks(pool, work).await {
            // The server restarts, or ended the connection: its tasks are ready again.
            Err(error) if is_lost(&error) => tokio::time::sleep(Duration::from_millis(200)).await,
            result => result?,
        }
    }
    Ok(())
}

fn is_lost(error: &sqlx::Error) -> bool {
    let is_shutdown = |code: &str| ["57P01", "57P02", "57P03"].contains(&code);
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| is_shutdown(&code)),
        _ => false,
    }
}

async fn take_tasks(pool: &PgPool, work: &mut Work) -> sqlx::Result<()> {
    let mut db = pool.acquire().await?; // one connection, because tasks belong to it
    loop {
        for job in take(&mut db, Duration::from_secs(5), 10).await? {
            if work.stopped {
                return Ok(()); // the pool gives back unstarted tasks
            }
            if let Err(error) = process(&mut db, &job, work).await {
                // No row if the task was taken away meanwhile.
                let release =
                    "SELECT xqueue.release('sqlx_jobs', $1, error => $2, if_held => true)";
                db.execute(sqlx::query(release).bind(job.id).bind(error.to_string())).await?;
            }
        }
    }
}

/// Works, and acks in the transaction that writes the results.
async fn process(db: &mut PgConnection, job: &Job, work: &mut Work) -> Result {
    work.attempt(&job.url).await?;
    let mut transaction = db.begin().await?;
    ack(&mut transaction, job.id).await?;
    Ok(transaction.commit().await?)
}

async fn loop_(pool: &PgPool) -> Result {
    let mut work = Work::begin("sqlx_jobs").await?;
    consume(pool, &mut work).await?;
    work.attempt("end").await
}

/// PgBouncer before 1.21 does not know prepared statements. Those that are not persistent have no name.
async fn take_unprepared(db: &mut PgConnection) -> sqlx::Result<Job> {
    sqlx::query_as("SELECT * FROM xqueue.take(NULL::sqlx_jobs, $1)")
        .bind(Duration::from_secs(5))
        .persistent(false)
        .fetch_one(db)
        .await
}

async fn ack_unprepared(db: &mut PgConnection, id: i64) -> sqlx::Result<()> {
    let ack = sqlx::query("SELECT xqueue.ack('sqlx_jobs', $1)").persistent(false);
    db.execute(ack.bind(id)).await.map(drop)
}

async fn pgbouncer(pool: &PgPool) -> Result {
    let mut db = pool.acquire().await?;
    let pooled = PgPoolOptions::new().connect_with(options(pooler())).await?;
    for url in ["a", "b"] {
        put(&mut db, url).await?;
        let mut transaction = pooled.begin().await?;
        let job = take_unprepared(&mut transaction).await?;
        assert_eq!(job.url, url);
        ack_unprepared(&mut transaction, job.id).await?;
        transaction.commit().await?;
    }
    Ok(())
}

const TABLE: &str = "sqlx_jobs";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let pool = &pool().await?;
    test(TABLE, "a task is a struct", structs(pool)).await;
    test(TABLE, "put a list; ack a list, an object, a row, text", batches(pool)).await;
    test(TABLE, "an error has code and hint", errors(pool)).await;
    test(TABLE, LOOP, loop_(pool)).await;
    test(TABLE, PGBOUNCER, pgbouncer(pool)).await;
    Ok(())
}
