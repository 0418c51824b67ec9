//! The competing contenders. A contender that fails is named and then left out.

use super::{Peer, Work};
use crate::{Result, explain};

#[derive(Default)]
pub struct Peers {
    peers: Vec<Box<dyn Peer>>,
    left_out: Vec<String>,
}

impl Peers {
    pub fn push(&mut self, peer: Box<dyn Peer>) {
        self.peers.push(peer);
    }

    /// Keeps only the named contenders. Fails if a name is unknown.
    pub fn keep(&mut self, names: &[String]) -> Result<()> {
        for name in names {
            if self.named(name).is_none() {
                return Err(format!("nobody is called {name}").into());
            }
        }
        self.peers.retain(|peer| names.iter().any(|name| name == peer.name()));
        Ok(())
    }

    pub fn named(&mut self, name: &str) -> Option<&mut Box<dyn Peer>> {
        self.peers.iter_mut().find(|peer| peer.name() == name)
    }

    /// Gives each contender that supports this work a turn.
    pub fn each(&mut self, work: Work, mut turn: impl FnMut(&mut dyn Peer) -> Result<()>) {
        let left_out = &mut self.left_out;
        self.peers.retain_mut(|peer| {
            let outcome = if peer.does(work) { turn(peer.as_mut()) } else { Ok(()) };
            if let Err(error) = &outcome {
                left_out.push(format!("{} is left out: {}", peer.name(), explain(&**error).trim()));
            }
            outcome.is_ok()
        });
    }

    /// Records other contenders as left out.
    pub fn note(&mut self, left_out: Vec<String>) {
        self.left_out.extend(left_out);
    }

    /// Returns the contenders left out since the last call, with reasons.
    pub fn left_out(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left_out)
    }
}
