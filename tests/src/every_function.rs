//! The functions and procedures of the schema `xqueue`, both forms of each, and calls of them.

use postgres::{Client, Row};

pub struct Function {
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

/// Returns all functions and procedures of the schema.
pub fn functions(c: &mut Client) -> Vec<Function> {
    let sql = "SELECT quote_ident(proname), prokind = 'p', coalesce(proargnames, '{}'), \
               ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes) WITH ORDINALITY AS u(t, n) ORDER BY n), \
               (pronargs - pronargdefaults)::int FROM pg_proc WHERE pronamespace = 'xqueue'::regnamespace ORDER BY oid";
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
        Function { name: row.get(0), is_procedure: row.get(1), arguments }
    };
    rows.iter().map(function).collect()
}

impl Function {
    /// Returns a call that passes a value for each argument that `value` gives one for.
    pub fn call(&self, value: impl FnMut(&Argument) -> Option<String>) -> String {
        let given = self.given(value);
        match self.is_procedure {
            true => format!("CALL xqueue.{}({given})", self.name),
            false => format!("SELECT xqueue.{}({given})::text", self.name),
        }
    }

    /// Returns the argument list of a call.
    pub fn given(&self, mut value: impl FnMut(&Argument) -> Option<String>) -> String {
        let given =
            |argument: &Argument| Some(format!("\"{}\" => {}", argument.name, value(argument)?));
        self.arguments.iter().filter_map(given).collect::<Vec<_>>().join(", ")
    }
}
