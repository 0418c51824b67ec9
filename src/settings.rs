//! The settings of the extension, with their reasons.

use crate::server::process;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};
use std::ffi::{CStr, CString};
use std::time::Duration;

/// The transport of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum Protocol {
    #[name = c"tcp"]
    Tcp,
    #[name = c"udp"]
    Udp,
}

/// Each queue reserves 39 kB: shared memory cannot grow.
static MAX_QUEUES: GucSetting<i32> = GucSetting::<i32>::new(1024);
/// Each sub-queue that has a task to take or is busy needs an entry, and each entry reserves about 120 bytes. Further
/// sub-queues are found in the table.
static MAX_SUBQUEUES: GucSetting<i32> = GucSetting::<i32>::new(65_536);
/// A batch is a transaction of the worker: larger ones are faster, smaller ones keep locks shorter.
static BATCH_SIZE: GucSetting<i32> = GucSetting::<i32>::new(1000);
/// A queue whose triggers take longer than this must not delay the others.
static WORKER_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(1000);
/// Background workers that run users' triggers are not available to other uses, for example parallel queries.
static MAX_JOB_WORKERS: GucSetting<i32> = GucSetting::<i32>::new(2);
/// A grace period by default would delay the tasks of consumers that are gone.
static SESSION_GRACE: GucSetting<i32> = GucSetting::<i32>::new(0);
/// In seconds. By Linux's defaults, the tasks of a vanished host would be taken for more than two hours.
static CONSUMER_KEEPALIVE: GucSetting<i32> = GucSetting::<i32>::new(30);
/// In seconds. Tasks held by a session without a connection are not available to others.
static MAX_SESSION_GRACE: GucSetting<i32> = GucSetting::<i32>::new(30 * 86_400);
/// Opening a session needs no privilege on a table, and each session costs rows and the worker's time.
static MAX_SESSIONS_PER_ROLE: GucSetting<i32> = GucSetting::<i32>::new(1000);
/// All databases and roles share the slots: one role must leave some to the others.
static MAX_QUEUES_PER_ROLE: GucSetting<i32> = GucSetting::<i32>::new(-1);
/// In kB. Enough for about 230 queues on the direct path. A process that uses more in turn reads their descriptions
/// again each time.
static QUEUE_MEMORY: GucSetting<i32> = GucSetting::<i32>::new(10 << 10);
/// The direct path repeats the server's own work. An operator can turn it off if it has a fault.
static DIRECT_PATH: GucSetting<bool> = GucSetting::<bool>::new(true);
/// Repairs by hand must be possible, but not by mistake.
static GUARD: GucSetting<bool> = GucSetting::<bool>::new(true);
static GRAPHITE_HOST: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static GRAPHITE_PORT: GucSetting<i32> = GucSetting::<i32>::new(2003);
static GRAPHITE_PROTOCOL: GucSetting<Protocol> = GucSetting::<Protocol>::new(Protocol::Tcp);
static GRAPHITE_PREFIX: GucSetting<Option<CString>> =
    GucSetting::<Option<CString>>::new(Some(c"xqueue"));
static GRAPHITE_INTERVAL: GucSetting<i32> = GucSetting::<i32>::new(10_000);

/// Defines the settings. `xqueue.max_queues` and `xqueue.max_subqueues` exist only if they can have an effect.
pub fn init(preloading: bool) {
    if preloading {
        int(
            c"xqueue.max_queues",
            c"The largest number of queues in all databases together.",
            c"The server reserves shared memory for them when it starts.",
            &MAX_QUEUES,
            (1, 100_000),
            GucContext::Postmaster,
            GucFlags::default(),
        );
        int(
            c"xqueue.max_subqueues",
            c"The number of sub-queues, of all queues together, that are known without reading the table.",
            c"The server reserves shared memory for them when it starts.",
            &MAX_SUBQUEUES,
            (1, 100_000_000),
            GucContext::Postmaster,
            GucFlags::default(),
        );
    }
    int(
        c"xqueue.batch_size",
        c"How many tasks the worker promotes, gives back or deletes in one transaction.",
        c"Larger batches are faster, smaller ones keep row locks shorter.",
        &BATCH_SIZE,
        (1, 100_000),
        GucContext::Sighup,
        GucFlags::default(),
    );
    int(
        c"xqueue.worker_timeout",
        c"Time limit of the worker's work on one queue.",
        c"A batch that takes longer is cancelled, and the queues of its owner are left to a job worker for a time.",
        &WORKER_TIMEOUT,
        (10, 3_600_000),
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    int(
        c"xqueue.max_job_workers",
        c"How many background workers of a database can run users' triggers at the same time.",
        c"They serve queues that are slow, or whose tables have triggers, checks or other code of their owners. Each serves one owner.",
        &MAX_JOB_WORKERS,
        (1, 64),
        GucContext::Sighup,
        GucFlags::default(),
    );
    int(
        c"xqueue.session_grace",
        c"How long a session lives without a connection after a call of xqueue.identify() without a grace period.",
        c"If it is 0, such sessions end with their connection.",
        &SESSION_GRACE,
        (0, i32::MAX),
        GucContext::Userset,
        GucFlags::UNIT_MS,
    );
    int(
        c"xqueue.consumer_keepalive",
        c"Seconds of silence after which TCP keepalive checks the connection of a consumer.",
        c"At its first take, a session derives tcp_keepalives_* and tcp_user_timeout from it, unless they are set. With 0 it sets none.",
        &CONSUMER_KEEPALIVE,
        (0, 30_000),
        GucContext::Userset,
        GucFlags::UNIT_S,
    );
    int(
        c"xqueue.max_session_grace",
        c"The longest grace period that a role can give to a session.",
        c"The limit does not apply to superusers.",
        &MAX_SESSION_GRACE,
        (0, i32::MAX),
        GucContext::Suset,
        GucFlags::UNIT_S,
    );
    int(
        c"xqueue.max_sessions_per_role",
        c"The largest number of identified sessions of one role in a database.",
        c"The limit does not apply to superusers.",
        &MAX_SESSIONS_PER_ROLE,
        (0, i32::MAX),
        GucContext::Suset,
        GucFlags::default(),
    );
    int(
        c"xqueue.max_queues_per_role",
        c"The largest number of queues of one role in all databases together.",
        c"-1 means half of xqueue.max_queues. The limit does not apply to superusers.",
        &MAX_QUEUES_PER_ROLE,
        (-1, 100_000),
        GucContext::Suset,
        GucFlags::default(),
    );
    int(
        c"xqueue.queue_memory",
        c"How much memory a process can use to cache the queues that it has used.",
        c"A process that uses more queues in turn reads their definitions again each time.",
        &QUEUE_MEMORY,
        (64, i32::MAX),
        GucContext::Userset,
        GucFlags::UNIT_KB,
    );
    GucRegistry::define_bool_guc(
        c"xqueue.direct_path",
        c"Whether calls can change tasks without statements.",
        c"If off, calls are slower, and job workers serve all queues. Switch it off if you suspect a fault in the direct path.",
        &DIRECT_PATH,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"xqueue.guard",
        c"Whether an UPDATE by hand of a task that another session has taken is refused.",
        c"If off, feature guard has no effect. Switch it off for repair work only.",
        &GUARD,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"xqueue.graphite_host",
        c"The host that metrics are sent to.",
        c"A name or an address. If it is empty, no metrics are sent.",
        &GRAPHITE_HOST,
        GucContext::Sighup,
        GucFlags::default(),
    );
    int(
        c"xqueue.graphite_port",
        c"The port that metrics are sent to.",
        c"Graphite's plaintext protocol.",
        &GRAPHITE_PORT,
        (1, 65_535),
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"xqueue.graphite_protocol",
        c"The transport of metrics: tcp or udp.",
        c"Over udp, nothing reports a loss.",
        &GRAPHITE_PROTOCOL,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"xqueue.graphite_prefix",
        c"The first part of every metric's name.",
        c"It can contain dots.",
        &GRAPHITE_PREFIX,
        GucContext::Sighup,
        GucFlags::default(),
    );
    int(
        c"xqueue.graphite_interval",
        c"The time between two reports of all metrics.",
        c"The first report is sent when the server has started.",
        &GRAPHITE_INTERVAL,
        (100, 86_400_000),
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    process::reserve_settings(c"xqueue");
}

fn int(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<i32>,
    (least, most): (i32, i32),
    context: GucContext,
    flags: GucFlags,
) {
    GucRegistry::define_int_guc(name, short, long, setting, least, most, context, flags);
}

pub fn max_queues() -> usize {
    MAX_QUEUES.get().max(1) as usize
}

pub fn max_subqueues() -> usize {
    MAX_SUBQUEUES.get().max(1) as usize
}

pub fn batch_size() -> i32 {
    BATCH_SIZE.get()
}

pub fn worker_timeout() -> Duration {
    milliseconds(&WORKER_TIMEOUT)
}

pub fn max_job_workers() -> usize {
    MAX_JOB_WORKERS.get().max(1) as usize
}

/// Returns how long an identified session survives without a connection, unless it has its own grace period.
pub fn session_grace() -> Duration {
    milliseconds(&SESSION_GRACE)
}

/// Returns after how many seconds of silence a consumer's connection is checked; 0 leaves that to the server.
pub fn consumer_keepalive() -> u32 {
    CONSUMER_KEEPALIVE.get().max(0) as u32
}

pub fn max_session_grace() -> Duration {
    Duration::from_secs(MAX_SESSION_GRACE.get().max(0) as u64)
}

pub fn max_sessions_per_role() -> usize {
    MAX_SESSIONS_PER_ROLE.get().max(0) as usize
}

pub fn max_queues_per_role() -> usize {
    usize::try_from(MAX_QUEUES_PER_ROLE.get()).unwrap_or(max_queues().div_ceil(2))
}

/// Returns how many bytes a process keeps for the queues that it has used.
pub fn queue_memory() -> usize {
    (QUEUE_MEMORY.get().max(0) as usize) << 10
}

/// Returns whether the direct path is allowed.
pub fn allows_direct_path() -> bool {
    DIRECT_PATH.get()
}

/// Returns whether the `guard` feature has an effect in this session.
pub fn guards() -> bool {
    GUARD.get()
}

/// Returns host, port and protocol of Graphite; None if no metrics are sent.
pub fn graphite() -> Option<(String, u16, Protocol)> {
    let host = text(&GRAPHITE_HOST);
    let port = GRAPHITE_PORT.get() as u16;
    (!host.is_empty()).then(|| (host, port, GRAPHITE_PROTOCOL.get()))
}

pub fn graphite_prefix() -> String {
    text(&GRAPHITE_PREFIX)
}

pub fn graphite_interval() -> Duration {
    milliseconds(&GRAPHITE_INTERVAL)
}

fn text(setting: &GucSetting<Option<CString>>) -> String {
    setting.get().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

fn milliseconds(setting: &GucSetting<i32>) -> Duration {
    Duration::from_millis(setting.get().max(0) as u64)
}
