//! sqlx: a pool, rows as structs, parameters with the types of Rust, transactions, errors.

use serde::Serialize;
use serde_json::{Value, json};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgPoolOptions};
use sqlx::types::{Json, Uuid};
use sqlx::{AssertSqlSafe, Executor, FromRow, PgConnection, PgPool, Postgres};
use std::time::Duration;
use xqueue_clients::{Result, schema, test};

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
    sqlx::query_scalar("INSERT INTO jobs (url) VALUES ($1) RETURNING id")
        .bind(url)
        .fetch_one(db)
        .await
}

async fn take(db: &mut PgConnection, timeout: Duration, count: i32) -> sqlx::Result<Vec<Job>> {
    sqlx::query_as("SELECT * FROM xqueue.take(NULL::jobs, $1, $2)")
        .bind(timeout)
        .bind(count)
        .fetch_all(db)
        .await
}

async fn ack(db: &mut PgConnection, id: i64) -> sqlx::Result<()> {
    db.execute(sqlx::query("SELECT xqueue.ack('jobs', $1)").bind(id)).await.map(drop)
}

async fn tasks(db: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT count(*) FROM jobs").fetch_one(db).await
}

const SOON: Duration = Duration::from_secs(20);

/// A pool whose connections give back what they have taken before they go to somebody else.
async fn pool(schema: &str) -> sqlx::Result<PgPool> {
    PgPoolOptions::new()
        .max_connections(2)
        .after_release(|db, _| {
            Box::pin(async move {
                db.execute("SELECT xqueue.give_back()").await?;
                Ok(true)
            })
        })
        .connect_with(PgConnectOptions::new().options([("search_path", schema)]))
        .await
}

/// A connection, and the queue empty.
async fn start(pool: &PgPool) -> sqlx::Result<PoolConnection<Postgres>> {
    let mut db = pool.acquire().await?;
    db.execute("DELETE FROM jobs").await?;
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
    Ok(ack(&mut db, id).await?)
}

async fn batches(pool: &PgPool) -> Result {
    let mut db = start(pool).await?;
    let new = ["a", "b", "c", "d", "e"].map(|url| NewJob { url });
    db.execute(sqlx::query("SELECT xqueue.put('jobs', $1)").bind(Json(&new))).await?;
    let jobs = take(&mut db, SOON, 5).await?;
    let ids: Vec<i64> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(jobs.iter().map(|job| &*job.url).collect::<String>(), "abcde");
    let acked: Vec<Job> = sqlx::query_as("SELECT * FROM xqueue.ack(NULL::jobs, $1)")
        .bind(&ids[..2])
        .fetch_all(&mut *db)
        .await?;
    assert_eq!(acked.len(), 2);
    db.execute(sqlx::query("SELECT xqueue.ack('jobs', $1::jsonb)").bind(json!({ "id": ids[2] })))
        .await?;
    db.execute(sqlx::query("SELECT xqueue.ack(j) FROM jobs j WHERE id = $1").bind(ids[3])).await?;
    db.execute(sqlx::query("SELECT xqueue.ack('jobs', $1::text)").bind(ids[4].to_string())).await?;
    assert_eq!(tasks(&mut db).await?, 0);
    Ok(())
}

async fn loops(pool: &PgPool) -> Result {
    let mut db = start(pool).await?;
    put(&mut db, "a").await?;
    let next = "CALL xqueue.next('jobs', $1, task => $2)";
    let task: Option<Value> =
        sqlx::query_scalar(next).bind(SOON).bind(None::<Value>).fetch_one(&mut *db).await?;
    assert_eq!(task.as_ref().unwrap()["url"], "a");
    let task: Option<Value> =
        sqlx::query_scalar(next).bind(Duration::ZERO).bind(task).fetch_one(&mut *db).await?;
    assert_eq!(task, None);
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

async fn lost(pool: &PgPool) -> Result {
    let mut db = start(pool).await?;
    let id = put(&mut db, "a").await?;
    let mut other = pool.acquire().await?;
    assert_eq!(take(&mut other, SOON, 1).await?[0].id, id);
    drop(other); // to the pool, which gives the task back
    assert_eq!(take(&mut db, SOON, 1).await?[0].id, id);
    assert_eq!(
        sqlx::query_scalar::<_, i32>("SELECT xqueue.give_back()").fetch_one(&mut *db).await?,
        1
    );
    let mut other = pool.acquire().await?;
    let job = take(&mut other, SOON, 1).await?.remove(0);
    let (pid, ..) = job.owner.unwrap().as_fields();
    db.execute(sqlx::query("SELECT pg_terminate_backend($1)").bind(pid as i32)).await?;
    assert_eq!(take(&mut db, SOON, 1).await?[0].id, id);
    Ok(ack(&mut db, id).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let schema = schema("sqlx");
    let pool = pool(&schema).await?;
    let create =
        "CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, url text NOT NULL)";
    pool.execute(AssertSqlSafe(format!(
        "CREATE SCHEMA {schema}; {create}; SELECT xqueue.upgrade('jobs')"
    )))
    .await?;
    test(
        "sqlx: put belongs to the application's transaction; a task is a struct",
        transactions(&pool),
    )
    .await;
    test("sqlx: put a list; ack a list, an object, a row, text", batches(&pool)).await;
    test("sqlx: CALL next, which acks the task it is given", loops(&pool)).await;
    test("sqlx: an error has code and hint", errors(&pool)).await;
    test("sqlx: a task comes back from the pool and from a lost connection", lost(&pool)).await;
    pool.execute(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).await?;
    Ok(())
}
