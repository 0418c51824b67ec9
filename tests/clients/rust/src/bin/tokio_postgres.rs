//! tokio-postgres: parameters have the types that the server infers, so keys and intervals need a cast.

use serde_json::{Value, json};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, GenericClient, NoTls, Row};
use uuid::Uuid;
use xqueue_clients::{Result, schema, test};

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

async fn connect(schema: &str) -> Result<Client> {
    let env = |name| std::env::var(name).expect(name);
    let mut config = Config::new();
    config
        .host(env("PGHOST"))
        .port(env("PGPORT").parse()?)
        .user(env("PGUSER"))
        .dbname(env("PGDATABASE"));
    let (db, connection) =
        config.options(format!("-c search_path={schema}")).connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(db)
}

/// A connection, and the queue empty.
async fn start(schema: &str) -> Result<Client> {
    let db = connect(schema).await?;
    db.execute("DELETE FROM jobs", &[]).await?;
    Ok(db)
}

async fn put(db: &impl GenericClient, url: &str) -> Result<i64, Error> {
    let task = json!({ "url": url });
    Ok(db.query_one("SELECT id FROM xqueue.put(NULL::jobs, $1)", &[&task]).await?.get(0))
}

async fn take(db: &impl GenericClient, timeout: &str, count: i32) -> Result<Vec<Job>, Error> {
    let statement = "SELECT * FROM xqueue.take(NULL::jobs, $1::text::interval, $2)";
    Ok(db.query(statement, &[&timeout, &count]).await?.into_iter().map(Job::from).collect())
}

async fn ack(db: &impl GenericClient, id: i64) -> Result<Row, Error> {
    db.query_one("SELECT xqueue.ack('jobs', $1::bigint)", &[&id]).await
}

async fn tasks(db: &Client) -> Result<i64, Error> {
    Ok(db.query_one("SELECT count(*) FROM jobs", &[]).await?.get(0))
}

async fn transactions(schema: &str) -> Result {
    let mut db = start(schema).await?;
    let transaction = db.transaction().await?;
    put(&transaction, "a").await?;
    transaction.rollback().await?;
    assert_eq!(tasks(&db).await?, 0);
    let transaction = db.transaction().await?;
    let id = put(&transaction, "a").await?;
    transaction.commit().await?;
    let job = take(&db, "20s", 1).await?.remove(0);
    assert_eq!((job.id, &*job.url, &*job.status), (id, "a", "T"));
    let session = db.query_one("SELECT xqueue.identify()", &[]).await?.get(0);
    assert_eq!(job.owner, Some(session));
    let transaction = db.transaction().await?;
    ack(&transaction, id).await?;
    drop(transaction); // which rolls back
    ack(&db, id).await?;
    Ok(())
}

async fn batches(schema: &str) -> Result {
    let db = start(schema).await?;
    let new =
        json!([{ "url": "a" }, { "url": "b" }, { "url": "c" }, { "url": "d" }, { "url": "e" }]);
    assert_eq!(db.query("SELECT xqueue.put('jobs', $1)", &[&new]).await?.len(), 5);
    let jobs = take(&db, "20s", 5).await?;
    let ids: Vec<i64> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(jobs.iter().map(|job| &*job.url).collect::<String>(), "abcde");
    db.query("SELECT xqueue.ack('jobs', $1::bigint[])", &[&&ids[..2]]).await?;
    db.query("SELECT xqueue.ack('jobs', $1::jsonb)", &[&json!({ "id": ids[2] })]).await?;
    db.query("SELECT xqueue.ack(j) FROM jobs j WHERE id = $1", &[&ids[3]]).await?;
    db.query("SELECT xqueue.ack('jobs', $1)", &[&ids[4].to_string()]).await?; // a text, as the server infers
    assert_eq!(tasks(&db).await?, 0);
    Ok(())
}

async fn loops(schema: &str) -> Result {
    let db = start(schema).await?;
    put(&db, "a").await?;
    let next = "CALL xqueue.next('jobs', $1::text::interval, task => $2)";
    let task: Option<Value> = db.query_one(next, &[&"20s", &None::<Value>]).await?.get(0);
    assert_eq!(task.as_ref().unwrap()["url"], "a");
    let task: Option<Value> = db.query_one(next, &[&"0", &task]).await?.get(0);
    assert_eq!(task, None);
    assert_eq!(tasks(&db).await?, 0);
    Ok(())
}

async fn pipeline(schema: &str) -> Result {
    let db = start(schema).await?;
    let (id, jobs) = tokio::try_join!(put(&db, "a"), take(&db, "20s", 1))?;
    assert_eq!(jobs[0].id, id);
    ack(&db, id).await?;
    Ok(())
}

async fn errors(schema: &str) -> Result {
    let db = start(schema).await?;
    let error = ack(&db, 1_000_000).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!((error.code(), error.hint().is_some()), (&SqlState::NO_DATA_FOUND, true));
    let id = put(&db, "a").await?;
    let error = ack(&db, id).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE));
    Ok(())
}

async fn lost(schema: &str) -> Result {
    let db = start(schema).await?;
    let other = connect(schema).await?;
    let id = put(&db, "a").await?;
    assert_eq!(take(&other, "20s", 1).await?[0].id, id);
    drop(other); // which closes the connection
    assert_eq!(take(&db, "20s", 1).await?[0].id, id);
    assert_eq!(db.query_one("SELECT xqueue.give_back()", &[]).await?.get::<_, i32>(0), 1);
    let other = connect(schema).await?;
    let job = take(&other, "20s", 1).await?.remove(0);
    let (pid, ..) = job.owner.unwrap().as_fields();
    db.query("SELECT pg_terminate_backend($1)", &[&(pid as i32)]).await?;
    assert_eq!(take(&db, "20s", 1).await?[0].id, id);
    ack(&db, id).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result {
    let schema = &*schema("tokio_postgres");
    let db = connect(schema).await?;
    let create =
        "CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, url text NOT NULL)";
    db.batch_execute(&format!("CREATE SCHEMA {schema}; {create}; SELECT xqueue.upgrade('jobs')"))
        .await?;
    test(
        "tokio-postgres: put and ack belong to the application's transaction",
        transactions(schema),
    )
    .await;
    test("tokio-postgres: put a list; ack a list, an object, a row, text", batches(schema)).await;
    test("tokio-postgres: CALL next, which acks the task it is given", loops(schema)).await;
    test("tokio-postgres: put and take in a pipeline", pipeline(schema)).await;
    test("tokio-postgres: an error has code and hint", errors(schema)).await;
    test("tokio-postgres: a lost connection's task is ready again", lost(schema)).await;
    db.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await?;
    Ok(())
}
