//! Consumers that wait for a task: a first come, first served line for each queue.
//!
//! A wake-up is a baton: the consumer at the head is taken out of the line and woken; if it ends
//! without having used the wake-up, it passes it on.

use super::queues::QueueGuard;
use crate::pg::{latch, process};

pub const NO_QUEUE: u32 = u32::MAX;

/// A process's place in a line. Links are process indexes plus one, 0 being none.
#[repr(C)]
pub struct Waiter {
    /// The queue in whose line this process stands, `NO_QUEUE` if in none.
    pub(super) queue: u32,
    previous: u32,
    next: u32,
    /// Taken out of the line by a wake-up that has not been used yet.
    woken: bool,
    pid: i32,
    since: i64,
    session: [u8; 16],
}

/// The line of a queue.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Line {
    head: u32,
    tail: u32,
    pub(super) length: u32,
}

/// A waiting consumer, for the view `xqueue.consumers`.
pub struct Waiting {
    pub pid: i32,
    pub since: i64,
    pub session: [u8; 16],
}

fn waiter(process: u32) -> &'static mut Waiter {
    let segment = super::segment();
    // SAFETY: the index is that of a process; the entry is guarded by the lock of the queue in
    // whose line it stands, which every caller holds but `was_woken`: that reads one flag of its
    // own process, which is looked at again after each wake-up of the latch.
    unsafe { &mut *segment.waiters.add(process as usize % segment.process_count) }
}

impl QueueGuard {
    /// Puts this process into the line, behind all who have waited since an earlier instant.
    pub fn join_line(&mut self, since: i64, session: [u8; 16]) {
        let process = process::index();
        let (index, link) = (self.index(), process + 1);
        if waiter(process).queue != NO_QUEUE {
            return;
        }
        // Newcomers belong at the end, those who come back near the head.
        let belongs_at_end = self.line.tail == 0 || waiter(self.line.tail - 1).since <= since;
        let mut next = if belongs_at_end { 0 } else { self.line.head };
        while next != 0 && waiter(next - 1).since <= since {
            next = waiter(next - 1).next;
        }
        let previous = match next {
            0 => self.line.tail,
            follower => waiter(follower - 1).previous,
        };
        let pid = process::pid();
        *waiter(process) =
            Waiter { queue: index, previous, next, woken: false, pid, since, session };
        match previous {
            0 => self.line.head = link,
            leader => waiter(leader - 1).next = link,
        }
        match next {
            0 => self.line.tail = link,
            follower => waiter(follower - 1).previous = link,
        }
        self.line.length += 1;
    }

    /// Takes this process out of the line. True if it had been woken meanwhile, and so holds a
    /// wake-up that it has either used or has to pass on.
    pub fn leave_line(&mut self) -> bool {
        let process = process::index();
        if waiter(process).queue == self.index() {
            self.unlink(process);
        }
        std::mem::replace(&mut waiter(process).woken, false)
    }

    /// Wakes the first `count` consumers in the line.
    pub fn wake(&mut self, count: u32) {
        for _ in 0..count.min(self.line.length) {
            let process = self.line.head - 1;
            self.unlink(process);
            waiter(process).woken = true;
            latch::wake(process);
        }
    }

    /// Those who wait, in their order.
    pub fn waiting(&self, into: &mut Vec<Waiting>) {
        let mut link = self.line.head;
        while link != 0 && into.len() < into.capacity() {
            let Waiter { pid, since, session, next, .. } = *waiter(link - 1);
            into.push(Waiting { pid, since, session });
            link = next;
        }
    }

    fn unlink(&mut self, process: u32) {
        let Waiter { previous, next, .. } = *waiter(process);
        match previous {
            0 => self.line.head = next,
            link => waiter(link - 1).next = next,
        }
        match next {
            0 => self.line.tail = previous,
            link => waiter(link - 1).previous = previous,
        }
        waiter(process).queue = NO_QUEUE;
        self.line.length -= 1;
    }
}

/// Whether this process has been taken out of the line since it joined.
pub fn was_woken() -> bool {
    waiter(process::index()).woken
}
