//! Runs SQL inside the server: kept plans, and their results.
//!
//! A kept plan is planned once, for all parameters, unless plan_cache_mode makes the server plan it in each call. The
//! methods that read or sort whole tables are switched off during planning, because a plan made while a queue was empty
//! must still be right when it is full. JIT is off too: it is never worth its cost for these plans.

use crate::error::{Error, Result};
use crate::server::foreign::column_type;
use crate::server::value::Value;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;

/// An open SPI connection. Results do not outlive it.
pub struct Spi(());

/// Runs `work` with a connection.
pub fn connect<T>(work: impl FnOnce(&Spi) -> T) -> T {
    open(0, work)
}

/// Runs `work` with a connection that can end transactions: for a procedure called at top level.
pub fn connect_nonatomic<T>(work: impl FnOnce(&Spi) -> T) -> T {
    open(pg_sys::SPI_OPT_NONATOMIC as i32, work)
}

fn open<T>(options: i32, work: impl FnOnce(&Spi) -> T) -> T {
    // SAFETY: connect and finish are paired; after an error the end of the (sub)transaction closes the connection.
    unsafe {
        succeeded(pg_sys::SPI_connect_ext(options));
        let value = work(&Spi(()));
        succeeded(pg_sys::SPI_finish());
        value
    }
}

impl Spi {
    /// Commits, and starts the next transaction.
    pub fn commit(&self) {
        // SAFETY: the server refuses it if it is not allowed.
        unsafe { pg_sys::SPI_commit() }
    }

    /// Rolls back, and starts the next transaction.
    pub fn rollback(&self) {
        // SAFETY: the server refuses it if it is not allowed.
        unsafe { pg_sys::SPI_rollback() }
    }

    /// Makes sure that user code finds a snapshot. The end of a transaction leaves a procedure without one, and then a
    /// function in SQL that only reads would crash the server. The next end of a transaction drops the snapshot again.
    /// Called outside of subtransactions, by a procedure.
    pub fn ensure_snapshot(&self) {
        // SAFETY: the portal that calls the procedure is active, and outlives the snapshot.
        unsafe { pg_sys::EnsurePortalSnapshotExists() }
    }

    /// Runs a statement without keeping its plan.
    pub fn run(&self, sql: &str) -> Rows<'_> {
        let sql = c_string(sql);
        // SAFETY: a connection is open, `sql` outlives the call.
        unsafe { Rows::new(pg_sys::SPI_execute(sql.as_ptr(), false, 0)) }
    }

    /// Runs a statement with parameters without keeping its plan.
    pub fn run_with(&self, sql: &str, arguments: &[(Oid, Option<Value>)]) -> Rows<'_> {
        let sql = c_string(sql);
        let mut types: Vec<Oid> = arguments.iter().map(|(oid, _)| *oid).collect();
        let (mut values, nulls) = split(arguments.iter().map(|(_, value)| *value), &types);
        // SAFETY: a connection is open, the arrays have the length given.
        unsafe {
            Rows::new(pg_sys::SPI_execute_with_args(
                sql.as_ptr(),
                arguments.len() as i32,
                types.as_mut_ptr(),
                values.as_mut_ptr(),
                nulls.as_ptr(),
                false,
                0,
            ))
        }
    }

    /// Runs a kept plan with a new snapshot.
    pub fn run_plan<'a>(
        &self,
        plan: &Plan,
        arguments: impl Iterator<Item = Option<Value<'a>>>,
    ) -> Rows<'_> {
        plan.make_ready();
        self.run_ready(plan, arguments)
    }

    /// Runs a plan that was just made ready.
    pub fn run_ready<'a>(
        &self,
        plan: &Plan,
        arguments: impl Iterator<Item = Option<Value<'a>>>,
    ) -> Rows<'_> {
        let (mut values, nulls) = split(arguments, &plan.types);
        // SAFETY: a connection is open, and the plan has these parameter types.
        unsafe {
            Rows::new(pg_sys::SPI_execute_plan(
                plan.plan,
                values.as_mut_ptr(),
                nulls.as_ptr(),
                false,
                0,
            ))
        }
    }
}

/// A prepared statement that is kept until this value is dropped.
pub struct Plan {
    plan: pg_sys::SPIPlanPtr,
    /// The types of the parameters.
    types: Vec<Oid>,
}

impl Plan {
    pub fn prepare(_: &Spi, sql: &str, types: &[Oid]) -> Plan {
        let sql = c_string(sql);
        let mut types = types.to_vec();
        // SAFETY: a connection is open; the plan is moved out of its memory before it closes.
        unsafe {
            let plan = pg_sys::SPI_prepare_cursor(
                sql.as_ptr(),
                types.len() as i32,
                types.as_mut_ptr(),
                pg_sys::CURSOR_OPT_GENERIC_PLAN as i32,
            );
            if plan.is_null() {
                succeeded(pg_sys::SPI_result);
            }
            succeeded(pg_sys::SPI_keepplan(plan));
            Plan { plan, types }
        }
    }

    /// Plans the statement if necessary, so that its execution does not.
    pub fn make_ready(&self) {
        let _settings = PlannerSettings::narrow();
        // SAFETY: a saved plan of one statement; the reference is released immediately.
        unsafe {
            let cached = pg_sys::SPI_plan_get_cached_plan(self.plan);
            if !cached.is_null() {
                pg_sys::ReleaseCachedPlan(cached, pg_sys::CurrentResourceOwner);
            }
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: a saved plan without other references.
        unsafe { pg_sys::SPI_freeplan(self.plan) };
    }
}

/// Previous values of the planner's switches, restored on drop, also after an error.
struct PlannerSettings([bool; 6]);

impl PlannerSettings {
    fn narrow() -> PlannerSettings {
        PlannerSettings(PlannerSettings::exchange([false; 6]))
    }

    fn exchange(new: [bool; 6]) -> [bool; 6] {
        // SAFETY: variables of this single-threaded process.
        unsafe {
            let old = [
                pg_sys::enable_seqscan,
                pg_sys::enable_bitmapscan,
                pg_sys::enable_sort,
                pg_sys::enable_hashjoin,
                pg_sys::enable_mergejoin,
                pg_sys::jit_enabled,
            ];
            [
                pg_sys::enable_seqscan,
                pg_sys::enable_bitmapscan,
                pg_sys::enable_sort,
                pg_sys::enable_hashjoin,
                pg_sys::enable_mergejoin,
                pg_sys::jit_enabled,
            ] = new;
            old
        }
    }
}

impl Drop for PlannerSettings {
    fn drop(&mut self) {
        PlannerSettings::exchange(self.0);
    }
}

/// The rows returned by a statement.
pub struct Rows<'spi> {
    table: *mut pg_sys::SPITupleTable,
    /// Number of rows returned, or of rows affected by a statement that returns no rows.
    count: usize,
    /// The only column of rows that were not returned by a statement.
    values: Vec<Value<'spi>>,
    _spi: PhantomData<&'spi Spi>,
}

impl<'spi> Rows<'spi> {
    /// # Safety
    /// To be called immediately after an SPI statement, with its result.
    unsafe fn new(result: i32) -> Self {
        succeeded(result);
        // SAFETY: variables that the statement has just set.
        unsafe {
            let table = pg_sys::SPI_tuptable;
            pg_sys::SPI_tuptable = std::ptr::null_mut();
            let count = pg_sys::SPI_processed as usize;
            Rows { table, count, values: vec![], _spi: PhantomData }
        }
    }

    /// Returns rows of one column that do not come from a statement.
    pub fn of(values: Vec<Value<'spi>>) -> Self {
        let table = std::ptr::null_mut();
        Rows { table, count: values.len(), values, _spi: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the value in a row (from 0) and column (from 1); it lives as long as the rows.
    pub fn value(&self, row: usize, column: i32) -> Option<Value<'_>> {
        if let Some(value) = self.values.get(row) {
            return (column == 1).then_some(*value);
        }
        let tuple = self.tuple(row)?;
        let mut is_null = false;
        // SAFETY: the tuple belongs to the table with this descriptor, and lives as long.
        unsafe {
            let description = (*self.table).tupdesc;
            let datum = pg_sys::SPI_getbinval(tuple, description, column, &mut is_null);
            (!is_null).then(|| Value::new(datum, column_type(description, column as i16)))
        }
    }

    /// Returns the value in a row (from 0) and column (from 1) as text.
    pub fn text(&self, row: usize, column: i32) -> Option<String> {
        let tuple = self.tuple(row)?;
        // SAFETY: as above; the C string is copied.
        unsafe {
            let text = pg_sys::SPI_getvalue(tuple, (*self.table).tupdesc, column);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    /// Returns the first value of the first row as a number; 0 if it does not exist.
    pub fn number(&self) -> i64 {
        self.text(0, 1).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn tuple(&self, row: usize) -> Option<pg_sys::HeapTuple> {
        if self.table.is_null() || row >= self.count {
            return None;
        }
        // SAFETY: the table contains `count` tuples.
        Some(unsafe { *(*self.table).vals.add(row) })
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        if !self.table.is_null() && !std::thread::panicking() {
            // SAFETY: this value owns the table, and its connection is still open.
            unsafe { pg_sys::SPI_freetuptable(self.table) };
        }
    }
}

/// Returns the parameters of a statement as datums and NULL flags, one for each type; an error if a value has another
/// type.
fn split<'a>(
    arguments: impl Iterator<Item = Option<Value<'a>>>,
    types: &[Oid],
) -> (Vec<Datum>, Vec<c_char>) {
    let values = arguments.chain(std::iter::repeat(None)).zip(types);
    values
        .map(|(value, oid)| match value {
            Some(value) => (value.require(*oid), b' ' as c_char),
            None => (Datum::from(0), b'n' as c_char),
        })
        .unzip()
}

fn c_string(sql: &str) -> CString {
    // No statement contains a NUL character: names and literals come from the server.
    CString::new(sql).unwrap_or_default()
}

fn succeeded(result: i32) {
    if result < 0 {
        let outcome: Result<()> = Err(Error::new(
            PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            format!("the server's SQL interface refused a statement (code {result})"),
        ));
        crate::error::OrRaise::or_raise(outcome)
    }
}
