//! The types that the extension deals with.

use pgrx::pg_sys::{self, Oid};

pub const BOOL: Oid = pg_sys::BOOLOID;
pub const OID: Oid = pg_sys::OIDOID;
pub const OID_ARRAY: Oid = pg_sys::OIDARRAYOID;
pub const INT2: Oid = pg_sys::INT2OID;
pub const INT4: Oid = pg_sys::INT4OID;
pub const INT8: Oid = pg_sys::INT8OID;
pub const CHAR: Oid = pg_sys::CHAROID;
pub const TEXT: Oid = pg_sys::TEXTOID;
pub const UUID: Oid = pg_sys::UUIDOID;
pub const UUID_ARRAY: Oid = pg_sys::UUIDARRAYOID;
pub const BPCHAR: Oid = pg_sys::BPCHAROID;
pub const JSON: Oid = pg_sys::JSONOID;
pub const JSONB: Oid = pg_sys::JSONBOID;
pub const INTERVAL: Oid = pg_sys::INTERVALOID;
pub const TIMESTAMPTZ: Oid = pg_sys::TIMESTAMPTZOID;
pub const RECORD: Oid = pg_sys::RECORDOID;
/// The types whose values are strings.
pub const TEXTS: [Oid; 3] = [pg_sys::TEXTOID, pg_sys::VARCHAROID, pg_sys::BPCHAROID];

pub fn is_integer(oid: Oid) -> bool {
    [INT2, INT4, INT8].contains(&oid)
}

/// A uuid as text.
pub fn uuid_text(uuid: [u8; 16]) -> String {
    let hex: Vec<String> = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex[from..to].concat();
    [part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 16)].join("-")
}
