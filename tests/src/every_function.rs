//! The functions and procedures of the extension, both forms of each, and calls of them.

use postgres::{Client, Row};

pub struct Function {
    pub schema: String,
    pub name: String,
    pub is_procedure: bool,
    pub arguments: Vec<Argument>,
}

pub struct Argument {
    pub name: String,
    /// The type in the declaration.
    pub declared: String,
    pub is_required: bool,
}

/// Returns all functions and procedures of the extension.
pub fn functions(c: &mut Client) -> Vec<Function> {
    let sql = "SELECT quote_ident(proname), prokind = 'p', coalesce(proargnames, '{}'), \
               ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) WITH ORDINALITY AS u(t, n) ORDER BY n), \
               (pronargs - pronargdefaults)::int, pronamespace::regnamespace::text FROM pg_proc WHERE pronamespace IN ('xqueue'::regnamespace, 'xqueue_internal'::regnamespace) ORDER BY oid";
    let rows = c.query(sql, &[]).expect("the functions");
    let function = |row: &Row| {
        let (names, types): (Vec<String>, Vec<String>) = (row.get(2), row.get(3));
        let required: i32 = row.get(4);
        let argument = |(number, (name, declared))| Argument {
            name,
            declared,
            is_required: number < required as usize,
        };
        let arguments = names.into_iter().zip(types).enumerate().map(argument).collect();
        Function { schema: row.get(5), name: row.get(0), is_procedure: row.get(1), arguments }
    };
    rows.iter().map(function).collect()
}

/// Returns a query of each view.
pub fn views(c: &mut Client) -> Vec<String> {
    let sql =
        "SELECT 'SELECT * FROM xqueue.' || viewname FROM pg_views WHERE schemaname = 'xqueue'";
    let rows = c.query(sql, &[]).expect("the views");
    rows.iter().map(|row| row.get(0)).collect()
}

impl Function {
    /// Returns a call that passes a value for each argument that `value` gives one for.
    pub fn call(&self, value: impl FnMut(&Argument) -> Option<String>) -> String {
        let given = self.given(value);
        match self.is_procedure {
            true => format!("CALL {}.{}({given})", self.schema, self.name),
            false => format!("SELECT {}.{}({given})::text", self.schema, self.name),
        }
    }

    /// Returns the argument list of a call.
    pub fn given(&self, mut value: impl FnMut(&Argument) -> Option<String>) -> String {
        let given =
            |argument: &Argument| Some(format!("\"{}\" => {}", argument.name, value(argument)?));
        self.arguments.iter().filter_map(given).collect::<Vec<_>>().join(", ")
    }
}
