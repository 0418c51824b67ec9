//! xqueue: queues in ordinary PostgreSQL tables.
//!
//! The modules from the outside in; each calls only modules further down:
//! - `api` holds the SQL functions, `worker` the background processes, `upgrade` turns tables into queues, `ddl`
//!   handles other commands that concern queues.
//! - `write` changes tasks: where a take starts its scan, the statement path and the direct path, and the recorded
//!   changes.
//! - `queue` describes a table as a queue: registry, columns, indexes, kept plans.
//! - `transaction` keeps the stack of the open transaction's changes, and hands them over when it ends.
//! - `parts` holds the state of a queue that processes share beyond its rows: counters, marks, waiters, sub-queues,
//!   leases, capacity, schedule.
//! - `xqueue_core`, a crate of its own, does not depend on PostgreSQL: states, options, definitions, SQL text, marks,
//!   candidate rings, the pool of sub-queues, and the stack of changes.
//! - `settings` defines the configuration parameters, `error` the errors for users; `server` is the fence around the
//!   server's C interface.

#![deny(unsafe_code)]

mod api;
#[cfg(feature = "pg_bench")]
mod bench;
#[cfg(compile_fail)]
#[path = "../tests/compile_fail/mod.rs"]
mod compile_fail;
mod ddl;
mod error;
mod parts;
mod queue;
#[allow(unsafe_code, reason = "the fence around the server's C interface")]
mod server;
mod settings;
mod transaction;
mod upgrade;
mod worker;
mod write;

use server::callbacks::{self, Handlers, TransactionEvent};

pgrx::pg_module_magic!(name, version);

pgrx::extension_sql_file!("../sql/schema.sql", name = "schema", bootstrap);
pgrx::extension_sql_file!("../sql/functions.sql", name = "functions", requires = ["schema"]);
pgrx::extension_sql_file!("../sql/views.sql", name = "views", requires = ["functions"], finalize);

/// Initializes the library when the server loads it. All functions except triggers require that it was loaded at server
/// start.
#[pgrx::pg_guard]
pub extern "C-unwind" fn _PG_init() {
    server::allocator::init();
    server::diagnostics::leave_out_backtraces();
    let preloading = server::process::is_preloading();
    settings::init(preloading);
    if !preloading {
        return;
    }
    parts::layout::init();
    server::scan::init(api::CALLED_MOST);
    if !server::process::is_binary_upgrade() {
        worker::init();
    }
    callbacks::init(Handlers {
        transaction: transaction_ended,
        subtransaction: transaction::end::subtransaction_ended,
        stale: queue::stale,
        stale_type: queue::stale_type,
        object: ddl::object_changed,
        before_command: ddl::before_command,
        remedy: ddl::remedy,
        after_command: ddl::after_command,
    });
}

/// Runs `ddl` first, because that part can fail and reads catalogs, and hands the changes over afterwards.
fn transaction_ended(event: TransactionEvent) {
    ddl::transaction_ended(event);
    transaction::end::transaction_ended(event);
}
