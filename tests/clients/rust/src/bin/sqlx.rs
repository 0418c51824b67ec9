//! sqlx: a pool, rows as structs, parameters with the types of Rust, transactions, errors.

use serde::Serialize;
use serde_json::json;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgPoolOptions};
use sqlx::types::{Json, Uuid};
use sqlx::{AssertSqlSafe, Connection, Executor, FromRow, PgConnection, PgPool, Postgres};
use std::time::Duration;
use xqueue_clients::{Result, Work, env, pooler, server, test};

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

async fn tasks(db: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT count(*) FROM sqlx_jobs").fetch_one(db).await
}

fn options((host, port): (String, u16)) -> PgConnectOptions {
    PgConnectOptions::new()
        .host(&host)
        .port(port)
        .username(&env("PGUSER"))
        .database(&env("PGDATABASE"))
}

const SOON: Duration = Duration::from_secs(20);

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

/// Empties the queue, and returns a connection.
async fn start(pool: &PgPool) -> sqlx::Result<PoolConnection<Postgres>> {
    let mut db = pool.acquire().await?;
    db.execute("DELETE FROM sqlx_jobs").await?;
    Ok(db)
}

async fn transactions(pool: &PgPool) -> Result {
    let mut db = start(pool).await?;
    let mut transaction = pool.begin().await?;
    put(&mut transaction, "a").await?;
    transaction.rollback().await?;
    assert_eq!(tasks(&mut db).await?, 0);
    let mut transaction = pool.begin().await?;
    let id = put(&mut transaction, "a").await?;
    transaction.commit().await?;
    let job = take(&mut db, SOON, 1).await?.remove(0);
    assert_eq!((job.id, &*job.url, &*job.status), (id, "a", "T"));
    let session: Uuid = sqlx::query_scalar("SELECT xqueue.identify()").fetch_one(&mut *db).await?;
    assert_eq!(job.owner, Some(session));
    let mut transaction = db.begin().await?;
    ack(&mut transaction, id).await?;
    transaction.rollback().await?;
    Ok(ack(&mut db, id).await?)
}

async fn batches(pool: &PgPool) -> Result {
    let mut db = start(pool).await?;
    let new = ["a", "b", "c", "d", "e"].map(|url| NewJob { url });
    db.execute(sqlx::query("SELECT xqueue.put('sqlx_jobs', $1)").bind(Json(&new))).await?;
    let jobs = take(&mut db, SOON, 5).await?;
    let ids: Vec<i64> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(jobs.iter().map(|job| &*job.url).collect::<String>(), "abcde");
    let acked: Vec<Job> = sqlx::query_as("SELECT * FROM xqueue.ack(NULL::sqlx_jobs, $1)")
        .bind(&ids[..2])
        .fetch_all(&mut *db)
        .await?;
    assert_eq!(acked.len(), 2);
    db.execute(
        sqlx::query("SELECT xqueue.ack('sqlx_jobs', $1::jsonb)").bind(json!({ "id": ids[2] })),
    )
    .await?;
    db.execute(sqlx::query("SELECT xqueue.ack(j) FROM sqlx_jobs j WHERE id = $1").bind(ids[3]))
        .await?;
    db.execute(sqlx::query("SELECT xqueue.ack('sqlx_jobs', $1::text)").bind(ids[4].to_string()))
        .await?;
    assert_eq!(tasks(&mut db).await?, 0);
    Ok(())
}

async fn errors(pool: &PgPool) -> Result {
    let mut db = start(pool).await?;
    let error = ack(&mut db, 1_000_000).await.unwrap_err();
    let error = error.as_database_error().unwrap().downcast_ref::<PgDatabaseError>();
    assert_eq!((error.code(), error.hint().is_some()), ("P0002", true));
    let id = put(&mut db, "a").await?;
    let error = ack(&mut db, id).await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().code().unwrap(), "55000");
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
    let mut db = start(pool).await?;
    for url in ["a", "b", "c", "d"] {
        put(&mut db, url).await?;
    }
    drop(db);
    let mut work = Work::new("sqlx_jobs");
    consume(pool, &mut work).await?;
    assert_eq!(work.urls, env("XQUEUE_URLS"));
    let left = "SELECT string_agg(concat_ws(' ', url, status, attempts, reason), ', ' ORDER BY id)
        FROM sqlx_jobs";
    let mut db = pool.acquire().await?;
    until_equal(&mut db, left, &env("XQUEUE_LEFT")).await
}

/// Polls, because the pool gives tasks back in the background.
async fn until_equal(db: &mut PgConnection, statement: &'static str, expected: &str) -> Result {
    let deadline = std::time::Instant::now() + SOON;
    while sqlx::query_scalar::<_, String>(statement).fetch_one(&mut *db).await? != expected {
        assert!(std::time::Instant::now() < deadline, "{statement} is not {expected}");
    }
    Ok(())
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

async fn through_pgbouncer() -> sqlx::Result<PgPool> {
    PgPoolOptions::new().connect_with(options(pooler())).await
}

async fn one_transaction(pool: &PgPool) -> Result {
    let mut db = start(pool).await?;
    let pooled = through_pgbouncer().await?;
    for url in ["a", "b"] {
        put(&mut db, url).await?;
        let mut transaction = pooled.begin().await?;
        let job = take_unprepared(&mut transaction).await?;
        assert_eq!(job.url, url);
        ack_unprepared(&mut transaction, job.id).await?;
        transaction.commit().await?;
    }
    assert_eq!(tasks(&mut db).await?, 0);
    Ok(())
}

async fn identify(db: &mut PgConnection, session: Uuid) -> sqlx::Result<()> {
    let join = sqlx::query("SELECT xqueue.identify($1, local => true)").persistent(false);
    db.execute(join.bind(session)).await.map(drop)
}

async fn identified(pool: &PgPool) -> Result {
    let mut db = start(pool).await?;
    let pooled = through_pgbouncer().await?;
    put(&mut db, "a").await?;
    let mut transaction = pooled.begin().await?;
    let session: Uuid =
        sqlx::query_scalar("SELECT xqueue.identify(grace => '1 min', local => true)")
            .persistent(false)
            .fetch_one(&mut *transaction)
            .await?;
    let job = take_unprepared(&mut transaction).await?;
    transaction.commit().await?;
    let mut transaction = pooled.begin().await?;
    identify(&mut transaction, session).await?;
    ack_unprepared(&mut transaction, job.id).await?;
    transaction.commit().await?;
    db.execute(sqlx::query("DELETE FROM xqueue.session WHERE uuid = $1").bind(session)).await?;
    assert_eq!(tasks(&mut db).await?, 0);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let pool = pool().await?;
    let create = "CREATE TABLE sqlx_jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, url text NOT NULL)";
    let upgrade = r#"SELECT xqueue.upgrade('sqlx_jobs', '{"features": {"retry": true}}')"#;
    pool.execute(AssertSqlSafe(format!("{create}; {upgrade}"))).await?;
    test(
        "sqlx: put and ack belong to the application's transaction; a task is a struct",
        transactions(&pool),
    )
    .await;
    test("sqlx: put a list; ack a list, an object, a row, text", batches(&pool)).await;
    test("sqlx: an error has code and hint", errors(&pool)).await;
    test(
        "sqlx: a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun",
        loop_(&pool),
    )
    .await;
    test("sqlx: through PgBouncer, take, work and ack in one transaction", one_transaction(&pool))
        .await;
    test(
        "sqlx: through PgBouncer, an identified session takes and acks in two transactions",
        identified(&pool),
    )
    .await;
    pool.execute("DROP TABLE sqlx_jobs").await?;
    Ok(())
}
