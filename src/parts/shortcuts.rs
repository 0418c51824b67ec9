//! Counts changes on the direct path, in builds for tests. Both paths give the same result, so nothing else would show
//! that the direct path was used.

/// A kind of change that needs no statement.
#[derive(Clone, Copy, Debug)]
pub enum Shortcut {
    Put,
    Take,
    /// A take of a candidate that another take has read ahead.
    TakeAhead,
    TakeInSubqueue,
    Ack,
    /// An ack that found the task at the location where this session had written it.
    AckInPlace,
    Promote,
}

#[cfg(not(feature = "injection_points"))]
#[inline(always)]
pub fn count(_shortcut: Shortcut, _tasks: usize) {}

#[cfg(feature = "injection_points")]
pub use counting::*;

#[cfg(feature = "injection_points")]
mod counting {
    use crate::error::Result;
    use crate::parts::shortcuts::Shortcut;
    use crate::server::function::Call;
    use crate::server::shared_memory::Shared;
    use crate::server::value::Value;
    use std::sync::atomic::{AtomicU64, Ordering};

    impl Shortcut {
        pub const ALL: [Shortcut; 7] = [
            Shortcut::Put,
            Shortcut::Take,
            Shortcut::TakeAhead,
            Shortcut::TakeInSubqueue,
            Shortcut::Ack,
            Shortcut::AckInPlace,
            Shortcut::Promote,
        ];
    }

    /// Number of tasks that each shortcut has changed.
    pub(in crate::parts) static COUNTS: Shared<AtomicU64> = Shared::new();

    pub fn count(shortcut: Shortcut, tasks: usize) {
        COUNTS.get()[shortcut as usize].fetch_add(tasks as u64, Ordering::Relaxed);
    }

    crate::sql_functions! {
        "shortcuts" as shortcuts, pg_finfo_shortcuts() -> text => shortcuts_impl;
    }

    /// `shortcuts() RETURNS text`: a JSON object with the number of tasks that each shortcut has changed since the
    /// server's start. Only tests declare this function.
    fn shortcuts_impl(_call: &Call) -> Result<Option<Value<'_>>> {
        let counted = |shortcut| COUNTS.get()[shortcut as usize].load(Ordering::Relaxed);
        let counts =
            Shortcut::ALL.map(|shortcut| (format!("{shortcut:?}"), counted(shortcut).into()));
        let counts: serde_json::Map<_, _> = counts.into_iter().collect();
        Ok(Some(Value::text(&serde_json::Value::Object(counts).to_string())))
    }
}
