//! The thread's own side: which connection is in use, whether the target is well, when to try again.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::worker::graphite::link::Link;
use crate::worker::graphite::{Event, Mailbox, Order, Target, Timing};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Unknown,
    Well,
    /// Not before `retry_at`; the pause grows with each failure.
    Ill {
        retry_at: Instant,
        pause: Duration,
    },
}

pub(super) struct SenderThread {
    mailbox: Arc<Mailbox>,
    timing: Timing,
    target: Option<Target>,
    link: Option<Link>,
    condition: Condition,
    /// Failures of this target, to begin with another of its addresses after each.
    failures: usize,
}

impl SenderThread {
    pub(super) fn new(mailbox: Arc<Mailbox>, timing: Timing) -> SenderThread {
        SenderThread {
            mailbox,
            timing,
            target: None,
            link: None,
            condition: Condition::Unknown,
            failures: 0,
        }
    }

    pub(super) fn run(&mut self) {
        loop {
            let settled_at =
                self.link.as_ref().and_then(|link| link.settles_at(self.timing.settle));
            match self.mailbox.take(settled_at) {
                Some(Order::Deliver { target, payload }) => {
                    self.deliver(target, payload.as_bytes())
                }
                Some(Order::Forget) => self.turn_to(None),
                Some(Order::Stop) => return,
                None => self.settle(),
            }
        }
    }

    fn turn_to(&mut self, target: Option<Target>) {
        self.target = target;
        self.link = None;
        self.condition = Condition::Unknown;
        self.failures = 0;
        self.mailbox.forget_dropped();
    }

    fn deliver(&mut self, target: Target, payload: &[u8]) {
        if self.target.as_ref() != Some(&target) {
            self.turn_to(Some(target.clone()));
        }
        if let Condition::Ill { retry_at, .. } = self.condition
            && self.link.is_none()
            && Instant::now() < retry_at
        {
            self.mailbox.count_dropped();
            return;
        }
        match self.deliver_now(&target, payload) {
            Ok(link) => self.link = Some(link),
            Err(error) => {
                self.mailbox.count_dropped();
                self.fail(error);
            }
        }
    }

    /// deliver_now writes over the connection there is, or over a new one when the peer has closed a settled one.
    /// A peer that restarts behind a balancer, or closes idle connections, is so served without a gap and a word.
    fn deliver_now(&mut self, target: &Target, payload: &[u8]) -> io::Result<Link> {
        if let Some(mut link) = self.link.take()
            && !link.is_stale(&self.timing)
        {
            match link.check().and_then(|()| link.write(payload, &self.timing)) {
                Ok(()) => return Ok(link),
                Err(error) if link.is_settled() && error.kind() != io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error),
            }
        }
        Link::open_and_write(target, payload, &self.timing, self.failures)
    }

    /// Handles a new connection that has lasted: only now is the target considered healthy.
    fn settle(&mut self) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        if let Err(error) = link.check() {
            self.fail(error);
            return;
        }
        link.mark_settled();
        if self.condition != Condition::Well {
            self.condition = Condition::Well;
            if let Some(target) = self.target.clone() {
                self.mailbox.report_connected(target);
            }
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.link = None;
        self.failures += 1;
        let known = matches!(self.condition, Condition::Ill { .. });
        let pause = match self.condition {
            Condition::Ill { pause, .. } => (pause * 2).min(self.timing.retry_last),
            Condition::Unknown | Condition::Well => self.timing.retry_first,
        };
        self.condition = Condition::Ill { retry_at: Instant::now() + pause, pause };
        if let Some(target) = self.target.clone()
            && !known
        {
            self.mailbox.report(Event::Failed {
                target,
                error: error.to_string(),
                retry_in: pause,
            });
        }
    }
}
