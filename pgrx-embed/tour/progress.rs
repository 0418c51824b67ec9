//! The progress of the work: a bar on a terminal, otherwise an occasional line.

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::Result;

pub struct Progress {
    bar: ProgressBar,
    total: u64,
    /// The last tenth of the work that was reported.
    tenth: u64,
}

impl Progress {
    pub fn new(total: usize, shown: bool) -> Result<Progress> {
        let style = ProgressStyle::with_template(
            "{bar:30} {human_pos} of {human_len} files digested, {msg}",
        )?;
        let bar = if shown { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        Ok(Progress { bar: bar.with_style(style), total: total as u64, tenth: 0 })
    }

    pub fn show(&mut self, done: usize, kills: usize) {
        let done = done as u64;
        self.bar.set_position(done);
        self.bar.set_message(format!("killed: {kills}"));
        let tenth = 10 * done / self.total;
        if self.bar.is_hidden() && tenth > self.tenth {
            self.tenth = tenth;
            let (done, total) = (HumanCount(done), HumanCount(self.total));
            eprintln!("tour: {done} of {total} files digested, killed: {kills}");
        }
    }

    pub fn finish(&self) {
        self.bar.finish();
    }
}
