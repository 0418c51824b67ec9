//! Tasks that come late. A take skips a row that another transaction is changing. If nothing reports that change, such
//! as one of the payload alone, a later take can get the task up to a second late (docs/dev/internals.md).

use std::thread;
use std::time::{Duration, Instant};

use super::operation::{ByHand, Operation};

/// The longest delay, with a margin.
const LATE: Duration = Duration::from_millis(1050);

#[derive(Clone, Copy, Default)]
struct Transaction {
    /// It has made a change that nothing reports.
    changes: bool,
    /// A take of another connection can have skipped the row.
    is_skipped: bool,
}

pub struct Late {
    /// By connection.
    transactions: Vec<Transaction>,
    /// Until this instant, takes do not get all tasks in order.
    until: Option<Instant>,
}

impl Late {
    pub fn new(connections: usize) -> Late {
        Late { transactions: vec![Transaction::default(); connections], until: None }
    }

    /// Before an operation: a take waits until no task can be late.
    pub fn begin(&mut self, at: usize, operation: &Operation) {
        if !matches!(operation, Operation::Take(..)) {
            return;
        }
        if let Some(until) = self.until.take() {
            thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        let others = self.transactions.iter_mut().enumerate().filter(|(other, _)| *other != at);
        others.for_each(|(_, transaction)| transaction.is_skipped |= transaction.changes);
    }

    /// After an operation that has succeeded.
    pub fn done(&mut self, at: usize, operation: &Operation) {
        self.transactions[at].changes |= match operation {
            Operation::Put(_, given) => given.conflict.is_some(),
            Operation::Update(_, by_hand) => matches!(by_hand, ByHand::Payload(_)),
            _ => false,
        };
    }

    /// A transaction of a connection has been rolled back to a savepoint, or, with `for_good`, has ended.
    pub fn end(&mut self, at: usize, for_good: bool) {
        if self.transactions[at].is_skipped {
            self.until = Some(Instant::now() + LATE);
        }
        if for_good {
            self.transactions[at] = Transaction::default();
        }
    }
}
