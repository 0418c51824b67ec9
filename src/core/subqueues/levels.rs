//! The ring of a queue: its waiting sub-queues by level and, within a level, in the order in which they were last
//! served.
//!
//! The sub-queues of a level form a circle. The first of them, the next to be served, represents its level in a treap:
//! a search tree of the levels whose random weights keep its depth logarithmic. A queue without priorities has one
//! level, so its ring is a plain list.

use crate::level::Level;
use crate::subqueues::Back;
use crate::subqueues::entries::{Pool, some};

/// Location of the link to a level.
#[derive(Clone, Copy)]
enum Edge {
    /// The root of a queue's ring.
    Root(u32),
    /// The left link of an entry, to lesser levels.
    Left(u32),
    /// The right link of an entry, to greater levels.
    Right(u32),
}

impl Pool<'_> {
    /// Returns the next sub-queue.
    pub fn first_waiting(&self, queue: u32) -> Option<u32> {
        let mut first = some(self.at(Edge::Root(queue)))?;
        while let Some(lesser) = some(self.at(Edge::Left(first))) {
            first = lesser;
        }
        Some(first)
    }

    /// Adds an entry to the ring, at the front or the tail of its level.
    pub fn enter_ring(&mut self, link: u32, to: Back) {
        let edge = self.edge_to(link);
        let Some(first) = some(self.at(edge)) else {
            let entry = self.entry(link);
            (entry.previous, entry.next) = (link, link);
            return self.plant(link);
        };
        let last = std::mem::replace(&mut self.entry(first).previous, link);
        self.entry(last).next = link;
        let entry = self.entry(link);
        (entry.previous, entry.next) = (last, first);
        if to == Back::Front {
            self.replace(edge, first, link);
        }
    }

    pub fn leave_ring(&mut self, link: u32) {
        let edge = self.edge_to(link);
        let (previous, next) = (self.entry(link).previous, self.entry(link).next);
        if next == link {
            return self.fell(edge);
        }
        if self.at(edge) == link {
            self.replace(edge, link, next);
        }
        self.entry(previous).next = next;
        self.entry(next).previous = previous;
    }

    /// Returns the link to the level of an entry, or the link at which the level would be added.
    fn edge_to(&self, link: u32) -> Edge {
        let level = self.level_of(link);
        let mut edge = Edge::Root(self.queue_of(link));
        while let Some(at) = some(self.at(edge)) {
            edge = match level.cmp(&self.level_of(at)) {
                std::cmp::Ordering::Less => Edge::Left(at),
                std::cmp::Ordering::Equal => break,
                std::cmp::Ordering::Greater => Edge::Right(at),
            };
        }
        edge
    }

    /// Makes another entry represent a level.
    fn replace(&mut self, edge: Edge, before: u32, now: u32) {
        let (left, right, weight) = {
            let before = self.entry(before);
            (before.left, before.right, before.weight)
        };
        let entry = self.entry(now);
        (entry.left, entry.right, entry.weight) = (left, right, weight);
        self.hang(edge, now);
    }

    /// Adds a level, above the levels of less weight.
    fn plant(&mut self, link: u32) {
        let subqueue = self.entry(link).subqueue;
        let weight = self.header.weight(subqueue);
        self.entry(link).weight = weight;
        let level = self.level_of(link);
        let mut edge = Edge::Root(self.queue_of(link));
        while let Some(at) = some(self.at(edge))
            && self.weight(at) >= weight
        {
            edge = if level < self.level_of(at) { Edge::Left(at) } else { Edge::Right(at) };
        }
        // Split the levels below the link into lesser and greater ones.
        let mut rest = self.at(edge);
        self.hang(edge, link);
        let (mut lesser, mut greater) = (Edge::Left(link), Edge::Right(link));
        while let Some(at) = some(rest) {
            if self.level_of(at) < level {
                self.hang(lesser, at);
                lesser = Edge::Right(at);
                rest = self.at(lesser);
            } else {
                self.hang(greater, at);
                greater = Edge::Left(at);
                rest = self.at(greater);
            }
        }
        self.hang(lesser, 0);
        self.hang(greater, 0);
    }

    /// Removes the level at a link.
    fn fell(&mut self, mut edge: Edge) {
        let at = self.at(edge);
        let (mut left, mut right) = (self.at(Edge::Left(at)), self.at(Edge::Right(at)));
        while left != 0 && right != 0 {
            if self.weight(left) >= self.weight(right) {
                self.hang(edge, left);
                edge = Edge::Right(left);
                left = self.at(edge);
            } else {
                self.hang(edge, right);
                edge = Edge::Left(right);
                right = self.at(edge);
            }
        }
        self.hang(edge, left.max(right));
    }

    fn at(&self, edge: Edge) -> u32 {
        match edge {
            Edge::Root(queue) => self.rings[queue as usize].root,
            Edge::Left(of) => self.entries[of as usize - 1].left,
            Edge::Right(of) => self.entries[of as usize - 1].right,
        }
    }

    fn hang(&mut self, edge: Edge, link: u32) {
        match edge {
            Edge::Root(queue) => self.rings[queue as usize].root = link,
            Edge::Left(of) => self.entry(of).left = link,
            Edge::Right(of) => self.entry(of).right = link,
        }
    }

    fn level_of(&self, link: u32) -> Level {
        self.entries[link as usize - 1].level
    }

    fn weight(&self, link: u32) -> u32 {
        self.entries[link as usize - 1].weight
    }

    fn queue_of(&self, link: u32) -> u32 {
        self.entries[link as usize - 1].queue
    }
}
