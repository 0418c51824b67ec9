//! CREATE EXTENSION checks its database and its schema.

use xqueue_tests::{Database, Role, Run, expect_error, scalar};

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

/// Without the extension, a schema of its name is anybody's, with relations of any kind.
#[test]
fn a_schema_of_its_name_is_not_the_extension() {
    let role = Role::create();
    let mut database = Database::empty("no_extension");
    let name = database.name.clone();
    database.sql(&format!("GRANT CREATE ON DATABASE {name} TO {}", role.name));
    let mut c = database.client_as(&role.name);
    for registry in [
        "TABLE xqueue.queue (relation text PRIMARY KEY)",
        "TABLE xqueue.queue (relation oid PRIMARY KEY)",
        "VIEW xqueue.queue AS SELECT 1 AS relation",
    ] {
        c.run(&format!(
            "CREATE SCHEMA xqueue; CREATE {registry}; CREATE TYPE xqueue.e AS ENUM ('a');
             CREATE TABLE xqueue.t (a int, e xqueue.e)"
        ));
        if registry.starts_with("TABLE") {
            c.run("INSERT INTO xqueue.queue VALUES ('1')");
        }
        c.run("ALTER TABLE xqueue.t ALTER COLUMN a TYPE bigint");
        c.run("ALTER TYPE xqueue.e RENAME VALUE 'a' TO 'b'; DROP SCHEMA xqueue CASCADE");
    }
    database.sql(&format!("REVOKE CREATE ON DATABASE {name} FROM {}", role.name));
}

/// A role that owns the schema, or can create objects in it, could add a function that is called instead of ours.
#[test]
fn a_schema_that_other_roles_create_in_is_refused() {
    let (role, database) = (Role::create(), Database::empty("schema"));
    let mut admin = database.client();
    admin.run(&format!("CREATE SCHEMA xqueue AUTHORIZATION {}", role.name));
    let error = expect_error(&mut admin, "CREATE EXTENSION xqueue", "42501", "who is no superuser");
    assert!(error.hint().is_some_and(|hint| hint.contains("ALTER SCHEMA xqueue")), "{error:?}");
    admin.run("ALTER SCHEMA xqueue OWNER TO CURRENT_USER");
    for grantee in [role.name.as_str(), "PUBLIC"] {
        admin.run(&format!("GRANT CREATE ON SCHEMA xqueue TO {grantee}"));
        let said = format!("schema xqueue lets {grantee} create objects");
        let error = expect_error(&mut admin, "CREATE EXTENSION xqueue", "42501", &said);
        let revoke = format!("REVOKE CREATE ON SCHEMA xqueue FROM {grantee};");
        assert!(error.hint().is_some_and(|hint| hint.contains(&revoke)), "{error:?}");
        admin.run(&format!("{revoke} CREATE EXTENSION xqueue; DROP EXTENSION xqueue"));
    }
    admin.run("DROP SCHEMA xqueue; CREATE EXTENSION xqueue");
}

/// A role that could write the registry would choose functions that superusers call.
#[test]
fn default_privileges_do_not_apply_to_its_objects() {
    let role = Role::create();
    let database = Database::empty("defaults");
    let (mut admin, name) = (database.client(), &role.name);
    admin.run(&format!(
        "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {name} WITH GRANT OPTION;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO {name}"
    ));
    let said = format!("schema xqueue lets {name} create objects");
    let error = expect_error(&mut admin, "CREATE EXTENSION xqueue", "42501", &said);
    let (revoke, _) = error.hint().and_then(|hint| hint.split_once(" leaves")).expect("statements");
    admin.run(&format!("{revoke} CREATE EXTENSION xqueue"));
    let too_much = "SELECT count(*) FROM pg_class c, aclexplode(c.relacl) a \
                    WHERE c.relnamespace = 'xqueue'::regnamespace AND a.grantee <> c.relowner \
                    AND (a.grantee <> 0 OR a.privilege_type <> 'SELECT')";
    assert_eq!(scalar::<i64>(&mut admin, too_much, &[]), 0);
    let mut c = role.client_in(&database.name);
    for (refused, of) in [
        ("UPDATE xqueue.queue SET definition = '{}'", "table queue"),
        ("TABLE xqueue.session", "table session"),
        ("TABLE xqueue.secret", "table secret"),
        ("TRUNCATE xqueue.secret", "table secret"),
        ("CREATE TABLE xqueue.t ()", "schema xqueue"),
        ("CREATE TABLE xqueue_internal.t ()", "schema xqueue_internal"),
    ] {
        expect_error(&mut c, refused, "42501", &format!("permission denied for {of}"));
    }
    c.run("TABLE xqueue.queue; TABLE xqueue.queues; TABLE xqueue.sessions");
}

/// A view could use an operator in place of the server's, and a call such as xqueue.stats('jobs') can mean a type.
#[test]
fn a_schema_with_objects_is_refused() {
    let database = Database::empty("schema");
    let mut admin = database.client();
    admin.run("CREATE FUNCTION same(oid, regclass) RETURNS boolean LANGUAGE sql AS 'SELECT true'");
    let operator = "OPERATOR xqueue.= (FUNCTION = same, LEFTARG = oid, RIGHTARG = regclass)";
    let function = "FUNCTION xqueue.put(text) RETURNS text LANGUAGE sql AS 'SELECT $1'";
    for (object, definition) in [
        ("operator xqueue.=(oid,regclass)", operator),
        ("function xqueue.put(text)", function),
        ("type xqueue.stats", "DOMAIN xqueue.stats AS text"),
        ("table xqueue.jobs", "TABLE xqueue.jobs ()"),
    ] {
        admin.run(&format!("CREATE SCHEMA xqueue; CREATE {definition}"));
        let said = format!("schema xqueue is not empty: it has {object}");
        expect_error(&mut admin, "CREATE EXTENSION xqueue", "55000", &said);
        admin.run("DROP SCHEMA xqueue CASCADE");
    }
    admin.run("CREATE SCHEMA xqueue; CREATE EXTENSION xqueue");
}

/// Triggers and indexes name the functions of this schema: none of them is of another role.
#[test]
fn an_internal_schema_of_another_role_is_refused() {
    let database = Database::empty("internal_schema");
    let role = Role::create();
    let mut admin = database.client();
    let make = "CREATE SCHEMA xqueue_internal AUTHORIZATION {r}; SET ROLE {r};
        CREATE FUNCTION xqueue_internal.row_changed() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN RETURN NULL; END'; RESET ROLE";
    admin.run(&make.replace("{r}", &role.name));
    expect_error(&mut admin, "CREATE EXTENSION xqueue", "42P06", "xqueue_internal");
    admin.run("DROP SCHEMA xqueue_internal CASCADE; CREATE EXTENSION xqueue");
    for command in
        ["DROP SCHEMA xqueue_internal CASCADE", "DROP FUNCTION xqueue_internal.truncated()"]
    {
        expect_error(&mut admin, command, "2BP01", "extension xqueue requires it");
    }
    admin.run("DROP EXTENSION xqueue; CREATE EXTENSION xqueue");
    let foreign = format!(
        "SET ROLE {}; CREATE FUNCTION xqueue_internal.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        role.name
    );
    expect_error(&mut admin, &foreign, "42501", "permission denied for schema xqueue_internal");
}
