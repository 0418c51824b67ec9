"""Exporters, Prometheus, alert rules and boards of docs/monitoring, with the server that the environment names."""

from contextlib import contextmanager
import glob
import json
from math import isnan
import os
from pathlib import Path
import re
import socket
import subprocess
from urllib.error import URLError
from urllib.parse import quote, urlencode
from urllib.request import urlopen
import uuid

import tap
from tap import psql, until

FOLDER, BOARDS = Path(os.environ["MONITORING"]), os.environ["BOARDS"]
DATABASE = os.environ["PGDATABASE"]
QUEUE, ROLE, PASSWORD = (f"monitoring_{uuid.uuid4().hex[:12]}" for _ in range(3))
WINDOW = "15s"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def fetched(url):
    """Returns the content of an address, or None while no server listens there."""
    try:
        with urlopen(url, timeout=10) as answer:
            return answer.read().decode()
    except (URLError, ConnectionError):
        return None


@contextmanager
def running(*command, **environment):
    with open(FOLDER / f"{Path(command[0]).name}.log", "w") as log:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def source():
    """Returns the address of the database, with the role that monitors it."""
    return f"postgres://{ROLE}:{PASSWORD}@127.0.0.1:{os.environ['PGPORT']}/{quote(DATABASE)}?sslmode=disable"


@contextmanager
def sql_exporter(port):
    text = (FOLDER / "sql-exporter.yml").read_text()
    text, found = re.subn(r"postgres://\S+", source(), text)
    assert found == 1, text
    (FOLDER / "sql-exporter.yml").write_text(text.replace("interval: 15s", "interval: 1s"))
    with running("prometheus-sql-exporter", f"-config.file={FOLDER}/sql-exporter.yml",
                 f"-web.listen-address=127.0.0.1:{port}"):
        yield


@contextmanager
def postgres_exporter(port):
    with running("prometheus-postgres-exporter", f"--web.listen-address=127.0.0.1:{port}", "--disable-default-metrics",
                 "--disable-settings-metrics", f"--extend.query-path={FOLDER}/postgres-exporter.yml",
                 DATA_SOURCE_NAME=source()):
        yield


@contextmanager
def prometheus(exporter_port):
    """Runs Prometheus with the docs' configuration, another port and a shorter interval. Yields a function that queries it."""
    text = (FOLDER / "prometheus.yml").read_text()
    for old, new in (("localhost:9237", f"127.0.0.1:{exporter_port}"), ("scrape_interval: 15s", "scrape_interval: 1s")):
        assert old in text, f"{old} is not in {text}"
        text = text.replace(old, new)
    (FOLDER / "running.yml").write_text(text + "\n")
    port = free_port()

    def ask(query):
        answer = fetched(f"http://127.0.0.1:{port}/api/v1/query?" + urlencode({"query": query}))
        answer = json.loads(answer) if answer else {"data": {"result": []}}
        return [(sample["metric"], float(sample["value"][1])) for sample in answer["data"]["result"]]

    with running("prometheus", f"--config.file={FOLDER}/running.yml", f"--storage.tsdb.path={FOLDER}/data-{port}",
                 f"--web.listen-address=127.0.0.1:{port}"):
        yield ask


def work():
    """Puts a task, then takes and acks the next one."""
    psql(f"SELECT xqueue.put('{QUEUE}', '{{}}'); SELECT xqueue.ack('{QUEUE}', (xqueue.take('{QUEUE}')->>'id')::bigint)")


def answers(exporter):
    """Prometheus has PostgreSQL's values, and answers queries for rates and quantiles"""
    port, own = free_port(), f'queue="{QUEUE}"'
    with exporter(port), prometheus(port) as ask:
        def value(query):
            return next((value for _, value in ask(query)), None)

        tasks = f'xqueue_tasks{{{own},state="ready"}}'
        until(lambda: value(tasks) is not None)
        labels, _ = ask(tasks)[0]
        expected = {"__name__": "xqueue_tasks", "database": DATABASE, "schema": "public", "queue": QUEUE, "state": "ready"}
        tap.equal({name: text for name, text in labels.items() if name not in ("instance", "job")}, expected)

        def busy(query):
            work()  # Rates need counters that change.
            answer = value(query)
            return answer if answer and not isnan(answer) else None

        per_second = until(lambda: busy(f'rate(xqueue_calls_total{{{own},call="ack"}}[{WINDOW}])'))
        quantile = until(lambda: busy(
            f"histogram_quantile(0.95, sum by (queue, le) (rate(xqueue_wait_seconds_bucket{{{own}}}[{WINDOW}])))"))
        until(lambda: (value(f"xqueue_oldest_ready_seconds{{{own}}}") or 0) > 0)
        labels = f"coalesce(labels->>'queue', '{QUEUE}') = '{QUEUE}' AND coalesce(labels->>'state', 'ready') = 'ready'"
        for name, query in (("xqueue_tasks", tasks), ("xqueue_worker_up", f'xqueue_worker_up{{database="{DATABASE}"}}')):
            until(lambda: value(query) == float(psql(f"SELECT value FROM xqueue.metric WHERE name = '{name}' AND {labels}")))
            print(f"# {query} = {value(query)}")
        print(f"# tasks acked per second: {per_second:.2f}; 95 of 100 had waited for no more than {quantile:.4f} s")


def alert_is_raised():
    """An alert: a queue that has lost its triggers is reported by Prometheus"""
    rules = (FOLDER / "alerts.yml").read_text()
    (FOLDER / "alerts.yml").write_text(re.sub(r"for: \d+m", "for: 1s", rules).replace("  - name: xqueue\n", "  - name: xqueue\n    interval: 1s\n"))
    psql(f"ALTER TABLE {QUEUE} DISABLE TRIGGER xqueue_update")
    port = free_port()
    with postgres_exporter(port), prometheus(port) as ask:
        until(lambda: ask(f'ALERTS{{alertname="XqueueError",alertstate="firing",queue="{QUEUE}"}}'))
        psql(f"ALTER TABLE {QUEUE} ENABLE ALWAYS TRIGGER xqueue_update")
        until(lambda: not ask(f'ALERTS{{alertname="XqueueError",queue="{QUEUE}"}}'))


def promtool_checks():
    """promtool: the rules and their tests, and the configuration"""
    for command in (["check", "config", "prometheus.yml"], ["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        run = subprocess.run(["promtool", *command], cwd=FOLDER, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr


def panels(board):
    """Yields the queries of a board, each with its panel's title."""
    board = json.loads(Path(board).read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target


def boards():
    """Grafana: PostgreSQL and Prometheus understand what the boards ask"""
    asked = 0
    port = free_port()
    with postgres_exporter(port), prometheus(port) as ask:
        until(lambda: ask("xqueue_worker_up"))
        for board in glob.glob(f"{BOARDS}/grafana-*.json"):
            for title, target in panels(board):
                if "rawSql" in target:
                    assert psql(target["rawSql"]), f"{board}: {title} shows nothing"
                elif "expr" in target:
                    query = target["expr"].replace("$__rate_interval", WINDOW).replace("$database", ".+").replace("$queue", ".+")
                    work()
                    assert until(lambda: ask(query)), f"{board}: {title} shows nothing"
                else:
                    assert target["target"].count("(") == target["target"].count(")"), f"{board}: {title}"
                asked += 1
    assert asked > 15, f"only {asked} questions"


def main():
    psql(f"""CREATE TABLE {QUEUE} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
             SELECT xqueue.upgrade('{QUEUE}');
             SELECT xqueue.put('{QUEUE}', '[{{}}, {{}}]');
             CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'; GRANT SELECT ON {QUEUE} TO {ROLE}""")
    try:
        for test, *exporters in ([promtool_checks], [answers, sql_exporter], [answers, postgres_exporter], [boards],
                                 [alert_is_raised]):
            if not tap.test(test, *exporters, prefix="".join(f"{exporter.__name__}: " for exporter in exporters)):
                for log in FOLDER.glob("*.log"):
                    print("\n".join(f"# {line}" for line in [log.name, *log.read_text().splitlines()[-15:]]), flush=True)
    finally:
        psql(f"DROP TABLE {QUEUE}; DROP ROLE {ROLE}")
    tap.end()


main()
