//! The selected kinds, numbers of clients and settings of a crowd.

use super::kind::Kind;
use crate::peer::Variant;

pub const CASE: &str = "crowd";
const CLIENTS: [u32; 4] = [4, 16, 48, 200];

/// An empty list selects everything.
#[derive(Clone)]
pub struct Selection {
    pub kinds: Vec<Kind>,
    pub clients: Vec<u32>,
    /// synchronous_commit
    pub commits: Vec<&'static str>,
}

impl Selection {
    pub const ALL: Selection =
        Selection { kinds: Vec::new(), clients: Vec::new(), commits: Vec::new() };

    pub fn kinds(&self) -> Vec<Kind> {
        if self.kinds.is_empty() { Kind::all() } else { self.kinds.clone() }
    }

    pub fn clients(&self) -> Vec<u32> {
        if self.clients.is_empty() { CLIENTS.to_vec() } else { self.clients.clone() }
    }

    pub fn commits(&self, otherwise: &[&'static str]) -> Vec<&'static str> {
        if self.commits.is_empty() { otherwise.to_vec() } else { self.commits.clone() }
    }
}

/// Names for the command line.
pub fn kinds_of_a_plain_queue() -> String {
    let plain = Kind::all().into_iter().filter(|kind| kind.group.variant == Variant::Plain);
    plain.map(Kind::name).collect::<Vec<_>>().join(", ")
}
