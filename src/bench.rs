//! Benchmarks inside the server: the cost of the most frequent calls without a client, a round trip and a commit. Each
//! call repeats in one transaction that is rolled back. Takes are not measured: the row versions that they leave would
//! slow later takes down. Built with the feature `pg_bench` and run by `pgrx-embed/bench in-server`, or by `cargo pgrx
//! bench`.

#[pgrx::pg_schema]
mod benches {
    use pgrx::prelude::*;
    use pgrx::spi::OwnedPreparedStatement;
    use pgrx_bench::{Bencher, black_box};

    /// Creates a queue, the same table without triggers, and one task that stays.
    fn prepare() {
        let statements = [
            "SELECT xqueue.create('benches.queue')",
            "SELECT xqueue.create('benches.empty')",
            "CREATE TABLE benches.plain (LIKE benches.queue INCLUDING ALL)",
            "INSERT INTO benches.queue (payload) VALUES ('{\"n\": 1}')",
        ];
        Spi::connect_mut(|client| {
            for statement in statements {
                if let Err(error) = client.update(statement, None, &[]) {
                    error!("{statement}: {error}");
                }
            }
        });
    }

    /// Plans a statement once and runs it through the executor; expects it to return or insert `expected` rows.
    fn repeat(bencher: &mut Bencher, statement: &str, expected: usize) {
        let plan =
            Spi::connect_mut(|client| client.prepare_mut(statement, &[]).map(|plan| plan.keep()));
        let plan: OwnedPreparedStatement = match plan {
            Ok(plan) => plan,
            Err(error) => error!("{statement}: {error}"),
        };
        bencher.iter(move || {
            let rows =
                Spi::connect_mut(|client| client.update(&plan, None, &[]).map(|rows| rows.len()));
            assert_eq!(black_box(rows), Ok(expected));
        });
    }

    #[pg_bench(setup = prepare, measurement_time_ms = 2000, warm_up_time_ms = 500)]
    fn put_row(bencher: &mut Bencher) {
        repeat(
            bencher,
            "SELECT id FROM xqueue.put(NULL::benches.queue, '{\"payload\": {\"n\": 1}}')",
            1,
        );
    }

    #[pg_bench(setup = prepare, measurement_time_ms = 2000, warm_up_time_ms = 500)]
    fn put_jsonb(bencher: &mut Bencher) {
        repeat(bencher, "SELECT xqueue.put('benches.queue', '{\"payload\": {\"n\": 1}}')", 1);
    }

    #[pg_bench(setup = prepare, measurement_time_ms = 2000, warm_up_time_ms = 500)]
    fn insert_into_queue(bencher: &mut Bencher) {
        repeat(bencher, "INSERT INTO benches.queue (payload) VALUES ('{\"n\": 1}')", 1);
    }

    #[pg_bench(setup = prepare, measurement_time_ms = 2000, warm_up_time_ms = 500)]
    fn insert_without_triggers(bencher: &mut Bencher) {
        repeat(bencher, "INSERT INTO benches.plain (payload) VALUES ('{\"n\": 1}')", 1);
    }

    #[pg_bench(setup = prepare, measurement_time_ms = 2000, warm_up_time_ms = 500)]
    fn take_from_empty(bencher: &mut Bencher) {
        repeat(bencher, "SELECT id FROM xqueue.take(NULL::benches.empty)", 0);
    }

    #[pg_bench(setup = prepare, measurement_time_ms = 2000, warm_up_time_ms = 500)]
    fn peek_row(bencher: &mut Bencher) {
        repeat(bencher, "SELECT id FROM xqueue.peek(NULL::benches.queue, 1::bigint)", 1);
    }

    #[pg_bench(setup = prepare, measurement_time_ms = 2000, warm_up_time_ms = 500)]
    fn stats(bencher: &mut Bencher) {
        repeat(bencher, "SELECT xqueue.stats('benches.queue')", 1);
    }
}
