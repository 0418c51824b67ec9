//! Compares the declarations of functions in SQL with `sql_functions!` in the code. Both must say the same. The
//! positions and Rust types of the arguments come from `sql_functions!`.

use std::collections::BTreeSet;

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Ident, Lit, LitStr, Token, bracketed, parenthesized};
use xqueue_tests::*;

/// An entry of `sql_functions!`.
struct Declared {
    volatility: String,
    name: String,
    symbol: String,
    info: String,
    arguments: Vec<Argument>,
    result: Option<Returned>,
}

struct Argument {
    is_inout: bool,
    name: String,
    declared: String,
    default: Option<Default>,
}

struct Default {
    value: String,
    only_of_rows: bool,
}

struct Returned {
    is_set: bool,
    declared: String,
}

/// The form of a function: most have both.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Rows,
}

impl Parse for Declared {
    fn parse(input: ParseStream) -> syn::Result<Declared> {
        let mut volatility = "volatile".to_string();
        if input.peek(Token![#]) {
            input.parse::<Token![#]>()?;
            let said;
            bracketed!(said in input);
            volatility = said.parse::<Ident>()?.to_string();
        }
        let name = input.parse::<LitStr>()?.value();
        input.parse::<Token![as]>()?;
        let symbol = input.parse::<Ident>()?.to_string();
        input.parse::<Token![,]>()?;
        let info = input.parse::<Ident>()?.to_string();
        let arguments;
        parenthesized!(arguments in input);
        let arguments = Punctuated::<Argument, Token![,]>::parse_terminated(&arguments)?;
        let result = if input.peek(Token![->]) { Some(input.parse()?) } else { None };
        input.parse::<Token![=>]>()?;
        input.parse::<syn::Path>()?;
        let arguments = arguments.into_iter().collect();
        Ok(Declared { volatility, name, symbol, info, arguments, result })
    }
}

impl Parse for Argument {
    fn parse(input: ParseStream) -> syn::Result<Argument> {
        let is_inout = input.peek(Token![&]);
        if is_inout {
            input.parse::<Token![&]>()?;
            input.parse::<Token![mut]>()?;
        }
        let name = input.call(Ident::parse_any)?.to_string();
        input.parse::<Token![:]>()?;
        let declared = input.parse::<Ident>()?.to_string();
        let has_default = input.peek(Token![=]);
        if has_default {
            input.parse::<Token![=]>()?;
        }
        let default = if has_default { Some(input.parse()?) } else { None };
        Ok(Argument { is_inout, name, declared, default })
    }
}

impl Parse for Default {
    fn parse(input: ParseStream) -> syn::Result<Default> {
        if input.peek(syn::token::Bracket) {
            let of_rows;
            bracketed!(of_rows in input);
            return Ok(Default { only_of_rows: true, ..of_rows.parse()? });
        }
        let value = match input.peek(Lit) {
            true => match input.parse()? {
                Lit::Str(text) => format!("'{}'", text.value()),
                Lit::Int(number) => number.to_string(),
                Lit::Bool(truth) => truth.value.to_string(),
                other => return Err(syn::Error::new(other.span(), "a default")),
            },
            false => input.parse::<Ident>()?.to_string(),
        };
        Ok(Default { value, only_of_rows: false })
    }
}

impl Parse for Returned {
    fn parse(input: ParseStream) -> syn::Result<Returned> {
        input.parse::<Token![->]>()?;
        if !input.peek(syn::token::Bracket) {
            return Ok(Returned { is_set: false, declared: input.parse::<Ident>()?.to_string() });
        }
        let rows;
        bracketed!(rows in input);
        Ok(Returned { is_set: true, declared: rows.parse::<Ident>()?.to_string() })
    }
}

impl Declared {
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
        let result = self.result.as_ref().map_or("-".to_string(), |result| {
            let declared = sql_type(&result.declared, form);
            if result.is_set { format!("SETOF {declared}") } else { declared.to_string() }
        });
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
    fn shown(&self, form: Form, is_procedures: bool) -> String {
        let declared = sql_type(&self.declared, form);
        let mode = match (self.is_inout, is_procedures) {
            (true, _) => "INOUT ",
            (false, true) => "IN ",
            (false, false) => "",
        };
        let default = self.default.as_ref();
        let default = default.filter(|default| form == Form::Rows || !default.only_of_rows);
        let default = default.map_or(String::new(), |default| match default.value.as_str() {
            "'0'" => " DEFAULT '00:00:00'::interval".into(),
            "NULL" if declared == "anycompatible" => " DEFAULT NULL::unknown".into(),
            value if value == "NULL" || value.starts_with('\'') => {
                format!(" DEFAULT {value}::{declared}")
            }
            value => format!(" DEFAULT {value}"),
        });
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

/// All entries in the sources.
#[derive(Default)]
struct Table(Vec<Declared>);

impl Table {
    fn of_sources() -> Table {
        let mut table = Table::default();
        for (_, text) in sources("src") {
            table.visit_file(&syn::parse_file(&text).expect("a source of Rust"));
        }
        // Only builds for tests declare the function that counts shortcuts.
        table.0.retain(|declared| declared.symbol != "shortcuts");
        table
    }

    fn shown(&self) -> BTreeSet<String> {
        let of = |declared: &Declared| {
            declared.forms().iter().map(|form| declared.shown(*form)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of).collect()
    }
}

impl<'ast> Visit<'ast> for Table {
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if call.path.segments.last().is_some_and(|name| name.ident == "sql_functions") {
            let entries = call
                .parse_body_with(Punctuated::<Declared, Token![;]>::parse_terminated)
                .expect("declarations of functions");
            self.0.extend(entries);
        }
        visit::visit_macro(self, call);
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
    let declared = Table::of_sources().shown();
    let known = connect().query(KNOWN, &[]).expect("the functions");
    let known: BTreeSet<String> = known.iter().map(|row| row.get(0)).collect();
    let only_rust: Vec<_> = declared.difference(&known).collect();
    let only_sql: Vec<_> = known.difference(&declared).collect();
    let differ = !only_rust.is_empty() || !only_sql.is_empty();
    assert!(!differ, "only sql_functions!: {only_rust:#?}\nonly pg_proc: {only_sql:#?}");
    assert!(known.len() > 60, "most are written in C");
}

#[test]
fn each_symbol_is_declared_once() {
    let table = Table::of_sources();
    let symbols: BTreeSet<_> = table.0.iter().map(|declared| &declared.symbol).collect();
    assert_eq!(symbols.len(), table.0.len(), "declared twice");
    for declared in &table.0 {
        assert_eq!(declared.info, format!("pg_finfo_{}", declared.symbol));
    }
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
