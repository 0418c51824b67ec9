//! amcheck finds a row that is in an index twice; the checker and the fuzzer rely on it.

use xqueue_tests::*;

#[test]
fn a_key_twice_in_a_unique_index_is_found() {
    let database = Database::empty("amcheck");
    let mut client = database.client();
    let fixture = "CREATE EXTENSION amcheck; CREATE TABLE doubled AS SELECT 1 AS id FROM generate_series(1, 2);
                   CREATE INDEX doubled_idx ON doubled (id)";
    client.batch_execute(fixture).expect("an index that is not unique");
    let unique =
        "UPDATE pg_index SET indisunique = true WHERE indexrelid = 'doubled_idx'::regclass";
    client.batch_execute(unique).expect("it is declared unique afterwards");
    let version: i32 =
        scalar(&mut client, "SELECT current_setting('server_version_num')::int", &[]);
    let wrong = index_checks(&mut client)
        .into_iter()
        .filter(|(_, check)| client.batch_execute(check).is_err())
        .map(|(index, _)| index);
    let expected: &[&str] = if version >= 170_000 { &["doubled_idx"] } else { &[] };
    assert_eq!(wrong.collect::<Vec<_>>(), expected);
}
