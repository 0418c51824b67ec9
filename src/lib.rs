//! xqueue: queues in ordinary PostgreSQL tables.
//!
//! From the outside in:
//! - `api` and `trigger` are what SQL calls, `ddl` sees other commands that concern queues, `worker` are the
//!   background processes, `guc` the settings.
//! - `upgrade` makes queues; `direct` changes rows without statements, `subqueue` takes from queues whose tubes
//!   are sub-queues, `marks` says where a take begins to look, `wait` stands in line, `room` keeps to the
//!   capacity, `places` to the number of queues that a role may have, `keys` makes keys of the clock, `front` priorities ahead of all.
//! - They meet in `registry` (what is a queue), `session` (who this connection is), `change` and `counting`
//!   (what has happened to rows), `xact` (what a transaction has changed), `recount`, `census` (what rows say to
//!   those who only look), and `shmem` (what processes tell each other).
//! - `model`, `statement`, `delta`, `lanes` and `metrics` are pure, as are `marks::mark` and
//!   `marks::priorities`.
//! - `trace` says in the log of test builds what has become of leases.
//! - `error` is for people; `nesting` limits how deep calls go; `pg` is the fence around the server's C interface.

#![deny(unsafe_code)]

mod altered;
mod api;
#[cfg(feature = "pg_bench")]
mod bench;
mod census;
mod change;
#[cfg(compile_fail)]
#[path = "../tests/compile_fail/mod.rs"]
mod compile_fail;
mod counting;
mod ddl;
mod delta;
mod direct;
mod error;
mod front;
mod guc;
mod keys;
mod lanes;
mod marks;
mod metrics;
mod model;
mod nesting;
#[allow(unsafe_code, reason = "the fence around the server's C interface")]
mod pg;
mod places;
mod recount;
mod registry;
mod room;
mod session;
#[allow(unsafe_code, reason = "memory that processes share")]
mod shmem;
mod statement;
mod subqueue;
mod trace;
mod trigger;
mod upgrade;
mod wait;
mod worker;
mod xact;

use pg::callbacks::{self, Handlers};

pgrx::pg_module_magic!(name, version);

pgrx::extension_sql_file!("../sql/schema.sql", name = "schema", bootstrap);
pgrx::extension_sql_file!("../sql/functions.sql", name = "functions", requires = ["schema"]);
pgrx::extension_sql_file!("../sql/views.sql", name = "views", requires = ["functions"], finalize);

/// Called by the server when it loads the library. All functions need it to be loaded at
/// server start and say so; triggers do without.
#[pgrx::pg_guard]
pub extern "C-unwind" fn _PG_init() {
    pg::allocator::init();
    pg::diagnostics::leave_out_backtraces();
    let preloading = pg::process::is_preloading();
    guc::init(preloading);
    if !preloading {
        return;
    }
    trace::init();
    shmem::init();
    pg::executor::init();
    pg::scan::init(api::CALLED_MOST);
    if !pg::process::is_binary_upgrade() {
        worker::init();
    }
    callbacks::init(Handlers {
        transaction: xact::transaction_ended,
        subtransaction: xact::subtransaction_ended,
        stale: registry::stale,
        object: ddl::object_changed,
        before_command: ddl::before_command,
        after_command: ddl::after_command,
    });
}
