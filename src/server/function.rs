//! SQL functions in C: their arguments, and the rows that they return.

use crate::error::{Error, OrRaise, Result};
use crate::server::foreign::{attribute, list};
use crate::server::row_type::{Columns, RowType, Version, outdated};
use crate::server::scan::{self, Kept};
use crate::server::types;
use crate::server::value::Value;
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::{self, Datum, FunctionCallInfo, Oid};
use std::cell::Cell;
use std::ptr::null_mut;

/// Declares SQL functions. Each declaration has the SQL name, the C symbol, the symbol that declares its calling
/// convention, arguments and result. The Rust function `fn(&Call) -> Result<Option<Value>>` implements it.
///
/// Arguments are in the order of SQL, with `&mut` for INOUT, and are read through module `arg`; the types are those of
/// [`argument::sql_type`](crate::server::argument::sql_type). Brackets hold a default of the row form only, and the row
/// type of a set. A function without result is a procedure. A test compares the declarations with sql/*.sql.
#[macro_export]
macro_rules! sql_functions {
    ($(
        $(#[$volatility:ident])? $name:literal as $symbol:ident, $info:ident(
            $($(&mut)? $argument:ident: $type:ident $(= $default:tt)?),* $(,)?
        ) $(-> $result:tt)? => $function:path;
    )+) => {
        /// The arguments of each function.
        #[allow(non_upper_case_globals, reason = "as SQL calls them")]
        mod arg {
            $(
            #[allow(dead_code, reason = "what only comes out is not read")]
            pub mod $symbol {
                const ALL: &[&str] = &[$(stringify!($argument)),*];
                $(
                pub const $argument: $crate::server::argument::Argument<
                    $crate::server::argument::sql_type::$type,
                > = $crate::server::argument::Argument::named(stringify!($argument), ALL);
                )*
            }
            )+
        }

        /// The functions with the server's calling convention.
        #[allow(unsafe_code, reason = "the server's calling convention, which src/server says once")]
        pub mod sql {
            use super::*;

            $(
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $symbol(
                info: pgrx::pg_sys::FunctionCallInfo,
            ) -> pgrx::pg_sys::Datum {
                let answer = || {
                    let nested = $crate::server::nesting::Nested::begin();
                    // The server has served interrupts before a statement that calls this function; triggers serve them
                    // themselves.
                    if nested.is_inner() {
                        $crate::server::process::serve_interrupts();
                    }
                    let function = $function;
                    let result = $crate::result_type!($($result)?);
                    // SAFETY: called by the server with its call information.
                    unsafe { $crate::server::function::answer(info, function, result) }
                };
                // SAFETY: called by the server; there is nothing to drop here.
                unsafe { $crate::server::diagnostics::guard(answer) }
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

/// The result type of a function declared by `sql_functions!`. None if it is checked elsewhere: rows of a set when they
/// are added, the row of a trigger against its table.
#[macro_export]
macro_rules! result_type {
    () => {
        Some($crate::server::types::RECORD)
    };
    (trigger) => {
        None
    };
    ([$row:ident]) => {
        None
    };
    ($result:ident) => {
        Some($crate::server::types::result::$result)
    };
}

/// Runs a function for the server. Its errors become the server's, and so does a result of a type other than
/// `result_type`.
///
/// # Safety
/// `info` is the call information that the server gave to a C function.
pub unsafe fn answer(
    info: FunctionCallInfo,
    function: fn(&Call) -> Result<Option<Value<'_>>>,
    result_type: Option<Oid>,
) -> Datum {
    let call = Call(info);
    let result = function(&call).or_raise();
    // SAFETY: by the contract of this function, the call information can be filled in here.
    unsafe { (*info).isnull = result.is_none() };
    match (result, result_type) {
        (None, _) => Datum::from(0),
        (Some(value), None) => value.datum(),
        (Some(value), Some(oid)) => value.require(oid),
    }
}

/// A call in progress.
pub struct Call(FunctionCallInfo);

impl Call {
    /// Returns the argument at `index`; None if it is NULL or missing.
    pub(super) fn value_at(&self, index: usize) -> Option<Value<'_>> {
        // SAFETY: the index is checked against the number of arguments; the argument has the type of its expression.
        unsafe {
            let info = &*self.0;
            if index >= info.nargs as usize {
                return None;
            }
            let argument = &info.args.as_slice(info.nargs as usize)[index];
            (!argument.isnull).then(|| Value::new(argument.value, self.type_at(index)))
        }
    }

    /// Returns the actual type of an argument; `Oid::INVALID` if the call does not determine it. Constants and
    /// parameters, the usual case, need no call of a server function.
    pub(super) fn type_at(&self, index: usize) -> Oid {
        // SAFETY: flinfo belongs to the call; the tag determines a node's type.
        unsafe {
            let function = (*self.0).flinfo;
            let call = function.as_ref().map_or(null_mut(), |function| function.fn_expr);
            if !call.is_null() && (*call).type_ == pg_sys::NodeTag::T_FuncExpr {
                let arguments = (*call.cast::<pg_sys::FuncExpr>()).args;
                let argument = list::<pg_sys::Node>(arguments).nth(index);
                match argument.map(|argument| (argument, (*argument).type_)) {
                    Some((node, pg_sys::NodeTag::T_Const)) => {
                        return (*node.cast::<pg_sys::Const>()).consttype;
                    }
                    Some((node, pg_sys::NodeTag::T_Param)) => {
                        return (*node.cast::<pg_sys::Param>()).paramtype;
                    }
                    _ => {}
                }
            }
            pg_sys::get_fn_expr_argtype(function, index as i32)
        }
    }

    /// Returns the called function and the collation of the call.
    pub fn function(&self) -> (Oid, Oid) {
        // SAFETY: flinfo, if not null, belongs to the call.
        unsafe {
            let function = (*self.0).flinfo.as_ref().map_or(Oid::INVALID, |known| known.fn_oid);
            (function, (*self.0).fncollation)
        }
    }

    /// Returns whether this CALL runs inside a larger transaction.
    pub fn is_atomic(&self) -> bool {
        // SAFETY: the context of a procedure's call is a CallContext node.
        unsafe {
            let context = (*self.0).context;
            context.is_null()
                || (*context).type_ != pg_sys::NodeTag::T_CallContext
                || (*context.cast::<pg_sys::CallContext>()).atomic
        }
    }

    /// Returns the trigger event if this is a call of a trigger function.
    pub(super) fn trigger_data(&self) -> Option<&pg_sys::TriggerData> {
        // SAFETY: the context of a trigger's call is a TriggerData node.
        unsafe {
            let context = (*self.0).context;
            let fired = !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData;
            if fired { context.cast::<pg_sys::TriggerData>().as_ref() } else { None }
        }
    }

    /// Returns the result row of a procedure with `N` INOUT parameters.
    pub fn record<const N: usize>(&self, values: [Option<Value>; N]) -> Value<'_> {
        let mut nulls = values.map(|value| value.is_none());
        // SAFETY: `checked` makes sure that the descriptor has `N` columns of the values' types.
        unsafe {
            let mut description = null_mut();
            pg_sys::get_call_result_type(self.0, null_mut(), &mut description);
            let mut values = checked(description, values);
            let description = pg_sys::BlessTupleDesc(description);
            let tuple =
                pg_sys::heap_form_tuple(description, values.as_mut_ptr(), nulls.as_mut_ptr());
            Value::new(pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data), types::RECORD)
        }
    }
}

/// Collects the rows of a set-returning function.
pub struct Output {
    place: Destination,
    /// The expected columns of the rows.
    description: pg_sys::TupleDesc,
    /// The row type that was last compared and has these columns.
    compared: Cell<Option<Version>>,
}

/// Destination of the rows.
enum Destination {
    /// A tuplestore for the server's FunctionScan.
    Store(*mut pg_sys::Tuplestorestate),
    /// Memory of the extension's own plan node.
    Kept(*mut Kept),
}

impl Output {
    pub fn open(call: &Call) -> Output {
        // SAFETY: the server checks that the caller accepts a set; afterwards all pointers are set and live as long as
        // the query.
        let (place, description) = unsafe {
            if let Some(kept) = scan::kept(call.0) {
                (Destination::Kept(kept), (*kept).description())
            } else {
                pg_sys::InitMaterializedSRF(call.0, pg_sys::MAT_SRF_USE_EXPECTED_DESC);
                let result = (*call.0).resultinfo.cast::<pg_sys::ReturnSetInfo>();
                (Destination::Store((*result).setResult), (*result).setDesc)
            }
        };
        Output { place, description, compared: Cell::new(None) }
    }

    /// Adds a row of one value.
    pub fn push(&self, value: Value) {
        // SAFETY: the descriptor has one column of the value's type; calls by the extension's own node return jsonb or
        // rows.
        unsafe {
            match self.place {
                Destination::Kept(kept) => (*kept).push(value.require(types::JSONB)),
                Destination::Store(store) => {
                    let (mut values, mut nulls) =
                        (checked(self.description, [Some(value)]), [false]);
                    pg_sys::tuplestore_putvalues(
                        store,
                        self.description,
                        values.as_mut_ptr(),
                        nulls.as_mut_ptr(),
                    )
                }
            }
        }
    }

    /// Adds a row given as one composite value, whose columns become the row's.
    pub fn push_row(&self, value: Value) {
        let oid = value.type_oid();
        if !self.compared.get().is_some_and(|version| version.is_current(oid)) {
            self.compare(value);
        }
        let row = value.datum();
        // SAFETY: `row` is a composite value with the current layout of its type, which is the expected one.
        unsafe {
            match self.place {
                Destination::Kept(kept) => (*kept).push(row),
                Destination::Store(store) => {
                    let row = pg_sys::pg_detoast_datum(row.cast_mut_ptr());
                    pg_sys::tuplestore_puttuple(store, &mut scan::tuple_of(row))
                }
            }
        }
    }

    /// Refuses a row whose type does not have the expected columns: user code can have altered the table since the
    /// query was planned.
    fn compare(&self, row: Value) {
        row.require_composite();
        let row_type = RowType::of(row.type_oid());
        if !row_type.is_some_and(|now| self.has_columns_of(&now)) {
            outdated(&types::type_name(row.type_oid())).raise()
        }
    }

    /// Refuses a table whose columns differ from the ones that the query was planned with.
    pub fn expects(&self, row: &RowType, queue: &str) -> Result<()> {
        if self.has_columns_of(row) { Ok(()) } else { Err(outdated(queue)) }
    }

    fn has_columns_of(&self, row: &RowType) -> bool {
        // SAFETY: the description lives as long as the query.
        let columns = unsafe { Columns::of(self.description) };
        let has = columns.is_some_and(|columns| row.matches(columns));
        self.compared.set(has.then(|| row.version()));
        has
    }
}

/// Returns the datums of a row's values; the row must have exactly these columns.
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
        // SAFETY: the row has as many columns as `values` has elements.
        let column = unsafe { attribute(description, number).atttypid };
        value.map_or(Datum::from(0), |value| value.require(column))
    })
}
