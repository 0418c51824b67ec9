//! amcheck finds a row that is in an index twice; the checker and the fuzzer rely on it.

use xqueue_tests::*;

#[test]
fn a_key_twice_in_a_unique_index_is_found() {
    let database = Database::empty("amcheck");
    let mut client = database.client();
    client.run(
        "CREATE EXTENSION amcheck; CREATE TABLE doubled AS SELECT 1 AS id FROM generate_series(1, 2);
         CREATE INDEX doubled_idx ON doubled (id)",
    );
    client.run("UPDATE pg_index SET indisunique = true WHERE indexrelid = 'doubled_idx'::regclass");
    let mut checks = index_checks(&mut client);
    checks.retain(|(_, check)| client.batch_execute(check).is_err());
    let wrong: Vec<_> = checks.iter().map(|(index, _)| index.as_str()).collect();
    let since_17 = "SELECT current_setting('server_version_num')::int >= 170000";
    let is_since_17: bool = scalar(&mut client, since_17, &[]);
    assert_eq!(wrong, if is_since_17 { vec!["doubled_idx"] } else { vec![] });
}
