// lib/pq behind database/sql: parameters without a type, durations as seconds, arrays, a pool's connections.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	ctx  = context.Background()
	pool = get(sql.Open("postgres", "sslmode=disable"))
)

// querier has the common methods of *sql.Conn and *sql.Tx.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func put(db querier, tasks any) error {
	list, err := json.Marshal(tasks)
	if err == nil {
		_, err = db.ExecContext(ctx, "SELECT xqueue.put('lib_pq_jobs', $1)", list)
	}
	return err
}

func take(db querier, timeout time.Duration, count int) ([]Job, error) {
	rows, err := db.QueryContext(ctx, "SELECT id, url, status, owner FROM xqueue.take(NULL::lib_pq_jobs, $1, $2)",
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
	_, err := db.ExecContext(ctx, "SELECT xqueue.ack('lib_pq_jobs', $1)", id)
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

func structs(db *sql.Conn) {
	must(put(db, task{"url": "a"}))
	jobs := get(take(db, 5*time.Second, 2))
	owner := sql.NullString{String: value[string](db, "SELECT xqueue.identify()"), Valid: true}
	equal(len(jobs), 1)
	equal(jobs[0], Job{jobs[0].ID, "a", "T", owner})
	must(ack(db, jobs[0].ID))
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
	equal(value[int64](db, "SELECT id FROM xqueue.ack(NULL::lib_pq_jobs, $1)", ids[3]), ids[3])
	get(db.ExecContext(ctx, "SELECT xqueue.ack(j) FROM lib_pq_jobs j WHERE id = $1", ids[4]))
}

func failures(db *sql.Conn) {
	var failure *pq.Error
	equal(errors.As(ack(db, 1000000), &failure), true)
	equal(failure.Code, "P0002")
	equal(failure.Hint != "", true)
}

// PgBouncer before 1.21 does not know prepared statements: with binary_parameters a statement and its parameters are sent together.
func throughPgBouncer() *sql.DB {
	return get(sql.Open("postgres", fmt.Sprintf("sslmode=disable binary_parameters=yes host=%s port=%s",
		os.Getenv("POOLER_HOST"), os.Getenv("POOLER_PORT"))))
}

func pgbouncer(db *sql.Conn) {
	pooled := throughPgBouncer()
	defer pooled.Close()
	must(put(db, []task{{"url": "a"}, {"url": "b"}}))
	for _, url := range []string{"a", "b"} {
		tx := get(pooled.BeginTx(ctx, nil))
		job := get(take(tx, 5*time.Second, 1))[0]
		equal(job.URL, url)
		must(ack(tx, job.ID))
		must(tx.Commit())
	}
}

// run runs a test, which must leave the queue empty.
func run(name string, test func(*sql.Conn)) {
	db := get(pool.Conn(ctx))
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Printf("not ok - %s\n%v\n", name, failure)
		} else {
			fmt.Println("ok -", name)
		}
		db.ExecContext(ctx, "DELETE FROM lib_pq_jobs; SELECT xqueue.give_back()") // the pool does not give tasks back
		db.Close()
	}()
	test(db)
	equal(value[int](pool, "SELECT count(*) FROM lib_pq_jobs"), 0)
}

func main() {
	run("a task is a struct", structs)
	run("put a list; ack an array, an object, a row", batches)
	run("an error has code and hint", failures)
	run("through PgBouncer, take and ack in one transaction", pgbouncer)
}
