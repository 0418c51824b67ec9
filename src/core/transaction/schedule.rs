//! Time at which the worker has to act because of a transaction's changes.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleChange {
    /// Earliest instant, in microseconds.
    pub due: Option<i64>,
}

impl ScheduleChange {
    pub fn due_at(&mut self, instant: i64) {
        self.due = Some(self.due.map_or(instant, |due| due.min(instant)));
    }

    pub fn absorb(&mut self, later: &ScheduleChange) {
        if let Some(instant) = later.due {
            self.due_at(instant);
        }
    }
}
