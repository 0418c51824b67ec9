"""The environment of the board's tests: a database with queues, sessions, the board's process, and requests."""

import http.client
import http.server
import os
import subprocess
import threading
import urllib.parse

from tap import psql, until

DATABASE = f"board_{os.getpid()}"
READER, STRANGER, PASSWORD = f"reader_{os.getpid()}", f"stranger_{os.getpid()}", "se:cret ü"
HOSTILE = f"hostile_{os.getpid()}"
SCRIPT = "<script>document.title = 7</script>"
# A name and a key that break code without proper quoting in HTML and SQL, or with JavaScript's numbers.
ODD, ODD_SHOWN = '"<b>Odd</b>""s"', 'public."<b>Odd</b>""s"'
BIG = 9007199254740993

QUEUES = f"""
CREATE EXTENSION xqueue;
SELECT xqueue.create('jobs', '{{"features": {{"delayed": true, "buried": true, "ttr": "5 min"}}}}');
SELECT xqueue.put('jobs', '[{{}}, {{}}, {{}}, {{}}, {{}}, {{}}]');
SELECT xqueue.put('jobs', '{{}}', delay => '1 h');
SELECT xqueue.create('mails', '{{"features": {{"retry": {{"limit": 1}}}}}}');
SELECT xqueue.put('mails', '[{{"payload": "to ann"}}, {{"payload": "to bob"}}, {{"payload": "to eve"}}]');
SELECT xqueue.release('mails', id, error => 'refused by {SCRIPT}') FROM xqueue.take(NULL::mails, count => 3);
SELECT xqueue.create('idle');
SELECT xqueue.create('room', '{{"features": {{"capacity": 1}}}}');
SELECT xqueue.put('room', '{{}}');
CREATE TABLE {ODD} (a text, b bigint, note text, PRIMARY KEY (a, b));
SELECT xqueue.upgrade('{ODD}', '{{"features": {{"buried": true}}}}');
SELECT xqueue.put('{ODD}', '{{"a": "x, y", "b": {BIG}, "note": "{SCRIPT}"}}');
SELECT xqueue.bury('{ODD}', ROW(a, b)) FROM xqueue.take(NULL::{ODD});
CREATE ROLE {READER} LOGIN PASSWORD '{PASSWORD}';
CREATE ROLE {STRANGER} LOGIN PASSWORD '{PASSWORD}';
GRANT SELECT ON mails TO {READER};
CREATE ROLE {HOSTILE};
"""

# A queue whose owner has functions at every point where reading its tasks can call one. Each function raises FIRED if it runs with
# the rights of another role. It can raise FIRED in a read-only transaction too.
FIRED = "code of the owner runs as another role"
TRAP = f"""
GRANT CREATE, USAGE ON SCHEMA public TO {HOSTILE};
SET ROLE {HOSTILE};
CREATE FUNCTION note(about text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
  IF current_user <> '{HOSTILE}' THEN RAISE '{FIRED}'; END IF;
  RETURN true; END $$;
CREATE TYPE kind AS ENUM ('a', 'b');
CREATE TYPE pair AS (kind kind, no int);
CREATE TYPE span AS RANGE (subtype = kind);
CREATE DOMAIN named AS kind CHECK (note(VALUE::text));
DO $$ DECLARE source text; target text; BEGIN
  FOREACH source IN ARRAY ARRAY['kind', 'pair', 'span'] LOOP
    FOREACH target IN ARRAY ARRAY['json', 'jsonb', 'text'] LOOP
      EXECUTE format('CREATE FUNCTION of_%1$s_%2$s(%1$s) RETURNS %2$s LANGUAGE plpgsql AS
        ''BEGIN PERFORM public.note(NULL); RETURN 7; END''; CREATE CAST (%1$s AS %2$s) WITH FUNCTION of_%1$s_%2$s(%1$s) AS IMPLICIT',
        source, target);
    END LOOP; END LOOP; END $$;
CREATE TABLE trap (id kind, no int, PRIMARY KEY (id, no), kinds kind[] DEFAULT '{{a,b}}', named named DEFAULT 'b',
  pair pair DEFAULT '(a,7)', span span DEFAULT '[a,b]', made boolean GENERATED ALWAYS AS (note(no::text)) STORED,
  CHECK (note(no::text)));
SELECT xqueue.upgrade('trap', '{{"features": {{"buried": true, "retry": {{}}}}}}');
INSERT INTO trap (id, no, status) VALUES ('a', 1, 'B'), ('b', 2, 'R');
CREATE INDEX ON trap (no) WHERE note('predicate');
CREATE INDEX ON trap ((note(no::text)));
CREATE STATISTICS looked ON (note(no::text)), (no + 1) FROM trap;
ANALYZE trap;
"""


# Replaces the extension with a view that reports how it is read. It also changes settings of its session, to affect later reads.
POISON = """
CREATE SCHEMA xqueue;
CREATE FUNCTION xqueue.state() RETURNS text RETURN 'RUNNING';
CREATE FUNCTION xqueue.poison() RETURNS text LANGUAGE plpgsql AS $$
DECLARE seen text := concat_ws('; ', current_setting('transaction_read_only'), current_setting('search_path'),
  current_setting('statement_timeout'), current_setting('xqueue_board.poisoned', true));
BEGIN
  PERFORM set_config('default_transaction_read_only', 'off', false), set_config('search_path', 'public', false),
    set_config('statement_timeout', '0', false), set_config('xqueue_board.poisoned', 'poisoned', false);
  RETURN seen || '; ' || clock_timestamp();
END $$;
CREATE VIEW xqueue.workers AS SELECT current_database() AS database, xqueue.poison() AS error;
"""


def sql(statements, database=DATABASE):
    return psql(statements, database)


def failure(statements):
    """Runs statements that must fail, and returns psql's messages."""
    try:
        answer = sql(statements)
    except AssertionError as error:
        return str(error)
    raise AssertionError(f"{statements} did not fail: {answer}")


class Listener:
    """Another user's server on this host. It records the cookies that it receives."""

    def __init__(self):
        cookies = self.cookies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                cookies.append(self.headers["Cookie"])
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<title>heard</title><link rel=icon href=data:,>")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Session:
    """A psql that stays open. The last statement can still be running."""

    def __init__(self, name, statements):
        self.process = subprocess.Popen(
            ["psql", "-Xq", "-d", DATABASE], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PGAPPNAME": name})
        self.process.stdin.write(statements)
        self.process.stdin.flush()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


class Board:
    """The board's process, on a free port."""

    def __init__(self, *options, **environment):
        self.process = subprocess.Popen(
            [os.environ["BOARD"], "--listen", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PGDATABASE": DATABASE, **environment})
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.process.stderr.read()
        parts = urllib.parse.urlsplit(self.url)
        self.host, self.port, self.folder = parts.netloc, parts.port, parts.path.rstrip("/")
        self.key = urllib.parse.parse_qs(parts.query).get("key", [""])[0]

    def request(self, path, method="GET", key=None, folder=None, **headers):
        """Returns the status and the content of a response. In names of headers, _ stands for -."""
        query = {"key": self.key if key is None else key}
        path = (self.folder if folder is None else folder) + path + ("&" if "?" in path else "?") + urllib.parse.urlencode(query)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, headers={"Host": self.host, **given})
            answer = connection.getresponse()
            self.headers = answer.headers
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def token(self, **headers):
        return self.request("/", **headers)[1].split('data-token="')[1].split('"')[0]

    def post(self, action, **parameters):
        """Sends a POST request like the page."""
        return self.request(f"/api/{action}?{urllib.parse.urlencode(parameters)}", "POST",
                            Origin=f"http://{self.host}", X_Board_Token=self.token())

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def server(command):
    """Stops or starts the server, as its user."""
    data, user = os.environ["XQUEUE_PGDATA"], os.environ.get("XQUEUE_AS", "").split()
    how = {"stop": ["-m", "fast"], "start": ["-l", f"{data}/board.log"]}[command]
    subprocess.run([*user, f"{os.environ['XQUEUE_PGBIN']}/pg_ctl", "-D", data, "-w", *how, command],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def make():
    """Makes the database, and returns the sessions that hold tasks and wait."""
    sql(f"CREATE DATABASE {DATABASE}", "postgres")
    sql(QUEUES)
    sessions = [
        Session("holder <i>", "SELECT xqueue.take('jobs', count => 2);\n"),
        Session("waiter", "CALL xqueue.next('idle');\n"),
        Session("putter", "SELECT xqueue.put('room', '[{}]', timeout => '1 h');\n"),
    ]
    wanted = "SELECT " + ", ".join(f"(SELECT count(*) FROM xqueue.{view})" for view in ("tasks_in_flight", "consumers", "producers"))
    until(lambda: sql(wanted) == "2|1|1", "two tasks in flight, a consumer and a producer that wait")
    return sessions


def unmake():
    sql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE); DROP ROLE IF EXISTS {READER}, {STRANGER}, {HOSTILE}", "postgres")
