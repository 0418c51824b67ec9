// A consumer of the queue "jobs" with lib/pq: fetches pages and stores their lengths, until SIGTERM.
// The queue: a table jobs (id, url) with feature retry, and pages (job, length). PGHOST, PGDATABASE and so on name the server.
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"
	"time"

	_ "github.com/lib/pq"
)

// No row if the task was taken away meanwhile.
const release = "SELECT xqueue.release('jobs', $1, error => $2, if_held => true)"

type job struct {
	id  int64
	url string
}

// work stands for slow work that can fail.
func work(task job) (int, error) {
	if !strings.Contains(task.url, "://") {
		return 0, fmt.Errorf("%s is no URL", task.url)
	}
	return len(task.url), nil
}

func take(ctx context.Context, db *sql.Conn) (tasks []job, err error) {
	rows, err := db.QueryContext(ctx, "SELECT id, url FROM xqueue.take(NULL::jobs, '5s', 10)")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var task job
		if err := rows.Scan(&task.id, &task.url); err != nil {
			return nil, err
		}
		tasks = append(tasks, task)
	}
	return tasks, rows.Err()
}

func finish(ctx context.Context, db *sql.Conn, task job, length int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "INSERT INTO pages VALUES ($1, $2)", task.id, length); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SELECT xqueue.ack('jobs', $1)", task.id); err != nil {
		return err
	}
	return tx.Commit()
}

func consume(ctx context.Context, db *sql.Conn, stopping func() bool) error {
	for !stopping() {
		tasks, err := take(ctx, db)
		if err != nil {
			return err
		}
		for _, task := range tasks {
			if stopping() {
				break
			}
			length, err := work(task)
			if err == nil {
				err = finish(ctx, db, task, length)
			}
			if err != nil {
				if _, err := db.ExecContext(ctx, release, task.id, err.Error()); err != nil {
					return err
				}
			}
		}
	}
	_, err := db.ExecContext(ctx, "SELECT xqueue.give_back()")
	return err
}

func main() {
	terminated, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	stopping := func() bool { return terminated.Err() != nil }
	pool, err := sql.Open("postgres", "sslmode=disable")
	if err != nil {
		log.Fatal(err)
	}
	for ctx := context.Background(); !stopping(); {
		db, err := pool.Conn(ctx) // One connection from take to ack.
		if err == nil {
			err = consume(ctx, db, stopping)
			if err != nil { // A connection that returns to the pool would keep its tasks.
				db.Raw(func(any) error { return driver.ErrBadConn })
			}
			db.Close()
		}
		if err != nil { // The server gives back the tasks of a closed connection.
			log.Print(err)
			time.Sleep(time.Second)
		}
	}
}
