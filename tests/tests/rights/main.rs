//! Privileges, and attempts to exceed them.

mod attacks;
mod casts;
mod give_back;
mod guard;
mod hostile_owner;
mod identity_attacks;
mod limits;
mod looking;
mod privilege_matrix;
