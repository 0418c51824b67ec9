//! CREATE EXTENSION checks its database and its schema.

use xqueue_tests::{Database, Role, expect_error};

/// Names and values are passed as UTF-8.
#[test]
fn a_database_of_another_encoding_is_refused() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let mut database = Database::empty("encoding");
        let name = database.name.clone();
        database.sql(&format!("DROP DATABASE {name}"));
        database.sql(&format!(
            "CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        ));
        let said = format!("xqueue needs a database with encoding UTF8, not {encoding}");
        let error = expect_error(&mut database.client(), "CREATE EXTENSION xqueue", "0A000", &said);
        assert!(error.hint().is_some_and(|hint| hint.contains("CREATE DATABASE")), "{error:?}");
    }
}

/// The schema's owner could add functions that are called instead of ours.
#[test]
fn a_schema_of_another_role_is_refused() {
    let database = Database::empty("schema");
    let role = Role::create();
    let mut admin = database.client();
    admin
        .batch_execute(&format!("CREATE SCHEMA xqueue AUTHORIZATION {}", role.name))
        .expect("the schema is made");
    let error = expect_error(&mut admin, "CREATE EXTENSION xqueue", "42501", "who is no superuser");
    assert!(error.hint().is_some_and(|hint| hint.contains("ALTER SCHEMA xqueue")), "{error:?}");
    admin
        .batch_execute(
            "ALTER SCHEMA xqueue OWNER TO CURRENT_USER; \
             CREATE FUNCTION xqueue.put(text, text) RETURNS text LANGUAGE sql AS 'SELECT $1'",
        )
        .expect("he has left something behind");
    expect_error(&mut admin, "CREATE EXTENSION xqueue", "55000", "has functions already");
    let again = "DROP FUNCTION xqueue.put; CREATE EXTENSION xqueue; \
                 DROP EXTENSION xqueue; DROP SCHEMA xqueue; CREATE EXTENSION xqueue";
    admin.batch_execute(again).expect("a superuser's own, or none, will do");
    admin.batch_execute("DROP EXTENSION xqueue").expect("dropped, so that the role can go");
}
