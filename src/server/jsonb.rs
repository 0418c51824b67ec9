//! Text, shape, members and elements of jsonb values, without building them up in Rust.

use crate::server::value::Value;
use crate::server::{raw, types};
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{self, Datum, Oid};
use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::ptr::null_mut;

/// Returns the value uncompressed and contiguous, so that later reads need not do that again.
pub fn unpacked(json: Value) -> Value {
    let datum = json.require(types::JSONB);
    // SAFETY: a jsonb value is a varlena, and so is the result.
    unsafe {
        match pgrx::varlena::varatt_is_4b_u(datum.cast_mut_ptr()) {
            true => json,
            false => made(pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast()),
        }
    }
}

/// Kind of a jsonb value at its top level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Object,
    Array,
    Scalar,
}

/// Returns the kind of a jsonb value. A scalar is stored as an array of one element.
pub fn shape(json: Value) -> Shape {
    // SAFETY: the container is live while it is read.
    let header = unsafe { (*container(json)).header };
    match header {
        header if header & pg_sys::JB_FOBJECT != 0 => Shape::Object,
        header if header & pg_sys::JB_FSCALAR != 0 => Shape::Scalar,
        _ => Shape::Array,
    }
}

/// A member of a jsonb object; borrows from that object.
pub struct Member<'m> {
    pub name: String,
    value: pg_sys::JsonbValue,
    _object: PhantomData<&'m ()>,
}

impl Member<'_> {
    pub fn is_null(&self) -> bool {
        self.value.type_ == pg_sys::jbvType::jbvNull
    }

    /// Returns whether the member is an array or an object.
    pub fn is_nested(&self) -> bool {
        self.value.type_ == pg_sys::jbvType::jbvBinary
    }

    /// Returns the member as a separate jsonb value.
    pub fn to_jsonb<'to>(&self) -> Value<'to> {
        // SAFETY: the iterator has filled in the value; it is copied.
        unsafe { made(pg_sys::JsonbValueToJsonb(std::ptr::from_ref(&self.value).cast_mut())) }
    }

    /// Returns the member as text, a string without its quotes.
    pub fn text(&self) -> String {
        // SAFETY: the iterator has filled in the value.
        unsafe { value_text(&self.value) }
    }
}

/// Returns the members of a jsonb object.
pub fn members(json: Value) -> Vec<Member> {
    // SAFETY: the iterator only reads the value, and returns nested values by reference.
    unsafe {
        let container = container(json);
        let mut iterator: *mut pg_sys::JsonbIterator = null_mut();
        let (mut key, mut value) = (pg_sys::JsonbValue::default(), pg_sys::JsonbValue::default());
        let mut members = Vec::new();
        loop {
            let token = pg_guard_ffi_boundary(|| {
                if iterator.is_null() {
                    iterator = raw::JsonbIteratorInit(container);
                    raw::JsonbIteratorNext(&mut iterator, &mut key, true);
                }
                let token = raw::JsonbIteratorNext(&mut iterator, &mut key, true);
                if token == pg_sys::JsonbIteratorToken::WJB_KEY {
                    raw::JsonbIteratorNext(&mut iterator, &mut value, true);
                }
                token
            });
            if token != pg_sys::JsonbIteratorToken::WJB_KEY {
                return members;
            }
            members.push(Member { name: string(&key), value, _object: PhantomData });
        }
    }
}

/// Returns the elements of a jsonb array, each as a separate jsonb value.
pub fn elements<'to>(json: Value) -> Vec<Value<'to>> {
    // SAFETY: the iterator reads the value, and returns nested values by reference, which are then copied.
    unsafe {
        let mut iterator = pg_sys::JsonbIteratorInit(container(json));
        let mut value = pg_sys::JsonbValue::default();
        let mut elements = Vec::new();
        pg_sys::JsonbIteratorNext(&mut iterator, &mut value, true);
        while pg_sys::JsonbIteratorNext(&mut iterator, &mut value, true)
            == pg_sys::JsonbIteratorToken::WJB_ELEM
        {
            elements.push(made(pg_sys::JsonbValueToJsonb(&mut value)));
        }
        elements
    }
}

/// Converts a value to jsonb like `to_jsonb`, a row to an object. Calls the cast of a user-defined type.
pub fn of<'to>(value: Value) -> Value<'to> {
    let mut argument = pg_sys::Const { consttype: value.type_oid(), ..Default::default() };
    argument.xpr.type_ = pg_sys::NodeTag::T_Const;
    let mut element = pg_sys::ListCell { ptr_value: (&raw mut argument).cast() };
    let mut arguments = pg_sys::List { type_: pg_sys::NodeTag::T_List, ..Default::default() };
    (arguments.length, arguments.max_length, arguments.elements) = (1, 1, &raw mut element);
    let mut call = pg_sys::FuncExpr { args: &raw mut arguments, ..Default::default() };
    call.xpr.type_ = pg_sys::NodeTag::T_FuncExpr;
    let mut info = pg_sys::FmgrInfo::default();
    // SAFETY: the function takes the type of its argument from the expression of its call, which has the value's type,
    // and uses no other part of the expression.
    unsafe {
        pg_sys::fmgr_info(pg_sys::F_TO_JSONB.into(), &mut info);
        info.fn_expr = (&raw mut call).cast();
        let json = pg_sys::FunctionCall1Coll(&mut info, Oid::INVALID, value.datum());
        Value::new(json, types::JSONB)
    }
}

/// Returns a jsonb array of these values.
pub fn array<'to>(values: &[Value]) -> Value<'to> {
    // SAFETY: each value is passed by reference, and copied in the end.
    unsafe {
        let mut state = std::ptr::null_mut();
        let begin = pg_sys::JsonbIteratorToken::WJB_BEGIN_ARRAY;
        pg_sys::pushJsonbValue(&mut state, begin, std::ptr::null_mut());
        for value in values {
            let jsonb = unpacked(*value);
            let length = pgrx::varlena::varsize(jsonb.datum().cast_mut_ptr());
            let mut element =
                pg_sys::JsonbValue { type_: pg_sys::jbvType::jbvBinary, ..Default::default() };
            element.val.binary.data = container(jsonb);
            element.val.binary.len = length as i32 - pg_sys::VARHDRSZ as i32;
            pg_sys::pushJsonbValue(&mut state, pg_sys::JsonbIteratorToken::WJB_ELEM, &mut element);
        }
        let end = pg_sys::JsonbIteratorToken::WJB_END_ARRAY;
        let array = pg_sys::pushJsonbValue(&mut state, end, std::ptr::null_mut());
        made(pg_sys::JsonbValueToJsonb(array))
    }
}

/// Returns a member of a jsonb object; None if it is missing or null.
pub fn member<'m>(json: Value<'m>, name: &str) -> Option<Member<'m>> {
    if shape(json) != Shape::Object {
        return None;
    }
    // SAFETY: an object, and the name outlives the call, which returns a nested value by reference.
    let value = unsafe {
        let value = pg_sys::getKeyJsonValueFromContainer(
            container(json),
            name.as_ptr().cast(),
            name.len() as i32,
            null_mut(),
        );
        *value.as_ref()?
    };
    let member = Member { name: name.to_string(), value, _object: PhantomData };
    (!member.is_null()).then_some(member)
}

/// Returns a jsonb value as text.
pub fn text(json: Value) -> String {
    let json = unpacked(json);
    // SAFETY: the value is contiguous; the C string is copied.
    unsafe {
        let length = pgrx::varlena::varsize(json.datum().cast_mut_ptr()) as i32;
        let text = pg_sys::JsonbToCString(std::ptr::null_mut(), container(json), length);
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

/// Returns a jsonb scalar as text, a string without its quotes.
pub fn scalar_text(json: Value) -> String {
    if shape(json) != Shape::Scalar {
        return text(json);
    }
    // SAFETY: a scalar is stored as an array of one element.
    unsafe {
        let value = pg_sys::getIthJsonbValueFromContainer(container(json), 0);
        match value.as_ref() {
            Some(value) => value_text(value),
            None => text(json),
        }
    }
}

/// Returns an object of these members.
pub fn object<'to, 'm>(members: impl IntoIterator<Item = &'m Member<'m>>) -> Value<'to> {
    let pair = |member: &Member| {
        let name = serde_json::Value::from(member.name.as_str());
        format!("{name}: {}", text(member.to_jsonb()))
    };
    let pairs: Vec<String> = members.into_iter().map(pair).collect();
    parsed(format!("{{{}}}", pairs.join(", ")))
}

/// Converts a JSON value to jsonb.
pub fn from_value<'to>(value: &serde_json::Value) -> Value<'to> {
    parsed(value.to_string())
}

fn parsed<'to>(text: String) -> Value<'to> {
    // JSON text escapes the NUL character, so it contains no NUL.
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: jsonb_in takes one C string, and never returns NULL.
    unsafe {
        let arguments = [Some(Datum::from(text.as_ptr()))];
        let json = pgrx::direct_function_call_as_datum(pg_sys::jsonb_in, &arguments);
        made(json.map_or(null_mut(), |json| json.cast_mut_ptr()))
    }
}

/// # Safety
/// `json` points to a jsonb value in the current memory context.
unsafe fn made<'to>(json: *mut pg_sys::Jsonb) -> Value<'to> {
    // SAFETY: by the contract of this function.
    unsafe { Value::new(Datum::from(json), types::JSONB) }
}

/// Returns the start of the value's contents, valid as long as the value.
fn container(json: Value) -> *mut pg_sys::JsonbContainer {
    let jsonb = unpacked(json).datum().cast_mut_ptr::<pg_sys::Jsonb>();
    // SAFETY: a contiguous jsonb value.
    unsafe { std::ptr::addr_of_mut!((*jsonb).root) }
}

/// # Safety
/// `value` was filled in by the jsonb functions.
unsafe fn value_text(value: &pg_sys::JsonbValue) -> String {
    // SAFETY: by the contract of this function; the text is allocated in the current memory context and copied.
    unsafe {
        match value.type_ {
            pg_sys::jbvType::jbvString => string(value),
            pg_sys::jbvType::jbvNumeric => {
                Value::new(Datum::from(value.val.numeric), pg_sys::NUMERICOID).shown()
            }
            _ => text(made(pg_sys::JsonbValueToJsonb(std::ptr::from_ref(value).cast_mut()))),
        }
    }
}

/// # Safety
/// `value` is a string (or key) that the jsonb functions have filled in.
unsafe fn string(value: &pg_sys::JsonbValue) -> String {
    // SAFETY: by the contract of this function the union holds a string with its length.
    let bytes = unsafe {
        let string = value.val.string;
        std::slice::from_raw_parts(string.val.cast::<u8>(), string.len as usize)
    };
    String::from_utf8_lossy(bytes).into_owned()
}
