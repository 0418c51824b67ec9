//! Dependencies between objects, which make the server refuse to drop an object that another needs.

use crate::server::relation::Relation;
use pgrx::pg_sys::{self, Oid};

impl Relation {
    /// Makes a trigger of the table depend on some of its indexes, so that DROP INDEX is refused without CASCADE. The
    /// dependencies must not exist yet, see `unbind_indexes`.
    pub fn bind_indexes(&self, trigger: &str, is_needed: impl Fn(Oid) -> bool) {
        let triggers = self.triggers();
        let Some(trigger) = triggers.iter().find(|known| known.name == trigger) else { return };
        let trigger = address(pg_sys::TriggerRelationId, trigger.oid);
        for index in self.indexes().into_iter().filter(|index| is_needed(*index)) {
            let index = address(pg_sys::RelationRelationId, index);
            let normal = pg_sys::DependencyType::DEPENDENCY_NORMAL;
            // SAFETY: both objects exist; the caller's lock on the table keeps them.
            unsafe { pg_sys::recordDependencyOn(&trigger, &index, normal) }
        }
    }

    /// Removes the dependencies made by `bind_indexes`.
    pub fn unbind_indexes(&self, trigger: &str) {
        let triggers = self.triggers();
        if let Some(trigger) = triggers.iter().find(|known| known.name == trigger) {
            self.indexes().into_iter().for_each(|index| unbind(trigger.oid, index));
        }
    }
}

fn unbind(trigger: Oid, index: Oid) {
    let normal = pg_sys::DependencyType::DEPENDENCY_NORMAL as std::ffi::c_char;
    // SAFETY: deletes catalog rows, if they exist.
    unsafe {
        pg_sys::deleteDependencyRecordsForSpecific(
            pg_sys::TriggerRelationId,
            trigger,
            normal,
            pg_sys::RelationRelationId,
            index,
        );
    }
}

fn address(catalogue: Oid, object: Oid) -> pg_sys::ObjectAddress {
    pg_sys::ObjectAddress { classId: catalogue, objectId: object, objectSubId: 0 }
}
