//! Notices consumers whose host or network has vanished: no message of theirs reaches the server.

use crate::server::{process, setting};
use crate::settings;

/// Number of probes without an answer that end the connection.
const PROBES: u32 = 3;

/// Lets the operating system probe the connection of this process, which is about to hold tasks. The connection ends
/// after the setting and a half without an answer. Has no effect on Unix sockets.
pub fn begin() {
    let idle = settings::consumer_keepalive();
    if idle == 0 || !process::serves_client() {
        return;
    }
    let interval = (idle / (2 * PROBES)).max(1);
    setting::set_default(c"tcp_keepalives_idle", idle);
    setting::set_default(c"tcp_keepalives_interval", interval);
    setting::set_default(c"tcp_keepalives_count", PROBES);
    // In milliseconds. Keepalive sends no probes while data is unacknowledged.
    setting::set_default(c"tcp_user_timeout", (idle + PROBES * interval) * 1000);
}
