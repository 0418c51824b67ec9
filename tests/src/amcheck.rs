use crate::Client;

/// Returns the B-tree indexes of the database, each with the statement that checks it. The check covers the order and
/// that every row has an entry. From PostgreSQL 17 on it also covers that no two rows share a key of a unique index.
pub fn index_checks(client: &mut Client) -> Vec<(String, String)> {
    let all = "SELECT indexrelid::regclass::text,
                      format('SELECT bt_index_check(index => %s, heapallindexed => true%s)', indexrelid, checkunique)
               FROM (SELECT CASE WHEN bool_or('checkunique' = ANY (proargnames)) THEN ', checkunique => true' END
                     FROM pg_proc WHERE proname = 'bt_index_check') AS known(checkunique),
                    pg_index JOIN pg_class ON oid = indexrelid JOIN pg_am ON pg_am.oid = relam
               WHERE amname = 'btree' AND indisvalid AND indisready AND relpersistence <> 't' AND relkind = 'i'";
    let rows = client.query(all, &[]).expect("the indexes");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}
