"""Tests of the board, through its page in a browser and through the responses of its process."""

import base64
from contextlib import ExitStack, closing, suppress
import json
import os
import socket
import urllib.parse

from browser import Browser
from surroundings import (BIG, DATABASE, FIRED, HOSTILE, ODD, ODD_SHOWN, PASSWORD, POISON, READER, SCRIPT, STRANGER, TRAP,
                          Board, Listener, Session, failure, make, server, sql, unmake)
import tap
from tap import equal, until

TAKEN_TASK = "SELECT id FROM jobs WHERE status = 'T' ORDER BY id LIMIT 1"


class Page:
    """The page in the browser."""

    def __init__(self, browser, board):
        self.browser, self.board = browser, board

    def open(self, **shown):
        """Loads the page of a queue, or of a part of the list, and waits for its data."""
        self.browser.open("about:blank")
        self.browser.open(f"{self.board.url}#{urllib.parse.urlencode(shown)}")
        self.until("document.getElementById('live-text')?.textContent === 'live'", "the page is live")

    def value(self, expression):
        return self.browser.evaluate(expression)

    def until(self, expression, what):
        return until(lambda: self.value(expression), f"{what}: {expression}")

    def text(self, selector):
        return self.value(f"document.querySelector({json.dumps(selector)})?.innerText")

    def rows(self, section):
        """Returns the texts of the visible cells in the list of a section."""
        return self.value(f"""[...document.querySelectorAll('#{section} tbody tr')].map((row) => [...row.cells]
            .filter((cell) => cell.offsetParent).map((cell) => cell.innerText.trim()))""")

    def falsify(self, change):
        """Changes each further `answer` of the board before the page sees it."""
        self.value(f"""(() => {{ const ask = window.fetch; window.fetch = async (...given) => {{
            const answer = await (await ask(...given)).json(); {change}; return Response.json(answer); }}; }})()""")

    def click(self, label, within="body"):
        buttons = f"[...document.querySelectorAll({json.dumps(within + ' button')})]"
        self.value(f"{buttons}.find((button) => button.textContent === {json.dumps(label)}).click()")

    def tiles(self):
        return dict(self.value("""[...document.querySelectorAll('#tiles > div')].map((tile) =>
            [...tile.children].map((part) => part.textContent))"""))

    def screenshot(self, name):
        self.browser.screenshot(f"{os.environ['SCREENSHOTS']}/{name}.png")


def queues_with_numbers(page):
    """the page shows each queue with its numbers"""
    page.open()
    shown = {name.split("\n")[0]: numbers for name, _, *numbers in page.rows("queues")}
    wanted = sql("SET search_path = pg_catalog; SELECT queue, ready, taken, waiting, buried, consumers FROM xqueue.queues")
    expected = {line.split("|")[0]: line.split("|")[1:] for line in wanted.split("\n")}
    equal({name: [*numbers[:4], numbers[-1]] for name, numbers in shown.items()}, expected)
    equal(expected["public.jobs"], ["4", "2", "1", "0", "0"])
    tiles = page.tiles()
    names = ("Queues", "Ready", "Taken", "Waiting", "Buried", "Consumers waiting")
    equal([tiles[name] for name in names], ["5", "5", "2", "1", "4", "1"])
    assert f"{DATABASE} · as postgres" in page.text("#server"), page.text("#server")
    page.screenshot("all")


def plots_move(page):
    """plots and numbers follow what happens, and a reload keeps the plots"""
    page.open()
    points = "(document.querySelector('#plot-tasks .line.ready')?.getAttribute('d') ?? '').split('L')"
    height = f"Number({points}.at(-1).split(' ')[1])"
    page.until(f"{points}.length > 2", "a line of three points")
    before = page.value(height)
    try:
        sql("SELECT xqueue.put('jobs', (SELECT jsonb_agg('{}'::jsonb) FROM generate_series(1, 1234)))")
        page.until("document.querySelector('#tiles .ready dd').textContent === '1,239'", "the tasks are counted")
        # The axis grows from 10 to 2,000, where 1,239 tasks are above the middle.
        page.until(f"{height} > {before} + 5 && {height} < 90", "the line has moved")
        number = page.value(f"{points}.length")
        page.browser.call("Page.reload")
        page.until(f"{points}.length > {number}", "the points of before the reload")
    finally:
        sql("DELETE FROM jobs WHERE id > 7")


def lists_of_sessions(page):
    """tasks in flight, waiting consumers and producers are listed with their connections"""
    page.open()
    activity = sql("SELECT application_name, pid FROM pg_stat_activity WHERE datname = current_database()")
    pids = dict(line.split("|") for line in activity.split("\n"))
    in_flight, holder = page.rows("in_flight"), [pids["holder <i>"], "holder <i>"]
    equal([[row[0], row[1], *row[4:]] for row in in_flight], [["public.jobs", task, "–", *holder] for task in ("1", "2")])
    assert all(row[3].startswith("4 min") for row in in_flight), in_flight
    equal([[row[0], *row[2:]] for row in page.rows("consumers")], [["public.idle", pids["waiter"], "waiter"]])
    equal([[row[0], row[1], *row[3:]] for row in page.rows("producers")], [["public.room", "1", pids["putter"], "putter"]])


def long_keys(page):
    """tasks in flight whose keys begin in the same way are told apart"""
    sql("CREATE TABLE long (id text PRIMARY KEY); SELECT xqueue.upgrade('long');"
        "INSERT INTO long SELECT repeat('x', 200) || n FROM generate_series(1, 3) AS n")
    try:
        with closing(Session("long", "SELECT xqueue.take('long', count => 3);\n")):
            page.open(queue="public.long")
            page.until("document.querySelectorAll('#in_flight tbody tr').length === 3", "a row for each")
    finally:
        sql("DROP TABLE long")


def names_are_text(page):
    """names, contents and errors that look like HTML are shown as text"""
    page.open(queue="public.mails")
    reason = page.rows("buried")[0][2]
    assert reason.endswith(f"refused by {SCRIPT}"), reason
    page.open(queue=ODD_SHOWN)
    equal(page.text("#title h2"), ODD_SHOWN)
    task, _, _, content = page.rows("buried")[0][:4]
    equal((task, content), (f"(x, y, {BIG})", f"note: {SCRIPT}"))
    equal(page.value("document.querySelectorAll('main script, main b, main i, main img').length"), 4 + 2)
    assert page.value("document.title").startswith(ODD_SHOWN)


def many_queues(page):
    """many queues are filtered, sorted and shown page by page"""
    sql("CREATE SCHEMA many; SELECT xqueue.create('many.q' || n) FROM generate_series(101, 160) AS n;"
        "SELECT xqueue.put('many.q130', '[{}, {}, {}, {}, {}, {}, {}, {}, {}]')")
    try:
        page.open()
        page.until("document.getElementById('matching').textContent === '1–50 of 65'", "the first page")
        page.click("Next", "#pages")
        page.until("document.getElementById('matching').textContent === '51–65 of 65'", "the second page")
        equal(len(page.rows("queues")), 15)
        page.click("Ready", "#table-queues")
        page.until("document.querySelector('#table-queues tbody a').textContent === 'many.q130'", "the greatest first")
        equal(page.value("document.querySelector('#table-queues th[aria-sort]').textContent"), "Ready")
        page.value("document.getElementById('filter').value = 'Q15'")
        page.value("document.getElementById('filter').dispatchEvent(new Event('input'))")
        page.until("document.getElementById('matching').textContent === '10 queues'", "only those asked for")
        equal({row[0][:8] for row in page.rows("queues")}, {"many.q15"})
    finally:
        sql("SELECT xqueue.drop('many.q' || n) FROM generate_series(101, 160) AS n; DROP SCHEMA many")


def slow_tasks(page):
    """percentiles above the greatest bound are told from those of no task"""
    page.open(queue="public.jobs")
    page.falsify("Object.assign(answer.latency, { wait: [null, null, null], taken: 1, acked: 0 })")
    page.until("document.getElementById('tiles').textContent.includes('>8 h · >8 h · >8 h')", "the bounds")
    equal(page.tiles()["Work p50 · p95 · p99"], "–")


def failed_section(page):
    """a list of queues that cannot be read leaves no old numbers"""
    page.open()
    page.falsify("answer.queues = { error: { message: 'no time' } }")
    page.until("document.getElementById('matching').textContent === 'Not shown: no time'", "the reason")
    equal(page.value("['tiles', 'plots', 'table-queues', 'pages'].map((id) => document.getElementById(id).hidden)"), [True] * 4)


def moving(page):
    """each page has all its parts, whatever page was before"""
    page.open(queue="public.none")
    jobs = ("queue=public.jobs", "#badges .badge")
    for to, part in (("", "#tiles .ready"), jobs, ("", "#table-queues tbody a"), jobs):
        page.value(f"location.hash = '{to}'")
        page.until(f"Boolean(document.querySelector('{part}')?.offsetParent)", f"what is shown at '{to}'")


def keyboard(page):
    """the page is used by keyboard"""
    page.open()
    link = "[...document.querySelectorAll('#table-queues tbody a')].find((link) => link.textContent === 'public.jobs')"
    page.until(f"Boolean({link})", "the list without the queues that are gone")
    page.value(f"{link}.focus()")
    page.browser.key("Enter", 13)
    page.until("document.querySelector('#title h2').textContent === 'public.jobs'", "the queue's page")
    page.until("document.querySelectorAll('#in_flight tbody tr').length === 2", "its tasks in flight")
    page.screenshot("queue")


def fits(page):
    """the page fits windows of 400 and 1280 pixels, in light and dark"""
    try:
        for width, scheme in ((400, "dark"), (1280, "light"), (400, "light"), (1280, "dark")):
            page.browser.size(width)
            page.browser.scheme(scheme)
            for shown in ({}, {"queue": "public.mails"}):
                page.open(**shown)
                assert page.value("document.documentElement.scrollWidth") <= width, (width, shown)
                page.screenshot(f"{'queue' if shown else 'all'}-{width}-{scheme}")
    finally:
        page.browser.size(1280)
        page.browser.scheme("light")


def hidden_page(page):
    """a page that is hidden asks for nothing"""
    page.open()
    page.value("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    asked = "performance.getEntriesByType('resource').length"
    # Requests in progress get time to end. In the interval after that, a visible page would ask twice.
    page.value("new Promise((resolve) => setTimeout(resolve, 1200))")
    before = page.value(asked)
    page.value("new Promise((resolve) => setTimeout(resolve, 2200))")
    equal(page.value(asked), before)
    page.value("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    page.until(f"{asked} > {before}", "it asks again")


def read_only(page):
    """without --write there are no buttons, and nothing can be changed"""
    page.open(queue="public.mails")
    equal(len(page.rows("buried")), 3)
    equal(page.value("document.querySelectorAll('#buried button, #pause button, #pause select').length"), 0)
    equal(page.text("#mode"), "read-only")
    for action in ("retry", "delete", "retry-all", "pause", "resume"):
        status, answer = page.board.post(action, queue="public.mails", id='{"id": 1}')
        equal((status, "only looks" in answer), (403, True))
    equal(sql("SELECT buried FROM xqueue.queues WHERE queue = 'mails'::regclass"), "3")


def retried_and_deleted(page):
    """with --write buried tasks are retried and deleted"""
    page.open(queue="public.mails")
    page.click("Retry", "#buried tbody tr:first-child")
    page.until("document.querySelectorAll('#buried tbody tr').length === 2", "one is no longer buried")
    equal(sql("SELECT status FROM mails ORDER BY id"), "R\nB\nB")
    page.click("Delete", "#buried tbody tr:first-child")
    equal(sql("SELECT count(*) FROM mails"), "3")
    page.click("Delete for good?", "#buried tbody tr:first-child")
    page.until("document.querySelectorAll('#buried tbody tr').length === 1", "one is deleted")
    equal(sql("SELECT id, status FROM mails ORDER BY id"), "1|R\n3|B")
    assert "Task 2 is deleted" in page.text("#notice"), page.text("#notice")
    page.screenshot("write")
    page.click("Retry all", "#buried .tools")
    page.click("Retry all of them?", "#buried .tools")
    page.until("document.querySelectorAll('#buried tbody tr').length === 0", "none is buried")
    equal(sql("SELECT id, status FROM mails ORDER BY id"), "1|R\n3|R")
    page.open(queue=ODD_SHOWN)
    page.click("Retry", "#buried tbody tr:first-child")
    page.until("document.querySelectorAll('#buried tbody tr').length === 0", "the task with the odd key is not buried")
    equal(sql(f"SELECT b, status FROM {ODD}"), f"{BIG}|R")


def paused_and_resumed(page):
    """with --write a queue is paused and resumed"""
    page.open(queue="public.idle")
    page.click("Pause", "#pause")
    page.until("document.querySelector('#pause .badge').textContent === 'paused'", "it is paused")
    equal(sql("SELECT paused_until FROM xqueue.definitions WHERE queue = 'idle'::regclass"), "infinity")
    page.click("Resume", "#pause")
    page.until("document.querySelector('#pause .badge').textContent === 'running'", "it is not paused")
    equal(sql("SELECT paused_until IS NULL FROM xqueue.definitions WHERE queue = 'idle'::regclass"), "t")
    sql("SELECT xqueue.pause('idle', '280000 years')")
    page.until("document.querySelector('#pause .badge').textContent === 'paused'", "it is paused, past JavaScript's last time")
    sql("SELECT xqueue.resume('idle')")
    sql("SELECT xqueue.upgrade('idle', '{\"features\": {\"guard\": false, \"ttl\": true}}')")
    names = "document.querySelector('#badges').textContent"
    page.until(f"{names}.includes('ttl') && !{names}.includes('guard')", "the features that are on have badges")


def taken_task_stays(page):
    """a task that was taken since it was shown as buried is not deleted"""
    task = sql(TAKEN_TASK)
    equal(page.board.post("delete", queue="public.jobs", id=json.dumps({"id": int(task)})), (200, '{"done": 0}'))
    equal(sql(TAKEN_TASK), task)


def foreign_requests(page):
    """requests of other pages, under other names and without the key are refused"""
    # The tests of admission.rs have more of each kind.
    board = page.board
    token, own, resume = board.token(), f"http://{board.host}", "/api/resume?queue=public.idle"
    for status, headers in ((200, {"Origin": own, "X_Board_Token": token}), (403, {"X_Board_Token": token}),
                            (403, {"Origin": own}), (403, {"Origin": "http://example.org", "X_Board_Token": token})):
        equal((headers, board.request(resume, "POST", **headers)[0]), (headers, status))
    for path in ("/", "/api/board", "/board.js"):
        for status, changed in ((200, {}), (421, {"Host": "example.org"}), (403, {"key": ""}), (403, {"key": board.key[:-1] + "x"}),
                                (403, {"key": "", "folder": ""}), (404, {"folder": ""}), (404, {"folder": board.folder[:-1] + "x"})):
            equal((path, changed, board.request(path, **changed)[0]), (path, changed, status))
    board.request("/")
    cookie = board.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie, cookie
    equal(board.request("/api/board", key="", Cookie=cookie.split(";")[0])[0], 200)
    assert "frame-ancestors 'none'" in board.headers["Content-Security-Policy"]
    equal([board.request(path, method)[0] for path, method in (("/none", "GET"), ("/", "PUT"))], [404, 405])


def owners_code(page):
    """no page runs a function of a queue's owner: not a cast, a check, one of an index or of statistics"""
    sql(TRAP)
    try:
        for careless in ("SELECT to_jsonb(t) FROM trap AS t", "SELECT id::text FROM trap", "SELECT no FROM trap WHERE no = 1"):
            assert FIRED in failure(careless), careless
        for path in ("/api/board", "/api/board?queue=public.trap", "/api/board?sort=-ready&filter=trap"):
            status, answer = page.board.request(path)
            equal((path, status, FIRED in answer), (path, 200, False))
        page.open(queue="public.trap")
        task, attempts, _, content = page.rows("buried")[0][:4]
        equal((task, attempts), ("(a, 1)", "0"))
        equal(set(content.split("\n")), {"made: t", "named: b", "pair: (a,7)", "span: [a,b]", "kinds: {a,b}"})
    finally:
        sql(f"SET ROLE {HOSTILE}; SELECT xqueue.downgrade('trap'); RESET ROLE; DROP OWNED BY {HOSTILE} CASCADE")


def one_connection(page):
    """a viewer has one connection at most, whatever the number of windows, and none is left after a look"""
    page.open()
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'xqueue board' AND datname = current_database()"
    for _ in range(3):
        page.board.request("/api/board?queue=public.jobs")
        assert int(sql(ours)) <= 1
    page.browser.open("about:blank")
    until(lambda: sql(ours) == "0", "the connections are closed")


def key_stays_here(page):
    """the browser keeps the key for further windows, and gives it to no other server on this host"""
    page.open()
    page.browser.open("about:blank")
    page.browser.open(page.board.url.split("?")[0])
    page.until("document.getElementById('live-text')?.textContent === 'live'", "the page is live without the key")
    with closing(Listener()) as other:
        page.browser.open(other.url)
        page.until("document.title === 'heard'", "the other server's page")
        equal(other.cookies, [None] * len(other.cookies))


def silent_connections(page):
    """connections that say nothing, or have no key, take no place from a viewer"""
    board, strangers = page.board, []
    with ExitStack() as connections:
        for said in (b"", b"GET / HTTP/1.1\r\n", f"GET /api/board HTTP/1.1\r\nHost: {board.host}\r\n\r\n".encode()):
            for _ in range(200):
                stranger = connections.enter_context(socket.create_connection(("127.0.0.1", board.port), timeout=20))
                strangers.append(stranger)
                stranger.sendall(said)
            equal(board.request("/api/board")[0], 200)
        # The board also closes the remaining connections of strangers.
        for stranger in strangers:
            with suppress(ConnectionError):
                while stranger.recv(4096):
                    pass
    equal(board.request("/api/board")[0], 200)


def settings_of_looks(_):
    """each look is read-only, with the board's settings, on a connection that no other look has used"""
    database = f"{DATABASE}_poisoned"
    sql(f"CREATE DATABASE {database}", "postgres")

    def look():
        *settings, at = json.loads(board.request("/api/board")[1])["server"]["error"].split("; ")
        return settings, at

    try:
        with closing(Board(PGDATABASE=database)) as board:
            sql(POISON, database)
            first = look()
            second = until(lambda: (again := look()) != first and again, "another look")
            for settings, _ in (second, first):
                equal(settings, ["on", "pg_catalog, pg_temp", "3s"])
    finally:
        sql(f"DROP DATABASE {database} WITH (FORCE)", "postgres")


def authorization(role, password=PASSWORD):
    return {"Authorization": "Basic " + base64.b64encode(f"{role}:{password}".encode()).decode()}


def logins(browser):
    """with --login each viewer sees and does what the own database role may"""
    with_password = f"host=127.0.0.1 port={os.environ['PGPORT']} dbname={DATABASE}"
    mails = "/api/retry-all?queue=public.mails"
    with closing(Board("--login", "--write", "--dsn", with_password)) as board:
        for headers in ({}, authorization(READER, "wrong"), authorization("no_such_role"), {"Authorization": "Basic !"}):
            status, _ = board.request("/api/board", **headers)
            equal((headers, status, "Basic" in board.headers["WWW-Authenticate"]), (headers, 401, True))
        reader = authorization(READER)
        shown = json.loads(board.request("/api/board", **reader)[1])
        equal(([row["name"] for row in shown["queues"]["rows"]], shown["server"]["role"]), (["public.mails"], READER))
        sql("SELECT xqueue.bury('mails', id) FROM xqueue.take(NULL::mails, count => 1)")
        token = board.token(**reader)
        status, answer = board.request(mails, "POST", Origin=f"http://{board.host}", X_Board_Token=token, **reader)
        equal((status, "permission denied" in answer), (409, True))
        equal(sql("SELECT buried FROM xqueue.queues WHERE queue = 'mails'::regclass"), "1")
        browser.call("Network.setExtraHTTPHeaders", headers=authorization(STRANGER))
        try:
            page = Page(browser, board)
            page.open()
            assert "no queue here that this role may look at" in page.text("#queues .empty"), page.text("#queues")
            equal([page.rows(section) for section in ("queues", "in_flight", "consumers", "producers")], [[], [], [], []])
        finally:
            browser.call("Network.setExtraHTTPHeaders", headers={})


def trusting_server(_):
    """with --login a server that asks for no password lets no viewer in"""
    with closing(Board("--login")) as board:
        status, answer = board.request("/api/board", **authorization(READER))
        equal((status, "asks no password" in answer), (403, True))


def nothing_to_show(browser):
    """a database without the extension, and a role that does not exist, are said in the page"""
    for environment, text in (({"PGDATABASE": "template1"}, "does not have the extension xqueue"),
                              ({"PGUSER": "no_such_role"}, 'role "no_such_role" does not exist')):
        with closing(Board(**environment)) as board:
            browser.open(board.url)
            page = Page(browser, board)
            page.until("document.getElementById('alert')?.hidden === false", "an alert")
            alert = page.text("#alert").lower()
            assert text.lower() in alert, alert


def restarted_server(page):
    """while the server is down the page says so, and goes on when it is back"""
    page.open()
    server("stop")
    try:
        page.until("document.body.classList.contains('stale') && !document.getElementById('alert').hidden", "an alert")
        assert "as of" in page.text("#live-text"), page.text("#live-text")
        page.screenshot("down")
    finally:
        server("start")
    page.until("!document.body.classList.contains('stale') && document.getElementById('alert').hidden", "no alert")
    page.until("document.getElementById('live-text').textContent === 'live'", "live again")
    # The sessions have ended, so their taken tasks are ready again.
    page.until("document.querySelector('#tiles .taken dd').textContent === '0'", "no task is taken")


def no_problems(browser):
    """the browser had nothing to complain of, and asked no other host"""
    equal(browser.problems, [])
    equal([url for url in browser.requests if not url.startswith(("http://127.0.0.1:", "about:"))], [])


LOOKING = (queues_with_numbers, plots_move, lists_of_sessions, long_keys, names_are_text, many_queues, slow_tasks,
           failed_section, moving, keyboard, fits, hidden_page, read_only, owners_code, one_connection, key_stays_here,
           silent_connections)
WRITING = (retried_and_deleted, paused_and_resumed, taken_task_stays, foreign_requests)
OTHERS = (logins, trusting_server, nothing_to_show, settings_of_looks)


def run(tests, argument):
    for test in tests:
        tap.test(test, argument)


def main():
    with ExitStack() as opened:
        opened.callback(unmake)
        for session in make():
            opened.enter_context(closing(session))
        browser = opened.enter_context(closing(Browser()))
        browser.size(1280)
        looking = Page(browser, opened.enter_context(closing(Board())))
        run(LOOKING, looking)
        run(WRITING, Page(browser, opened.enter_context(closing(Board("--write")))))
        run(OTHERS, browser)
        run((restarted_server,), looking)
        run((no_problems,), browser)
    tap.end()


main()
