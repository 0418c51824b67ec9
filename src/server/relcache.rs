//! What the server keeps of the tables that this process has used: it does so for as long as the process lives.

use pgrx::pg_sys::{self, Datum, Oid, SysCacheIdentifier};

/// Has the server free what it keeps of a table, its indexes and its sequences, as if it had been told that they have changed.
/// What is in use at the moment it reads again.
pub fn forget(table: Oid, others: &[Oid]) {
    // SAFETY: what the server itself does as it locks a table, at which time it may be told of the change of any other; it asks
    // for an open transaction.
    unsafe {
        for other in others {
            pg_sys::RelationCacheInvalidateEntry(*other);
        }
        let mut message = pg_sys::SharedInvalidationMessage {
            rc: pg_sys::SharedInvalRelcacheMsg {
                id: pg_sys::SHAREDINVALRELCACHE_ID as i8,
                dbId: pg_sys::MyDatabaseId,
                relId: table,
            },
        };
        // Unlike the above, this reaches those that keep its row type.
        pg_sys::LocalExecuteInvalidationMessage(&mut message);
        // The row of an index has its predicate, which is the largest of all.
        for relation in others.iter().chain([&table]) {
            for cache in [SysCacheIdentifier::INDEXRELID as i32, SysCacheIdentifier::RELOID as i32]
            {
                let (key, none) = (Datum::from(*relation), Datum::from(0));
                let hash = pg_sys::GetSysCacheHashValue(cache, key, none, none, none);
                pg_sys::SysCacheInvalidate(cache, hash);
            }
        }
    }
}
