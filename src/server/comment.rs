//! Comments on triggers.

use crate::server::relation::Relation;
use pgrx::pg_sys::{self, Oid};
use std::ffi::{CStr, CString};

impl Relation {
    /// Returns the comment on a trigger of the table.
    pub fn comment_on_trigger(&self, name: &str) -> Option<String> {
        let trigger = self.trigger(name)?;
        // SAFETY: reads the catalogs; the text is allocated in the current context.
        unsafe {
            let text = pg_sys::GetComment(trigger, pg_sys::TriggerRelationId, 0);
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    /// Sets the comment on a trigger of the table. The caller has the right to alter the table.
    pub fn set_comment_on_trigger(&self, name: &str, text: &str) {
        let Some((trigger, text)) = self.trigger(name).zip(CString::new(text).ok()) else { return };
        // SAFETY: writes a catalog row about an existing trigger; the text is copied.
        unsafe { pg_sys::CreateComments(trigger, pg_sys::TriggerRelationId, 0, text.as_ptr()) }
    }

    fn trigger(&self, name: &str) -> Option<Oid> {
        self.triggers().iter().find(|known| known.name == name).map(|trigger| trigger.oid)
    }
}
