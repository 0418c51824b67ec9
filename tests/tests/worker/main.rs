//! Background work: delays, deadlines, lifetimes, and the workers that do it for many databases and owners.

mod databases;
mod delays;
mod lifetime;
mod places;
mod sick_owners;
mod sick_queues;
mod upkeep;
mod workers;
