//! Memory limits of a server process.

use crate::command::server_command;

/// Limits the memory of a process to its present size plus `more` bytes.
pub fn limit_memory(pid: i32, more: u64) -> Result<(), String> {
    let limit = size(pid, "VmSize:").ok_or("the size of a process is not known")? + more;
    let is_set = set_limit(pid, &limit.to_string());
    is_set.then_some(()).ok_or_else(|| "prlimit is not there, or may not".into())
}

/// Returns the bytes of a process's memory that it does not share.
pub fn private_memory(pid: i32) -> u64 {
    size(pid, "RssAnon:").expect("the process runs")
}

fn size(pid: i32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let size = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(size.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Removes the memory limit of a process, if it still runs.
pub fn lift_memory_limit(pid: i32) {
    set_limit(pid, "unlimited");
}

/// Sets the soft limit; the owner of the process can raise it again.
fn set_limit(pid: i32, limit: &str) -> bool {
    let arguments = [format!("--pid={pid}"), format!("--as={limit}:unlimited")];
    server_command("prlimit").args(arguments).works()
}
