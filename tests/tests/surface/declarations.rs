//! Compares the declarations of functions in SQL with `sql_functions!` in the code. Both must say the same. The
//! positions and Rust types of the arguments come from `sql_functions!`.

use std::collections::BTreeSet;

use xqueue_tests::*;

/// An entry of `sql_functions!`.
struct Declared {
    volatility: String,
    name: String,
    symbol: String,
    arguments: Vec<Argument>,
    result: Option<String>,
}

struct Argument {
    is_inout: bool,
    name: String,
    declared: String,
    default: Option<String>,
}

/// The form of a function: most have both.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Rows,
}

/// Returns all entries in the sources.
fn declared() -> Vec<Declared> {
    let mut all = Vec::new();
    for (_, text) in sources("src") {
        for call in text.split("sql_functions! {\n").skip(1) {
            let lines = call.lines().take_while(|line| line.trim() != "}");
            let entries: String = lines.flat_map(str::split_whitespace).collect();
            let entries = entries.split_terminator(';');
            all.extend(entries.map(|entry| Declared::read(entry).expect(entry)));
        }
    }
    // Only builds for tests declare the function that counts shortcuts.
    all.retain(|declared| declared.symbol != "shortcuts");
    all
}

impl Declared {
    /// Reads an entry without blanks: `#[stable]"name"assymbol,info(name:type=default,…)->[type]=>function`.
    fn read(entry: &str) -> Option<Declared> {
        let attribute = entry.strip_prefix("#[").and_then(|rest| rest.split_once(']'));
        let (volatility, entry) = attribute.unwrap_or(("volatile", entry));
        let (name, entry) = entry.strip_prefix('"')?.split_once('"')?;
        let (symbol, entry) = entry.strip_prefix("as")?.split_once(',')?;
        let (_info, entry) = entry.split_once('(')?;
        let (arguments, entry) = entry.rsplit_once(')')?;
        let (result, _function) = entry.split_once("=>")?;
        let arguments = arguments.split_terminator(',').map(Argument::read);
        Some(Declared {
            volatility: volatility.into(),
            name: name.into(),
            symbol: symbol.into(),
            arguments: arguments.collect::<Option<_>>()?,
            result: result.strip_prefix("->").map(str::to_owned),
        })
    }

    fn forms(&self) -> &'static [Form] {
        let has = |name| self.arguments.iter().any(|argument| argument.declared == name);
        match (has("queue"), has("row")) {
            (true, _) => &[Form::Json, Form::Rows],
            (false, true) => &[Form::Rows],
            (false, false) => &[Form::Json],
        }
    }

    /// Returns the function in the format of `KNOWN`.
    fn shown(&self, form: Form) -> String {
        let is_procedure = self.result.is_none();
        let arguments = self.arguments.iter().map(|argument| argument.shown(form, is_procedure));
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        let result = match &self.result {
            None => "-".to_owned(),
            Some(result) => match result.strip_prefix('[') {
                Some(rows) => format!("SETOF {}", sql_type(rows.trim_end_matches(']'), form)),
                None => sql_type(result, form).to_owned(),
            },
        };
        let kind = if is_procedure { 'p' } else { 'f' };
        // An immutable function depends on its arguments only.
        let (volatility, parallel) = match self.volatility.as_str() {
            "immutable" => ('i', 's'),
            "stable" => ('s', 'u'),
            _ => ('v', 'u'),
        };
        let (name, symbol) = (&self.name, &self.symbol);
        format!(
            "{name}({arguments}) -> {result} = {symbol} {kind}{volatility} false {parallel} false false"
        )
    }
}

impl Argument {
    /// Reads `name:type=default`. A default in brackets is one of the row form only.
    fn read(argument: &str) -> Option<Argument> {
        let (name, declared) = argument.split_once(':')?;
        let (declared, default) = match declared.split_once('=') {
            Some((declared, default)) => (declared, Some(default.replace('"', "'"))),
            None => (declared, None),
        };
        let (is_inout, name) = match name.strip_prefix("&mut") {
            Some(name) => (true, name),
            None => (false, name),
        };
        Some(Argument { is_inout, name: name.into(), declared: declared.into(), default })
    }

    fn shown(&self, form: Form, is_procedures: bool) -> String {
        let declared = sql_type(&self.declared, form);
        let mode = match (self.is_inout, is_procedures) {
            (true, _) => "INOUT ",
            (false, true) => "IN ",
            (false, false) => "",
        };
        let default = self.default.as_deref();
        let default = default.filter(|default| form == Form::Rows || !default.starts_with('['));
        let default = match default.map(|default| default.trim_matches(['[', ']'])) {
            None => String::new(),
            Some("'0'") => " DEFAULT '00:00:00'::interval".into(),
            Some("NULL") if declared == "anycompatible" => " DEFAULT NULL::unknown".into(),
            Some(value) if value == "NULL" || value.starts_with('\'') => {
                format!(" DEFAULT {value}::{declared}")
            }
            Some(value) => format!(" DEFAULT {value}"),
        };
        format!("{mode}{} {declared}{default}", self.name)
    }
}

/// Returns the type in the SQL declaration.
fn sql_type(declared: &str, form: Form) -> &str {
    match (declared, form) {
        ("queue", Form::Json) => "text",
        ("tasks", Form::Json) => "jsonb",
        ("queue" | "tasks", Form::Rows) | ("row", _) => "anyelement",
        ("key", _) => "anycompatible",
        (declared, _) => declared,
    }
}

/// The server's catalogue entries of all functions of the extension that are written in C.
const KNOWN: &str = "SELECT format('%s(%s) -> %s = %s %s%s %s %s %s %s', proname, pg_get_function_arguments(p.oid), \
    coalesce(pg_get_function_result(p.oid), '-'), prosrc, prokind, provolatile, proisstrict::text, \
    proparallel, prosecdef::text, proleakproof::text) \
    FROM pg_proc p JOIN pg_language l ON l.oid = prolang AND lanname = 'c' \
    WHERE pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace)";

#[test]
fn sql_and_rust_say_the_same() {
    let all = declared();
    let declared: BTreeSet<String> =
        all.iter().flat_map(|of| of.forms().iter().map(|form| of.shown(*form))).collect();
    let known = connect().query(KNOWN, &[]).expect("the functions");
    let known: BTreeSet<String> = known.iter().map(|row| row.get(0)).collect();
    let only_rust: Vec<_> = declared.difference(&known).collect();
    let only_sql: Vec<_> = known.difference(&declared).collect();
    let differ = !only_rust.is_empty() || !only_sql.is_empty();
    assert!(!differ, "only sql_functions!: {only_rust:#?}\nonly pg_proc: {only_sql:#?}");
    assert!(known.len() > 60, "most are written in C");
}

/// A manual declaration with other types or fewer arguments gives an error instead of misread memory.
#[test]
fn a_wrong_declaration_is_an_error() {
    let database = Database::new("declarations");
    let mut c = database.client();
    c.batch_execute(
        "CREATE TABLE jobs (id bigint PRIMARY KEY, payload jsonb); SELECT xqueue.upgrade('jobs');
         CREATE FUNCTION take(queue text, timeout bigint) RETURNS SETOF jsonb LANGUAGE c AS 'xqueue', 'take';
         CREATE FUNCTION put(queue text, task text, delay integer) RETURNS SETOF jsonb LANGUAGE c AS 'xqueue', 'put';
         CREATE FUNCTION kick(queue text, n interval) RETURNS integer LANGUAGE c AS 'xqueue', 'kick';
         CREATE FUNCTION kick(queue text) RETURNS integer LANGUAGE c AS 'xqueue', 'kick';
         CREATE FUNCTION resume(queue bigint) RETURNS void LANGUAGE c AS 'xqueue', 'resume_queue';",
    )
    .unwrap();
    for (call, expected) in [
        ("take('jobs', 5::bigint)", "42804"),
        ("put('jobs', '{}'::text, 1)", "42804"),
        ("kick('jobs', '1s'::interval)", "42804"),
        ("kick('jobs')", "22004"),
        ("resume(7::bigint)", "42804"),
    ] {
        let error = c.batch_execute(&format!("SELECT public.{call}")).expect_err(call);
        assert_eq!(code(&error), expected, "{call}: {error:?}");
    }
}
