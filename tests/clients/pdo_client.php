<?php
// PHP's PDO: tasks as objects, prepared by the server or by PDO, errors, persistent connections, PgBouncer.

declare(strict_types=1);

set_error_handler(fn (int $level, string $message) => throw new ErrorException($message, 0, $level));

final class Job
{
    public readonly int $id;
    public readonly string $url;
    public readonly ?string $options;
    public readonly string $status;
    public readonly ?string $owner;
    public readonly ?string $runat;
    public readonly int $attempts;
    public readonly ?string $reason;
}

$table = 'pdo_jobs';
$connect = fn (array $options = []): PDO => new PDO('pgsql:', options: $options);
$db = $connect();

/** PgBouncer before 1.21 does not know prepared statements: PDO writes the parameters into the statement. */
function through_pgbouncer(): PDO
{
    $where = sprintf('pgsql:host=%s;port=%s', getenv('POOLER_HOST'), getenv('POOLER_PORT'));
    return new PDO($where, options: [PDO::ATTR_EMULATE_PREPARES => true]);
}

function query(PDO $db, string $sql, mixed ...$parameters): PDOStatement
{
    $statement = $db->prepare($sql);
    $statement->execute($parameters);
    return $statement;
}

/** The ids of new tasks. */
function put(array ...$tasks): array
{
    global $db, $table;
    return query($db, "SELECT id FROM xqueue.put(NULL::$table, ?) ORDER BY id", json_encode($tasks))->fetchAll(PDO::FETCH_COLUMN);
}

function take(PDO $db, int $count = 1): array
{
    global $table;
    return query($db, "SELECT * FROM xqueue.take(NULL::$table, ?, ?)", '5s', $count)->fetchAll(PDO::FETCH_CLASS, Job::class);
}

/** An array is sent as JSON. */
function ack(int|array|string $id): array
{
    global $db, $table;
    $id = is_array($id) ? json_encode($id) : $id;
    return query($db, "SELECT id FROM xqueue.ack(NULL::$table, ?) ORDER BY id", $id)->fetchAll(PDO::FETCH_COLUMN);
}

function equal(mixed $actual, mixed $expected): void
{
    $actual === $expected or throw new Exception('expected ' . json_encode($expected) . ', got ' . json_encode($actual));
}

function fails(string $state, string $sql, mixed ...$parameters): void
{
    global $db;
    try {
        query($db, $sql, ...$parameters);
    } catch (PDOException $e) {
        equal($e->getCode(), $state);
        equal($e->errorInfo[0], $state);
        preg_match('/^HINT:  \S/m', $e->getMessage()) or throw new Exception("no hint: {$e->getMessage()}");
        return;
    }
    throw new Exception("$sql did not fail");
}

/** The work of a consumer under test, which the program `attempt` does. At c the consumer is asked to stop. */
final class Work
{
    public bool $stopped = false;

    public function attempt(string $step): void
    {
        passthru(getenv('XQUEUE_ATTEMPT') . " pdo_jobs $step", $code);
        $code === 0 or throw new Exception('the work failed');
        $this->stopped = $step === 'c';
    }
}

function consume(Work $work): void
{
    while (!$work->stopped) {
        try {
            take_tasks(new PDO('pgsql:'), $work);
        } catch (PDOException $e) {
            // The server restarts, or ended the connection: its tasks are ready again.
            echo "{$e->getMessage()}\n";
            usleep(200_000);
        }
    }
}

/** No row if the task was taken away meanwhile. */
const RELEASE = "SELECT xqueue.release('pdo_jobs', ?, error => ?, if_held => true)";

function take_tasks(PDO $db, Work $work): void
{
    while (true) {
        foreach (take($db, 10) as $job) {
            if ($work->stopped) {
                // Unstarted tasks are ready again immediately, and use up no attempt.
                $db->query('SELECT xqueue.give_back()');
                return;
            }
            try {
                $work->attempt($job->url);
                $db->beginTransaction(); // this transaction writes the results too
                query($db, "SELECT xqueue.ack('pdo_jobs', ?)", $job->id);
                $db->commit();
            } catch (Exception $e) {
                !$db->inTransaction() or $db->rollBack();
                query($db, RELEASE, $job->id, $e->getMessage());
            }
        }
    }
}

$tests = [
    'put takes JSON, take gives objects, ack takes an id' => function () use (&$db) {
        [$id] = put(['url' => 'a', 'options' => ['depth' => [1, 2]]]);
        [$job] = take($db);
        equal([$job->id, $job->url, $job->status], [$id, 'a', 'T']);
        equal(json_decode($job->options, true), ['depth' => [1, 2]]);
        equal($job->owner, query($db, 'SELECT xqueue.identify()')->fetchColumn());
        equal(ack($job->id), [$id]);
    },

    'a batch is put as a list and acked as JSON, as an array literal and by row' => function () use (&$db, $table) {
        $ids = put(...array_map(fn (string $url) => ['url' => $url], range('a', 'f')));
        $jobs = take($db, 6);
        equal(array_column($jobs, 'url'), range('a', 'f'));
        equal(ack(array_slice($ids, 0, 2)), array_slice($ids, 0, 2));
        equal(ack(json_encode($jobs[2])), [$ids[2]]);
        equal(ack('{' . implode(',', array_slice($ids, 3, 2)) . '}'), array_slice($ids, 3, 2));
        equal(query($db, "SELECT (xqueue.ack(t)).url FROM $table t WHERE id = ?", $ids[5])->fetchColumn(), 'f');
    },

    'named parameters of text, number and null, prepared by the server and by PDO' => function () use (&$db, $table) {
        foreach ([false, true] as $emulate) {
            $db->setAttribute(PDO::ATTR_EMULATE_PREPARES, $emulate);
            $value = fn (string $sql, mixed ...$parameters) => query($db, $sql, ...$parameters, queue: $table)->fetchColumn();
            $take = fn () => json_decode($value('SELECT xqueue.take(:queue, :timeout, tube => :tube)', timeout: '5s', tube: null));
            $value('SELECT xqueue.put(:queue, :task)', task: '{"url": "a"}');
            $id = $take()->id;
            $value('SELECT xqueue.release(:queue, :id, delay => :delay)', id: $id, delay: '1 ms');
            equal($take()->id, $id);
            equal(json_decode($value('SELECT xqueue.ack(:queue, :id)', id: $id))->id, $id);
        }
        $db->setAttribute(PDO::ATTR_EMULATE_PREPARES, false);
    },

    'an error has SQLSTATE and hint' => function () use (&$db, $table) {
        [$id] = put(['url' => 'a']);
        $ack = "SELECT xqueue.ack('$table', ?)";
        fails('P0002', $ack, $id + 1000);
        fails('55000', $ack, $id);
        fails('22004', $ack, null);
        fails('42703', "SELECT xqueue.put('$table', ?)", '{"nothing": 1}');
        take($db);
        ack($id);
    },

    'a persistent connection keeps its tasks until give_back' => function () use (&$db, $connect, $table) {
        put(['url' => 'a']);
        $other = $connect([PDO::ATTR_PERSISTENT => true]);
        take($other);
        $other = null;
        equal(query($db, "SELECT status FROM $table")->fetchAll(PDO::FETCH_COLUMN), ['T']);
        $other = $connect([PDO::ATTR_PERSISTENT => true]);
        equal(query($other, 'SELECT xqueue.give_back()')->fetchColumn(), 1);
        ack(take($db)[0]->id);
    },

    "a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun" => function () use (&$db, $connect) {
        $work = new Work();
        $work->attempt('begin');
        consume($work);
        $work->attempt('end');
        $db = $connect();
    },

    'through PgBouncer, take and ack in one transaction' => function () {
        $pooled = through_pgbouncer();
        foreach (put(['url' => 'a'], ['url' => 'b']) as $id) {
            $pooled->beginTransaction();
            [$job] = take($pooled);
            equal($job->id, $id);
            query($pooled, "SELECT xqueue.ack('pdo_jobs', ?)", $id);
            $pooled->commit();
        }
    },
];

foreach ($tests as $name => $test) {
    try {
        $test();
        equal(query($db, "SELECT count(*) FROM $table")->fetchColumn(), 0);
        echo "ok - $name\n";
    } catch (Throwable $e) {
        echo "not ok - $name\n$e\n";
        !$db->inTransaction() or $db->rollBack();
        $db->exec("DELETE FROM $table");
    }
}
