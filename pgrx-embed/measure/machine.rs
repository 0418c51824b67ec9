//! The description of a run: versions, machine, and time.

use std::fs;
use std::thread::available_parallelism;

use postgres::Client;

use crate::Result;
use crate::effort::Effort;

const SOFTWARE: &str = "
    SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC',
           current_setting('server_version'),
           (SELECT extversion FROM pg_extension WHERE extname = 'xqueue'),
           (SELECT string_agg(format('%s = %s', name, current_setting(name)), ', ' ORDER BY name)
            FROM pg_settings
            WHERE name IN ('shared_buffers', 'fsync', 'autovacuum', 'max_wal_size'))";

pub fn describe(db: &mut Client, effort: &Effort) -> Result<String> {
    let row = db.query_one(SOFTWARE, &[])?;
    let [date, server, extension, settings]: [String; 4] = std::array::from_fn(|i| row.get(i));
    let processor = field("/proc/cpuinfo", "model name").unwrap_or("unknown processor".into());
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or("unknown".into());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    Ok(format!(
        "# xqueue {extension} on PostgreSQL {server}, {date}\n\n\
         {} cores ({processor}), {memory} of memory, load {load} at the start. {settings}. \
         Clients on the same machine, by a Unix socket. Run: {}.\n",
        available_parallelism()?,
        effort.name,
    ))
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
