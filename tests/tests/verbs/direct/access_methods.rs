//! Indexes of all access methods of the server find the rows that the direct path writes.

use super::*;

/// A take that fires a trigger runs in a subtransaction.
#[test]
fn indexes_of_all_access_methods_find_written_rows() {
    const FIRES: &str = "CREATE TRIGGER own BEFORE UPDATE ON {q} FOR EACH ROW \
                         EXECUTE FUNCTION suppress_redundant_updates_trigger()";
    let by_note = "note = 'n' || n";
    for (index, condition) in [
        ("gin (payload)", "payload @> to_jsonb(n)"),
        ("gin (payload) WITH (fastupdate = off)", "payload @> to_jsonb(n)"),
        (
            "gist (to_tsvector('simple', note))",
            "to_tsvector('simple', note) @@ to_tsquery('simple', 'n' || n)",
        ),
        ("spgist (note)", by_note),
        ("hash (note)", by_note),
        ("brin (note, id) WITH (pages_per_range = 1)", by_note),
    ] {
        for fires in ["", FIRES] {
            let mut q = queue();
            let name = q.name.clone();
            q.sql(&format!("CREATE INDEX {name}_own ON {name} USING {index}; {fires}"));
            for round in 0..6 {
                q.sql(
                    "SELECT xqueue.put('{q}', jsonb_build_object('note', 'n' || n, 'payload', n)) \
                     FROM generate_series(1, 30) AS n",
                );
                if index.starts_with("brin") {
                    q.sql(&format!("SELECT brin_summarize_new_values('{name}_own')"));
                }
                let taken = q.takes(20);
                let (released, acked) = taken.split_at(1 + round);
                q.sql(&format!("SELECT xqueue.release('{name}', ARRAY{released:?})"));
                assert_eq!(
                    q.ask(&format!("SELECT xqueue.ack('{name}', ARRAY{acked:?})")).len(),
                    acked.len()
                );
            }
            let counts = format!(
                "SELECT jsonb_agg((SELECT count(*) FROM {name} WHERE {condition}) ORDER BY n) \
                 FROM generate_series(1, 30) AS n"
            );
            q.sql("SET enable_indexscan = off; SET enable_bitmapscan = off");
            let expected = q.ask_one(&counts);
            q.sql("RESET enable_indexscan; RESET enable_bitmapscan; SET enable_seqscan = off");
            assert_eq!(q.ask_one(&counts), expected, "{index} {fires}");
        }
    }
}
