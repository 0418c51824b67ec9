//! Snapshots: which transactions a read sees.

use pgrx::pg_sys;

/// A registered snapshot.
pub struct Snapshot(TakenSnapshot);

impl Snapshot {
    pub fn latest() -> Snapshot {
        LatestSnapshot(()).take().register()
    }

    /// Returns the snapshot of a statement that starts now. It includes all changes of the transaction itself; in
    /// repeatable read it is the transaction's snapshot.
    pub fn of_statement() -> Snapshot {
        // SAFETY: changes variables of the server; parallel workers do not run this.
        let taken = unsafe {
            pg_sys::CommandCounterIncrement();
            pg_sys::GetTransactionSnapshot()
        };
        TakenSnapshot(taken).register()
    }

    /// Returns the transactions in progress according to this snapshot.
    pub fn in_progress(&self) -> InProgress<'_> {
        self.0.in_progress()
    }

    pub(super) fn pointer(&self) -> pg_sys::Snapshot {
        self.0.0
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: registered when it was created. After an error the resource owner unregisters it.
            unsafe { pg_sys::UnregisterSnapshot(self.pointer()) }
        }
    }
}

/// The right to take a snapshot while nothing is allowed to fail, for example under a lightweight lock.
pub struct LatestSnapshot(());

impl LatestSnapshot {
    /// Makes the server allocate memory for snapshots, once per process. The first call in a transaction can return the
    /// transaction's own snapshot, so a second one gets the latest.
    pub fn prepare() -> LatestSnapshot {
        drop([Snapshot::latest(), Snapshot::latest()]);
        LatestSnapshot(())
    }

    pub fn take(self) -> TakenSnapshot {
        // SAFETY: the server fills in its own variable; after `prepare` it needs only a lightweight lock.
        TakenSnapshot(unsafe { pg_sys::GetLatestSnapshot() })
    }
}

/// A snapshot in the server's own variable, to be registered before another is taken.
pub struct TakenSnapshot(pg_sys::Snapshot);

impl TakenSnapshot {
    pub fn register(self) -> Snapshot {
        // SAFETY: the server makes a copy; unregistered on drop.
        Snapshot(TakenSnapshot(unsafe { pg_sys::RegisterSnapshot(self.0) }))
    }

    pub fn in_progress(&self) -> InProgress<'_> {
        // SAFETY: an MVCC snapshot, in a variable or registered, with `xcnt` entries in `xip`.
        unsafe {
            let data = &*self.0;
            let others = match data.xcnt {
                0 => &[],
                count => std::slice::from_raw_parts(data.xip, count as usize),
            };
            InProgress { xmin: data.xmin.into(), xmax: data.xmax.into(), others }
        }
    }
}

/// The transactions whose changes a snapshot does not see.
#[derive(Clone, Copy)]
pub struct InProgress<'snapshot> {
    /// The oldest one.
    pub xmin: u32,
    /// This transaction and all later ones.
    pub xmax: u32,
    /// The other transactions in progress from `xmin` up to `xmax`.
    pub others: &'snapshot [pg_sys::TransactionId],
}
