//! SQL functions in C: their arguments, and the rows they give back.

use super::relation::RowType;
use super::scan::{self, Kept};
use super::spi::Rows;
use crate::error::{Error, Result};
use crate::statement::Form;
use pgrx::FromDatum;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, Oid};

/// Makes Rust functions of the form `fn(&Call) -> Result<Datum>` callable from SQL, each under the
/// C symbol given, with the symbol that declares its calling convention.
#[macro_export]
macro_rules! sql_functions {
    ($($symbol:ident, $info:ident => $function:path),+ $(,)?) => {
        /// The functions as the server calls them.
        pub mod sql {
            use super::*;

            $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $symbol(
                info: pgrx::pg_sys::FunctionCallInfo,
            ) -> pgrx::pg_sys::Datum {
                #[pgrx::pg_guard]
                unsafe extern "C-unwind" fn guarded(
                    info: pgrx::pg_sys::FunctionCallInfo,
                ) -> pgrx::pg_sys::Datum {
                    // SAFETY: called by the server with its call information.
                    let call = unsafe { $crate::pg::function::Call::new(info) };
                    $crate::error::OrRaise::or_raise($function(&call))
                }

                // SAFETY: `guarded` lets no panic out, and there is nothing to drop here.
                unsafe { $crate::pg::diagnostics::keeping_names(guarded, info) }
            }

            #[unsafe(no_mangle)]
            pub extern "C" fn $info() -> &'static pgrx::pg_sys::Pg_finfo_record {
                const INFO: pgrx::pg_sys::Pg_finfo_record =
                    pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
                &INFO
            }
            )+
        }
    };
}

/// A call in progress.
pub struct Call(FunctionCallInfo);

impl Call {
    /// # Safety
    /// `info` is the call information that the server gave to a C function.
    pub unsafe fn new(info: FunctionCallInfo) -> Call {
        Call(info)
    }

    /// The argument at `index`, None if it is NULL or not there.
    pub fn datum(&self, index: usize) -> Option<Datum> {
        // SAFETY: the index is checked against the number of arguments.
        unsafe {
            let info = &*self.0;
            if index >= info.nargs as usize {
                return None;
            }
            let argument = &info.args.as_slice(info.nargs as usize)[index];
            (!argument.isnull).then_some(argument.value)
        }
    }

    /// The argument at `index`, whose type is that of `T` by the SQL declaration.
    pub fn get<T: FromDatum>(&self, index: usize) -> Option<T> {
        // SAFETY: the declaration says what type the argument has.
        self.datum(index).and_then(|datum| unsafe { T::from_datum(datum, false) })
    }

    /// The same, refusing NULL.
    pub fn require<T: FromDatum>(&self, index: usize, name: &str) -> Result<T> {
        self.get(index).ok_or_else(|| Error::null(name))
    }

    /// An argument of type interval.
    pub fn interval(&self, index: usize) -> Option<pg_sys::Interval> {
        // SAFETY: the declaration says interval, which is passed by reference.
        self.datum(index).map(|datum| unsafe { *datum.cast_mut_ptr::<pg_sys::Interval>() })
    }

    /// The actual type of a polymorphic argument.
    pub fn argument_type(&self, index: usize) -> Oid {
        // SAFETY: flinfo belongs to the call.
        unsafe { pg_sys::get_fn_expr_argtype((*self.0).flinfo, index as i32) }
    }

    /// Whether this CALL runs inside a larger transaction.
    pub fn is_atomic(&self) -> bool {
        // SAFETY: the context of a procedure's call is a CallContext node.
        unsafe {
            let context = (*self.0).context;
            context.is_null()
                || (*context).type_ != pg_sys::NodeTag::T_CallContext
                || (*context.cast::<pg_sys::CallContext>()).atomic
        }
    }

    /// The result NULL.
    pub fn null(&self) -> Datum {
        // SAFETY: the call information is ours to fill in.
        unsafe { (*self.0).isnull = true };
        Datum::from(0)
    }

    /// The result of a function that returns nothing.
    pub fn nothing(&self) -> Datum {
        Datum::from(0)
    }

    /// What fired the trigger whose function this is.
    pub fn trigger_data(&self) -> Option<&pg_sys::TriggerData> {
        // SAFETY: the context of a trigger's call is a TriggerData node.
        unsafe {
            let context = (*self.0).context;
            let fired = !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData;
            if fired { context.cast::<pg_sys::TriggerData>().as_ref() } else { None }
        }
    }

    /// The one row that a procedure with INOUT parameters gives back.
    pub fn record(&self, value: Option<Datum>) -> Datum {
        let mut values = [value.unwrap_or(Datum::from(0))];
        let mut nulls = [value.is_none()];
        // SAFETY: the declared result has one column, and the arrays have one element.
        unsafe {
            let mut description = std::ptr::null_mut();
            pg_sys::get_call_result_type(self.0, std::ptr::null_mut(), &mut description);
            let description = pg_sys::BlessTupleDesc(description);
            let tuple =
                pg_sys::heap_form_tuple(description, values.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
        }
    }
}

/// The rows of a function that returns a set, collected before it ends.
pub enum Output {
    /// For the server's FunctionScan.
    Store { store: *mut pg_sys::Tuplestorestate, description: pg_sys::TupleDesc },
    /// For our own node.
    Kept(*mut Kept),
}

impl Output {
    pub fn open(call: &Call) -> Output {
        // SAFETY: the server checks that the caller accepts a set; afterwards all pointers are set and
        // live as long as the query.
        unsafe {
            if let Some(kept) = scan::kept(call.0) {
                return Output::Kept(kept);
            }
            pg_sys::InitMaterializedSRF(call.0, pg_sys::MAT_SRF_USE_EXPECTED_DESC);
            let result = (*call.0).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            Output::Store { store: (*result).setResult, description: (*result).setDesc }
        }
    }

    /// Adds a row of one value.
    pub fn push(&self, value: Datum) {
        let (mut values, mut nulls) = ([value], [false]);
        // SAFETY: the description has one column: the declared type is not composite. What our own node
        // calls gives back jsonb, if not rows.
        unsafe {
            match *self {
                Output::Kept(kept) => (*kept).push(value),
                Output::Store { store, description } => pg_sys::tuplestore_putvalues(
                    store,
                    description,
                    values.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                ),
            }
        }
    }

    /// Adds a row given as one composite value, whose columns become the row's.
    pub fn push_row(&self, row: Datum) {
        // SAFETY: `row` is a composite value of the type that `expects` has compared.
        unsafe {
            match *self {
                Output::Kept(kept) => (*kept).push(row),
                Output::Store { store, .. } => {
                    let row = pg_sys::pg_detoast_datum(row.cast_mut_ptr());
                    pg_sys::tuplestore_puttuple(store, &mut scan::tuple_of(row))
                }
            }
        }
    }

    fn description(&self) -> pg_sys::TupleDesc {
        match *self {
            // SAFETY: lives as long as the query.
            Output::Kept(kept) => unsafe { (*kept).description() },
            Output::Store { description, .. } => description,
        }
    }

    /// Adds all rows of a statement that gives back one value each.
    pub fn push_all(&self, rows: &Rows, form: Form) {
        for value in (0..rows.len()).filter_map(|row| rows.datum(row, 1)) {
            match form {
                Form::Json => self.push(value),
                Form::Row => self.push_row(value),
            }
        }
    }

    /// Refuses a table whose columns are not those that the query was planned with.
    pub fn expects(&self, row: &RowType, queue: &str) -> Result<()> {
        // SAFETY: the description lives as long as the query.
        if unsafe { row.matches(self.description()) } {
            return Ok(());
        }
        Err(Error::columns_changed(queue))
    }
}
