//! What happens in a line, for the trace that the model of wake-ups is held against, see [`crate::trace`].

use crate::parts::slot::QueueGuard;
use crate::parts::waiters::shared::Entry;
use crate::parts::waiters::wait_queue::Want;
use crate::parts::waiters::wake::WakeToken;
use crate::server::process;
use crate::trace;
use serde_json::{Value, json};

/// Part of a trace.
const PART: &str = "wake-ups";

impl QueueGuard {
    /// Notes a step of this line, which this process takes.
    pub fn note_step(&self, verb: &str, more: impl FnOnce() -> Value) {
        trace::step(PART, || {
            let mut event = more();
            event["do"] = verb.into();
            event["queue"] = self.index().into();
            event["by"] = process::index().into();
            event["wakes"] = self.waiters.wakes.into();
            event
        });
    }

    /// Notes that this process stands in line, to look for the task that a token tells of.
    pub fn note_joined(&mut self, token: Option<WakeToken>) {
        if !trace::is_on() {
            return;
        }
        let own = process::index() + 1;
        let Some(&mut Entry { since, want, .. }) = self.standing(own) else { return };
        let (mut place, mut link) = (0, self.waiters.head);
        while link != own
            && let Some(&mut Entry { next, .. }) = self.standing(link)
        {
            (place, link) = (place + 1, next);
        }
        self.note_step("Join", || {
            json!({
                "place": place,
                "since": since,
                "token": token.map(WakeToken::number),
                "of_any": want == Want::Any,
            })
        });
    }

    /// Notes that this process leaves the line, with what it has not used: for the look that has ended, and by a
    /// wake-up that came meanwhile. Each with whether others may find what it does not.
    pub fn note_left(&self, unused: Option<(WakeToken, bool)>, another: Option<(WakeToken, bool)>) {
        let shown =
            |token: Option<(WakeToken, bool)>| token.map(|(token, by)| (token.number(), by));
        self.note_step("Leave", || json!({ "unused": shown(unused), "another": shown(another) }));
    }

    /// Notes that a process is taken out of the line.
    pub(in crate::parts) fn note_woken(&self, who: u32, token: WakeToken) {
        self.note_step("Notify", || json!({ "who": who, "number": token.number() }));
    }
}

/// Notes that a look of this process has begun, or has found something.
pub fn note_look(queue: u32, has_found: bool) {
    trace::step(PART, || {
        let verb = if has_found { "Found" } else { "Look" };
        json!({ "do": verb, "queue": queue, "by": process::index() })
    });
}
