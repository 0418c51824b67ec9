//! Statements that select their tasks themselves: takes, and the changes of the worker.

use crate::field::Field;
use crate::statement::rule::{Applies, Assignment, Return};
use crate::statement::step::hidden;
use crate::statement::{AT_LEAST, Parameter, Parameters, Table, Text, Within, join};
use crate::status::Status;

/// A change that selects its tasks itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Ready tasks become taken by a session.
    Take {
        within: Within,
        /// The caller gives a time to run.
        ttr: bool,
        /// Only tasks at or behind the mark.
        marked: bool,
        /// More than one task, returned in take order.
        many: bool,
    },
    /// The task with a given key becomes taken by a session, if it can be taken now.
    TakeNamed {
        tube: bool,
        ttr: bool,
        /// Also waiting and buried tasks.
        any: bool,
    },
    /// The first task of a sub-queue becomes taken, if it is takeable.
    TakeInSubqueue {
        ttr: bool,
        marked: bool,
        /// Only up to a given level.
        limited: bool,
    },
    /// Waiting tasks that are due become ready.
    Promote,
    /// Taken tasks past their time to run come back.
    ExpireLeases,
    /// Zombies past their time are deleted.
    DeleteZombies,
    /// Tasks at the end of their life are deleted.
    Expire,
    /// Orphans, tasks taken by sessions that have ended, come back.
    Reap,
    /// Tasks taken by no session come back.
    ReapOwnerless,
    /// All taken tasks of all sessions come back.
    SnatchAll,
    /// All tasks of a session come back at the session's own request.
    GiveBack,
    /// The first buried tasks come back, in take order.
    Plow { delay: bool, ttl: bool, marked: bool },
}

/// The states in which a task's life can end.
pub const MORTAL: [Status; 3] = [Status::Ready, Status::Waiting, Status::Buried];

const _: () = {
    let (mut index, mut mortal) = (0, 0);
    while index < Status::ALL.len() {
        mortal += Status::ALL[index].is_mortal() as usize;
        index += 1;
    }
    assert!(mortal == MORTAL.len(), "MORTAL lists the states that are mortal");
};

impl Table {
    /// Selects and changes tasks in one statement, for a key of one column.
    pub fn change(&self, change: Change) -> Text {
        let mut parameters = Parameters::default();
        let set = self.set(change, &mut parameters);
        let pick = self.picking(change, &mut parameters);
        let condition =
            format!("task.{} {} ANY (ARRAY({pick}))", self.key[0].name, self.key[0].equals);
        parameters.text(self.changing(change, &set, &condition))
    }

    /// Changes one task picked before, and returns it if the change does not delete it.
    pub fn change_one(&self, change: Change) -> Text {
        let mut parameters = Parameters::default();
        let set = self.set(change, &mut parameters);
        let condition = self.has_key(&mut parameters);
        let mut sql = self.changing(change, &set, &condition);
        if matches!(change, Change::SnatchAll | Change::GiveBack) {
            sql += &format!(" RETURNING {}", self.row());
        }
        parameters.text(sql)
    }

    /// Locks the tasks to change and returns their keys.
    pub fn pick(&self, change: Change) -> Text {
        let mut parameters = Parameters::default();
        let pick = self.picking(change, &mut parameters);
        parameters.text(pick)
    }

    fn changing(&self, change: Change, set: &[String], condition: &str) -> String {
        let table = self.qualified();
        if set.is_empty() {
            return format!("DELETE FROM ONLY {table} AS task WHERE {condition}");
        }
        let update =
            format!("UPDATE ONLY {table} AS task SET {} WHERE {condition}", set.join(", "));
        match change {
            Change::Take { many: true, .. } | Change::Plow { .. } if !self.goes_by_key() => {
                format!(
                    "WITH task AS ({update} RETURNING task.*) SELECT ROW(task.*)::{table} FROM task \
                     ORDER BY {}",
                    self.take_order("task.")
                )
            }
            Change::Take { .. }
            | Change::TakeNamed { .. }
            | Change::TakeInSubqueue { .. }
            | Change::Plow { .. } => {
                format!("{update} RETURNING {}", self.row())
            }
            _ => update,
        }
    }

    fn set(&self, change: Change, parameters: &mut Parameters) -> Vec<String> {
        self.assign(self.on_change(change), parameters)
    }

    /// Returns the assignments of a change; an empty list if it deletes.
    pub fn on_change(&self, change: Change) -> Vec<Assignment> {
        let failed = |why| self.on_return(Return { failed: Some(why), ..Return::default() });
        match change {
            Change::Take { ttr, .. }
            | Change::TakeInSubqueue { ttr, .. }
            | Change::TakeNamed { ttr, any: false, .. } => self.on_take(ttr).collect(),
            Change::TakeNamed { ttr, any: true, .. } => self.on_take_of_any(ttr).collect(),
            Change::Promote => self.on_promotion().into(),
            Change::DeleteZombies | Change::Expire => vec![],
            Change::ExpireLeases => failed("time to run ended"),
            Change::Reap | Change::ReapOwnerless => failed("session was lost"),
            Change::SnatchAll | Change::GiveBack => {
                self.on_return(Return { unused: true, ..Return::default() })
            }
            Change::Plow { delay, ttl, .. } => {
                self.on_return(Return { delay, ttl, ..Return::default() })
            }
        }
    }

    fn picking(&self, change: Change, parameters: &mut Parameters) -> String {
        let runat = self.field(Field::Runat);
        let is_due = |status, parameters: &mut Parameters| {
            let now = self.last_until(Field::Runat, &parameters.add(Parameter::Now));
            let since = self.last_until(Field::Runat, &parameters.add(Parameter::Since));
            let condition = format!(
                "{} AND task.{runat} OPERATOR(pg_catalog.<=) {now} AND task.{runat} {AT_LEAST} {since}",
                self.is(status)
            );
            (condition, format!(" ORDER BY task.{runat}"))
        };
        let (condition, order) = match change {
            Change::Take { within, marked, .. } => {
                let mut condition = self.is_within(within, parameters);
                if marked {
                    condition += &self.is_at_or_behind_mark(within, parameters);
                }
                condition += &self.is_alive(Applies::TO_TAKE);
                (condition, format!(" ORDER BY {}", self.order_within(within)))
            }
            Change::TakeNamed { tube, any, .. } => {
                let applies = if any { Applies::TO_TAKE_ANY } else { Applies::TO_TAKE };
                let state = self.in_states_of(applies).map(|state| hidden(&state));
                let conditions = [self.has_key(parameters)].into_iter().chain(state);
                let mut condition = join(conditions, " AND ") + &self.is_alive(applies);
                if tube {
                    let (column, tube) = (self.field(Field::Tube), parameters.add(Parameter::Tube));
                    let is_of_tube = format!("task.{column} {} {tube}", self.tube_equals);
                    condition += &format!(" AND {}", hidden(&is_of_tube));
                }
                (condition, String::new())
            }
            Change::Promote => is_due(Status::Waiting, parameters),
            Change::ExpireLeases => is_due(Status::Taken, parameters),
            Change::DeleteZombies => is_due(Status::Zombie, parameters),
            Change::Expire => {
                let expires = self.field(Field::Expires);
                let now = self.last_until(Field::Expires, &parameters.add(Parameter::Now));
                let since = self.last_until(Field::Expires, &parameters.add(Parameter::Since));
                let condition = format!(
                    "{} AND task.{expires} OPERATOR(pg_catalog.<=) {now} AND task.{expires} {AT_LEAST} {since}",
                    self.is_one_of(&MORTAL)
                );
                (condition, format!(" ORDER BY task.{expires}"))
            }
            Change::Reap => (self.is_orphan(parameters), String::new()),
            Change::ReapOwnerless => {
                let owner = self.field(Field::Owner);
                (format!("{} AND task.{owner} IS NULL", self.is(Status::Taken)), String::new())
            }
            Change::SnatchAll => (self.is(Status::Taken), String::new()),
            Change::GiveBack => (self.is_held(parameters), String::new()),
            Change::Plow { marked, .. } => {
                let mut condition = self.is_within(Within::Buried, parameters);
                if marked {
                    condition += &self.is_at_or_behind_mark(Within::Buried, parameters);
                }
                (condition, format!(" ORDER BY {}", self.order_within(Within::Buried)))
            }
            Change::TakeInSubqueue { marked, limited, .. } => {
                return self.picking_in_subqueue(marked, limited, parameters);
            }
        };
        let strength = match change {
            Change::Expire | Change::DeleteZombies => "UPDATE",
            _ => "NO KEY UPDATE",
        };
        format!(
            "SELECT {} FROM ONLY {} AS task WHERE {condition}{order} LIMIT {} OFFSET {} \
             FOR {strength} SKIP LOCKED",
            self.key_list("task."),
            self.qualified(),
            parameters.add(Parameter::Limit),
            parameters.add(Parameter::Skip),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::tests::table;

    const TAKE: Change = Change::Take {
        within: Within::Ready { tube: false, level: false },
        ttr: false,
        marked: false,
        many: false,
    };

    #[test]
    fn a_plain_take_does_no_more_than_it_must() {
        let text = table("{}").change_one(TAKE);
        assert!(text.sql.contains("SET status = 'T', owner = $1 WHERE"), "{}", text.sql);
        assert_eq!(
            text.parameters,
            [Parameter::Session, Parameter::Key(0), Parameter::Key(1)],
            "{}",
            text.sql
        );
    }

    /// The extension decides by the queue's own columns whether such a change fires a trigger.
    #[test]
    fn takes_and_changes_by_the_worker_set_only_columns_of_the_queues_own() {
        let all = r#"{"priority": true, "tube": true, "ttl": true, "ttr": 5, "delayed": true, "zombie": true,
                      "buried": true, "retry": {"limit": 3, "backoff": 1}}"#;
        for table in ["{}", all].map(table) {
            let changes =
                [Change::Promote, Change::ExpireLeases, Change::Reap, Change::ReapOwnerless];
            let changes = changes.map(|change| table.on_change(change)).into_iter().flatten();
            let takes = [false, true].into_iter().flat_map(|ttr| table.on_take(ttr));
            for assignment in changes.chain(takes) {
                assert!(assignment.field.is_own(), "{assignment:?}");
            }
        }
    }

    #[test]
    fn a_take_follows_priority_tube_and_life() {
        let table = table(r#"{"priority": true, "tube": true, "ttl": true, "ttr": 5}"#);
        let take = Change::Take {
            within: Within::Ready { tube: true, level: false },
            ttr: false,
            marked: false,
            many: true,
        };
        let pick = table.pick(take);
        assert!(
            pick.sql.contains("ORDER BY task.tube, task.priority, task.a, task.b"),
            "{}",
            pick.sql
        );
        assert!(
            pick.sql.contains("task.tube OPERATOR(pg_catalog.=) ANY (ARRAY[$1])"),
            "{}",
            pick.sql
        );
        assert!(pick.sql.contains("task.expires IS NULL"), "{}", pick.sql);
        let set = table.change_one(take).sql;
        assert!(set.contains("ELSE task.ttr END, '5000000 microseconds'"), "{set}");
    }

    #[test]
    fn a_take_by_key_leaves_the_planner_the_key_alone() {
        let table = table(r#"{"delayed": true, "buried": true, "ttl": true}"#);
        let take = Change::TakeNamed { tube: false, ttr: false, any: true };
        let pick = table.pick(take).sql;
        assert!(pick.contains("coalesce(task.status OPERATOR(pg_catalog.=) ANY"), "{pick}");
        assert!(pick.contains("task.expires IS NULL"), "{pick}");
        let set = table.change_one(take).sql;
        assert!(set.contains("runat = NULL"), "{set}");
    }

    #[test]
    fn what_ends_a_life_deletes() {
        let table = table(r#"{"ttl": true, "zombie": 5}"#);
        assert!(table.change_one(Change::Expire).sql.starts_with("DELETE FROM ONLY app"));
        assert!(
            table
                .pick(Change::DeleteZombies)
                .sql
                .contains("task.status OPERATOR(pg_catalog.=) 'Z'")
        );
    }
}
