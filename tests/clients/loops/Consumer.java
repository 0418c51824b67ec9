// A consumer of the queue "jobs" with JDBC: fetches pages and stores their lengths, until SIGTERM.
// The queue: a table jobs (id, url) with feature retry, and pages (job, length). JDBC_URL, JDBC_USER and JDBC_PASSWORD name the server.

import java.sql.*;
import java.util.*;

class Consumer {
    record Job(long id, String url) {}

    // No row if the task was taken away meanwhile.
    static final String RELEASE = "SELECT xqueue.release('jobs', ?, error => ?, if_held => true)";
    static volatile boolean stopping;

    /** Stands for slow work that can fail. */
    static int work(Job task) {
        if (!task.url.contains("://")) {
            throw new IllegalArgumentException(task.url + " is no URL");
        }
        return task.url.length();
    }

    static List<Job> take(Connection db) throws SQLException {
        var tasks = new ArrayList<Job>();
        try (var rows = db.createStatement().executeQuery("SELECT id, url FROM xqueue.take(NULL::jobs, '5s', 10)")) {
            while (rows.next()) {
                tasks.add(new Job(rows.getLong("id"), rows.getString("url")));
            }
        }
        return tasks;
    }

    static void run(Connection db, String sql, Object... parameters) throws SQLException {
        try (var statement = db.prepareStatement(sql)) {
            for (int i = 0; i < parameters.length; i++) {
                statement.setObject(i + 1, parameters[i]);
            }
            statement.execute();
        }
    }

    static void consume(Connection db) throws SQLException {
        db.setAutoCommit(false);
        while (!stopping) {
            var tasks = take(db);
            db.commit(); // From here on, this connection owns the tasks.
            for (var task : tasks) {
                if (stopping) {
                    break;
                }
                try {
                    run(db, "INSERT INTO pages VALUES (?, ?)", task.id, work(task));
                    run(db, "SELECT xqueue.ack('jobs', ?)", task.id);
                } catch (Exception error) {
                    db.rollback();
                    run(db, RELEASE, task.id, error.getMessage());
                }
                db.commit();
            }
        }
        run(db, "SELECT xqueue.give_back()");
        db.commit();
    }

    public static void main(String[] arguments) throws InterruptedException {
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                main.join(); // SIGTERM ends the JVM when its hooks have ended.
            } catch (InterruptedException ignored) {
            }
        }));
        var env = System.getenv();
        while (!stopping) {
            try (var db = DriverManager.getConnection(env.get("JDBC_URL"), env.get("JDBC_USER"), env.get("JDBC_PASSWORD"))) {
                consume(db);
            } catch (SQLException error) { // The server has given back the tasks of this connection.
                System.err.println(error.getMessage());
                Thread.sleep(1000);
            }
        }
    }
}
