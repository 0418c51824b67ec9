// JDBC: parameters with the types of Java, arrays, records, errors, PgBouncer. JDBC only supports TCP, so JDBC_URL,
// JDBC_USER and JDBC_PASSWORD name the server and a role that `run` creates.

import java.sql.*;
import java.util.*;
import org.postgresql.util.PSQLException;

class JdbcClient {
    record Job(long id, String url, String options, String status, UUID owner) {
        Job(ResultSet row) throws SQLException {
            this(row.getLong("id"), row.getString("url"), row.getString("options"), row.getString("status"),
                    row.getObject("owner", UUID.class));
        }
    }

    interface Reader<T> {
        T read(ResultSet row) throws SQLException;
    }

    interface Test {
        void run() throws Exception;
    }

    static final Reader<Long> ID = row -> row.getLong(1);
    static final Reader<String> TEXT = row -> row.getString(1);
    static final Map<String, String> env = System.getenv();
    static Connection db;

    static Connection connect(String options) throws SQLException {
        return DriverManager.getConnection(env.get("JDBC_URL") + options, env.get("JDBC_USER"), env.get("JDBC_PASSWORD"));
    }

    /** PgBouncer before 1.21 does not know prepared statements. */
    static Connection throughPgBouncer() throws SQLException {
        var url = env.get("JDBC_POOLER_URL") + "prepareThreshold=0";
        return DriverManager.getConnection(url, env.get("JDBC_USER"), env.get("JDBC_PASSWORD"));
    }

    static <T> List<T> query(Connection db, Reader<T> reader, String sql, Object... parameters) throws SQLException {
        try (var statement = db.prepareStatement(sql)) {
            for (int i = 0; i < parameters.length; i++) {
                statement.setObject(i + 1, parameters[i]);
            }
            var result = new ArrayList<T>();
            try (var rows = statement.executeQuery()) {
                while (rows.next()) {
                    result.add(reader.read(rows));
                }
            }
            return result;
        }
    }

    /** The ids of new tasks. */
    static List<Long> put(String json) throws SQLException {
        return query(db, ID, "SELECT id FROM xqueue.put(NULL::jobs, ?::jsonb) ORDER BY id", json);
    }

    static List<Long> put(List<String> urls) throws SQLException {
        return put(urls.stream().map("{\"url\": \"%s\"}"::formatted).toList().toString());
    }

    static List<Job> take(Connection db, int count) throws SQLException {
        return query(db, Job::new, "SELECT * FROM xqueue.take(NULL::jobs, ?::interval, ?)", "5s", count);
    }

    static List<Long> ack(Object id) throws SQLException {
        return query(db, ID, "SELECT id FROM xqueue.ack(NULL::jobs, ?) ORDER BY id", id);
    }

    static void equal(Object actual, Object expected) {
        if (!Objects.equals(actual, expected)) {
            throw new AssertionError("expected " + expected + ", got " + actual);
        }
    }

    static void fails(String state, Test test) throws Exception {
        try {
            test.run();
        } catch (PSQLException e) {
            equal(e.getSQLState(), state);
            if (e.getServerErrorMessage().getHint() == null) {
                throw new AssertionError("no hint", e);
            }
            return;
        }
        throw new AssertionError("it did not fail with " + state);
    }

    static void objects() throws SQLException {
        long id = put("{\"url\": \"a\", \"options\": {\"depth\": [1, 2]}}").get(0);
        var owner = query(db, row -> row.getObject(1, UUID.class), "SELECT xqueue.identify()").get(0);
        equal(take(db, 1), List.of(new Job(id, "a", "{\"depth\": [1, 2]}", "T", owner)));
        equal(ack(id), List.of(id));
    }

    static void batches() throws SQLException {
        try (var insert = db.prepareStatement("INSERT INTO jobs (url) VALUES (?)")) {
            for (var url : List.of("a", "b", "c")) {
                insert.setString(1, url);
                insert.addBatch();
            }
            insert.executeBatch();
        }
        var ids = put(List.of("d", "e", "f", "g"));
        var jobs = take(db, 7);
        equal(jobs.stream().map(Job::url).toList(), List.of("a", "b", "c", "d", "e", "f", "g"));
        var first = new Long[] {jobs.get(0).id, jobs.get(1).id};
        equal(ack(db.createArrayOf("bigint", first)), List.of(first));
        equal(ack(new long[] {jobs.get(2).id, ids.get(0)}).size(), 2);
        equal(ack(ids.get(1).intValue()), ids.subList(1, 2));
        equal(ack("{\"id\": " + ids.get(2) + "}"), ids.subList(2, 3));
        equal(query(db, TEXT, "SELECT (xqueue.ack(t)).url FROM jobs t WHERE id = ?", ids.get(3)), List.of("g"));
    }

    /** JDBC sends a String as varchar, which needs casts, unless the URL says stringtype=unspecified. Repetitions prepare it. */
    static void types() throws SQLException {
        try (var untyped = connect("&stringtype=unspecified")) {
            for (int n = 0; n < 8; n++) {
                for (var other : List.of(db, untyped)) {
                    var cast = other == db;
                    query(other, TEXT, "SELECT xqueue.put(?, ?%s)".formatted(cast ? "::jsonb" : ""), "jobs", "{\"url\": \"a\"}");
                    var take = "SELECT xqueue.take(?, ?%s, ?, tube => ?)->>'id'".formatted(cast ? "::interval" : "");
                    var id = query(other, TEXT, take, "jobs", "5s", 1, null).get(0);
                    var ack = "SELECT xqueue.ack(?, ?)->>'id'";
                    equal(query(other, TEXT, ack, "jobs", cast ? Long.valueOf(id) : id), List.of(id));
                }
            }
        }
    }

    static void errors() throws Exception {
        long id = put(List.of("a")).get(0);
        fails("P0002", () -> ack(id + 1000));
        fails("55000", () -> ack(id));
        fails("22004", () -> query(db, ID, "SELECT xqueue.ack('jobs', ?)", (Object) null));
        fails("42703", () -> put("{\"nothing\": 1}"));
        take(db, 1);
        ack(id);
    }

    static void next() throws SQLException {
        var ids = put(List.of("a", "b"));
        var task = query(db, TEXT, "CALL xqueue.next('jobs', '5s')").get(0);
        task = query(db, TEXT, "CALL xqueue.next('jobs', '5s', task => ?::jsonb)", task).get(0);
        equal(query(db, ID, "SELECT id FROM jobs"), ids.subList(1, 2));
        equal(query(db, TEXT, "CALL xqueue.next('jobs', '0', task => ?::jsonb)", task).get(0), null);
    }

    static void pgBouncer() throws SQLException {
        var ids = put(List.of("a", "b", "c", "d", "e", "f"));
        try (var pooled = throughPgBouncer()) {
            pooled.setAutoCommit(false);
            for (long id : ids) { // enough repetitions for JDBC to prepare the statement
                equal(take(pooled, 1).get(0).id, id);
                query(pooled, TEXT, "SELECT xqueue.ack('jobs', ?)", id);
                pooled.commit();
            }
            put(List.of("a"));
            var session = query(pooled, row -> row.getObject(1, UUID.class),
                    "SELECT xqueue.identify(grace => '1 min', local => true)").get(0);
            long id = take(pooled, 1).get(0).id;
            pooled.commit();
            query(pooled, TEXT, "SELECT xqueue.identify(?, local => true)", session);
            query(pooled, TEXT, "SELECT xqueue.ack('jobs', ?)", id);
            pooled.commit();
        }
    }

    static void run(String name, Test test) throws SQLException {
        try {
            test.run();
            equal(query(db, ID, "SELECT count(*) FROM jobs"), List.of(0L));
            System.out.println("ok - " + name);
        } catch (Exception | AssertionError e) {
            System.out.println("not ok - " + name);
            e.printStackTrace(System.out);
            if (!db.getAutoCommit()) {
                db.rollback();
                db.setAutoCommit(true);
            }
            query(db, ID, "DELETE FROM jobs RETURNING 0");
        }
    }

    /** The role owns the table `jobs` in its schema, and `run` drops both. */
    public static void main(String[] arguments) throws SQLException {
        db = connect("");
        try (var statement = db.createStatement()) {
            statement.execute("CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, url text, options jsonb)");
            statement.execute("SELECT xqueue.upgrade('jobs', '{\"features\": {\"retry\": true}}')");
        }
        run("put takes JSON, take gives records, ack takes an id", JdbcClient::objects);
        run("a batch is inserted or put as a list, and acked as an array", JdbcClient::batches);
        run("strings with casts, and without when they have no type", JdbcClient::types);
        run("an error has SQLSTATE and hint", JdbcClient::errors);
        run("CALL next acks and takes", JdbcClient::next);
        run("through PgBouncer, take and ack in one transaction, and in two transactions of an identified session",
                JdbcClient::pgBouncer);
    }
}
