//! The cost of the most frequent calls inside the server: the benchmarks of `src/bench.rs`, which `pgrx-embed/bench`
//! compiles in.

use crate::numbers::microseconds;
use crate::report::{Section, row};
use crate::{Result, database, watchdog};

/// The case's name.
pub const CASE: &str = "in-server";
const FIND: &str = r"
    SELECT proname::text, replace(substr(proname::text, 18), '_', ' ') FROM pg_proc
    WHERE pronamespace = to_regnamespace('benches') AND proname LIKE '\_\_pgrx\_bench\_run\_%' ORDER BY 1";
const RUN: &str = "
    SELECT result->>'error_text', (estimate->>'point_estimate_ns')::float8 / 1000,
           (estimate->>'ci_lower_bound_ns')::float8 / 1000, (estimate->>'ci_upper_bound_ns')::float8 / 1000
    FROM benches.{function}(NULL) AS result
         LEFT JOIN jsonb_array_elements(result->'estimates') AS estimate
                ON estimate->>'estimate_kind' = 'median'";

pub fn measure() -> Result<Section> {
    let mut db = database::connect("xqueue measure")?;
    let mut rows = Vec::new();
    for found in db.query(FIND, &[])? {
        let (function, name): (&str, &str) = (found.get(0), found.get(1));
        watchdog::enter(format!("{name}, inside the server"));
        let mut transaction = db.transaction()?;
        let result = transaction.query_one(&RUN.replace("{function}", function), &[])?;
        if let Some(error) = result.get::<_, Option<&str>>(0) {
            return Err(format!("{name}: {error}").into());
        }
        let times = [1, 2, 3].map(|column| result.get::<_, Option<f64>>(column));
        let [Some(median), Some(least), Some(most)] = times else {
            return Err(format!("{name}: criterion gives no median").into());
        };
        rows.push(row(name, [median, least, most].map(microseconds)));
        transaction.rollback()?;
    }
    if rows.is_empty() {
        return Err("the extension is built without the feature pg_bench".into());
    }
    Ok(Section {
        title: "Inside the server",
        header: vec!["", "median", "95 % above", "95 % below"],
        rows,
        notes: vec![
            "A statement run again and again by one process in one transaction, without client and commit. The \
             bounds are those of the median (criterion, 100 samples in 2 s)."
                .into(),
        ],
        plot: None,
    })
}
