// lib/pq behind database/sql: parameters without a type, durations as seconds, arrays, a pool's connections.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"
)

type Job struct {
	ID     int64
	URL    string
	Status string
	Owner  sql.NullString
}

var (
	ctx    = context.Background()
	schema = fmt.Sprint("lib_pq_", time.Now().UnixNano())
	pool   = get(sql.Open("postgres", "sslmode=disable search_path="+schema))
)

// querier is what *sql.Conn and *sql.Tx have in common.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func put(db querier, tasks any) error {
	list, err := json.Marshal(tasks)
	if err == nil {
		_, err = db.ExecContext(ctx, "SELECT xqueue.put('jobs', $1)", list)
	}
	return err
}

func take(db querier, timeout time.Duration, count int) ([]Job, error) {
	rows, err := db.QueryContext(ctx, "SELECT id, url, status, owner FROM xqueue.take(NULL::jobs, $1, $2)",
		timeout.Seconds(), count) // a Duration would be sent as nanoseconds, and read as seconds
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var jobs []Job
	for rows.Next() {
		var job Job
		if err := rows.Scan(&job.ID, &job.URL, &job.Status, &job.Owner); err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	return jobs, rows.Err()
}

func ack(db querier, id any) error {
	_, err := db.ExecContext(ctx, "SELECT xqueue.ack('jobs', $1)", id)
	return err
}

func value[T any](db querier, query string, args ...any) (value T) {
	must(db.QueryRowContext(ctx, query, args...).Scan(&value))
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func get[T any](value T, err error) T {
	must(err)
	return value
}

func equal[T comparable](actual, expected T) {
	if actual != expected {
		panic(fmt.Sprintf("%v instead of %v", actual, expected))
	}
}

type task = map[string]any

func transactions(db *sql.Conn) {
	tx := get(db.BeginTx(ctx, nil))
	must(put(tx, task{"url": "a"}))
	must(tx.Rollback())
	equal(value[int](db, "SELECT count(*) FROM jobs"), 0)
	tx = get(db.BeginTx(ctx, nil))
	must(put(tx, task{"url": "a"}))
	must(tx.Commit())
	job := get(take(db, 5*time.Second, 1))[0]
	owner := sql.NullString{String: value[string](db, "SELECT xqueue.identify()"), Valid: true}
	equal(job, Job{job.ID, "a", "T", owner})
	tx = get(db.BeginTx(ctx, nil))
	must(ack(tx, job.ID))
	must(tx.Rollback())
	must(ack(db, job.ID))
	equal(value[int](db, "SELECT count(*) FROM jobs"), 0)
}

func batches(db *sql.Conn) {
	must(put(db, []task{{"url": "a"}, {"url": "b"}, {"url": "c"}, {"url": "d"}, {"url": "e"}}))
	var ids []int64
	for n, job := range get(take(db, 1500*time.Millisecond, 5)) {
		equal(job.URL, string(rune('a'+n)))
		ids = append(ids, job.ID)
	}
	must(ack(db, pq.Array(ids[:2])))
	must(ack(db, fmt.Sprintf(`{"id": %d}`, ids[2])))
	equal(value[int64](db, "SELECT id FROM xqueue.ack(NULL::jobs, $1)", ids[3]), ids[3])
	get(db.ExecContext(ctx, "SELECT xqueue.ack(j) FROM jobs j WHERE id = $1", ids[4]))
	equal(value[int](db, "SELECT count(*) FROM jobs"), 0)
}

func failures(db *sql.Conn) {
	var failure *pq.Error
	equal(errors.As(ack(db, 1000000), &failure), true)
	equal(failure.Code, "P0002")
	equal(failure.Hint != "", true)
	must(put(db, task{"url": "a"}))
	equal(errors.As(ack(db, value[int64](db, "SELECT id FROM jobs")), &failure), true)
	equal(failure.Code, "55000")
}

func lost(db *sql.Conn) {
	other := get(pool.Conn(ctx))
	must(put(db, task{"url": "a"}))
	id := get(take(other, 0, 1))[0].ID
	must(other.Close()) // to the pool, where it keeps its task
	equal(len(get(take(db, 0, 1))), 0)
	other = get(pool.Conn(ctx))
	defer other.Close()
	equal(value[int](other, "SELECT xqueue.give_back()"), 1)
	equal(get(take(other, 0, 1))[0].ID, id)
	equal(value[bool](db, "SELECT pg_terminate_backend($1)", value[int](other, "SELECT pg_backend_pid()")), true)
	equal(get(take(db, 20*time.Second, 1))[0].ID, id)
	must(ack(db, id))
}

func run(name string, test func(*sql.Conn)) {
	db := get(pool.Conn(ctx))
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Printf("not ok - lib/pq: %s\n%v\n", name, failure)
		} else {
			fmt.Println("ok - lib/pq:", name)
		}
		get(db.ExecContext(ctx, "DELETE FROM jobs; SELECT xqueue.give_back()")) // the pool would not give back
		db.Close()
	}()
	test(db)
}

func main() {
	get(pool.Exec("CREATE SCHEMA " + schema))
	defer pool.Exec("DROP SCHEMA " + schema + " CASCADE")
	get(pool.Exec("CREATE TABLE jobs (id bigserial PRIMARY KEY, url text NOT NULL); SELECT xqueue.upgrade('jobs')"))
	run("put and ack belong to the application's transaction; a task is a struct", transactions)
	run("put a list; ack an array, an object, a row", batches)
	run("an error has code and hint", failures)
	run("a task is given back, and comes back from a lost connection", lost)
}
