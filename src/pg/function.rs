//! SQL functions in C: their arguments, and the rows they give back.

use super::catalog;
use super::foreign::attribute;
use super::relation::{self, RowType};
use super::scan::{self, Kept};
use super::spi::Rows;
use super::types;
use super::value::Value;
use crate::error::{Error, OrRaise, Result};
use crate::statement::Form;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, Oid};

/// Makes Rust functions of the form `fn(&Call) -> Result<Option<Value>>` callable from SQL, each under the
/// C symbol given, with the symbol that declares its calling convention. None is NULL.
#[macro_export]
macro_rules! sql_functions {
    ($($symbol:ident, $info:ident => $function:path),+ $(,)?) => {
        /// The functions as the server calls them.
        #[allow(unsafe_code, reason = "the server's calling convention, which src/pg says once")]
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
                    let _nested = $crate::nesting::Nested::begin();
                    $crate::pg::process::serve_interrupts();
                    let function = $function;
                    // SAFETY: called by the server with its call information.
                    unsafe { $crate::pg::function::answer(info, function) }
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

/// Answers a call of the server's by a function, whose errors become the server's.
///
/// # Safety
/// `info` is the call information that the server gave to a C function.
pub unsafe fn answer(
    info: FunctionCallInfo,
    function: fn(&Call) -> Result<Option<Value<'_>>>,
) -> Datum {
    let call = Call(info);
    let result = function(&call).or_raise();
    // SAFETY: by the contract of this function the call information is ours to fill in.
    unsafe { (*info).isnull = result.is_none() };
    result.map_or(Datum::from(0), Value::datum)
}

/// A call in progress.
pub struct Call(FunctionCallInfo);

impl Call {
    /// The argument at `index`, None if it is NULL or not there.
    pub fn value(&self, index: usize) -> Option<Value<'_>> {
        // SAFETY: the index is checked against the number of arguments; the argument is of the type that its
        // expression has.
        unsafe {
            let info = &*self.0;
            if index >= info.nargs as usize {
                return None;
            }
            let argument = &info.args.as_slice(info.nargs as usize)[index];
            (!argument.isnull).then(|| Value::new(argument.value, self.argument_type(index)))
        }
    }

    /// The argument at `index`, refusing NULL.
    pub fn require(&self, index: usize, name: &str) -> Result<Value<'_>> {
        self.value(index).ok_or_else(|| Error::null(name))
    }

    /// An argument of type text.
    pub fn text(&self, index: usize) -> Option<String> {
        self.value(index).map(Value::to_text)
    }

    /// An argument of type integer.
    pub fn int4(&self, index: usize) -> Option<i32> {
        self.value(index).map(|value| value.to_integer() as i32)
    }

    /// The actual type of an argument, `Oid::INVALID` where the caller says none.
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

    /// What fired the trigger whose function this is.
    pub(super) fn trigger_data(&self) -> Option<&pg_sys::TriggerData> {
        // SAFETY: the context of a trigger's call is a TriggerData node.
        unsafe {
            let context = (*self.0).context;
            let fired = !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData;
            if fired { context.cast::<pg_sys::TriggerData>().as_ref() } else { None }
        }
    }

    /// The one row that a procedure with `N` INOUT parameters gives back.
    pub fn record<const N: usize>(&self, values: [Option<Value>; N]) -> Value<'_> {
        let mut nulls = values.map(|value| value.is_none());
        // SAFETY: the description is looked at before it is believed: `N` columns of the values' types.
        unsafe {
            let mut description = std::ptr::null_mut();
            pg_sys::get_call_result_type(self.0, std::ptr::null_mut(), &mut description);
            let mut values = checked(description, values);
            let description = pg_sys::BlessTupleDesc(description);
            let tuple =
                pg_sys::heap_form_tuple(description, values.as_mut_ptr(), nulls.as_mut_ptr());
            Value::new(pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data), types::RECORD)
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
    pub fn push(&self, value: Value) {
        // SAFETY: the description has one column of the value's type; what our own node calls gives back jsonb,
        // if not rows.
        unsafe {
            match *self {
                Output::Kept(kept) => (*kept).push(value.require(types::JSONB)),
                Output::Store { store, description } => {
                    let (mut values, mut nulls) = (checked(description, [Some(value)]), [false]);
                    pg_sys::tuplestore_putvalues(
                        store,
                        description,
                        values.as_mut_ptr(),
                        nulls.as_mut_ptr(),
                    )
                }
            }
        }
    }

    /// Adds a row given as one composite value, whose columns become the row's.
    pub fn push_row(&self, value: Value) {
        let row = value.require_composite();
        // SAFETY: `row` is a composite value, laid out as its type is described now; that is compared, as code of
        // users may have altered the table since the query was planned.
        unsafe {
            let now = pg_sys::lookup_rowtype_tupdesc_noerror(value.type_oid(), -1, true);
            let is_expected = relation::have_same_columns(now, self.description());
            if !now.is_null() && (*now).tdrefcount >= 0 {
                pg_sys::DecrTupleDescRefCount(now);
            }
            if !is_expected {
                Error::columns_changed(&catalog::type_name(value.type_oid())).raise()
            }
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
        for value in (0..rows.len()).filter_map(|row| rows.value(row, 1)) {
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

/// The datums of the values of a row's columns, of which there are as many.
///
/// # Safety
/// `description` is null or a valid tuple descriptor.
unsafe fn checked<const N: usize>(
    description: pg_sys::TupleDesc,
    values: [Option<Value>; N],
) -> [Datum; N] {
    // SAFETY: by the contract of this function.
    let has_all =
        unsafe { description.as_ref() }.is_some_and(|description| description.natts as usize == N);
    if !has_all {
        Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_FUNCTION_DEFINITION,
            "the function is not declared as the library expects it",
        )
        .hint("ALTER EXTENSION xqueue UPDATE; brings the declarations up to date.")
        .raise()
    }
    let mut number = 0..N;
    values.map(|value| {
        let number = number.next().unwrap_or_default();
        // SAFETY: the row has as many columns as there are values.
        let column = unsafe { attribute(description, number).atttypid };
        value.map_or(Datum::from(0), |value| value.require(column))
    })
}
