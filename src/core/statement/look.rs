//! Read-only statements.

use crate::field::Field;
use crate::statement::change::MORTAL;
use crate::statement::{AT_LEAST, EQUALS, Parameter, Parameters, Table, Text, Within, join};
use crate::status::Status;

impl Table {
    /// Selects one task in any state.
    pub fn peek(&self) -> Text {
        self.look(&self.row())
    }

    /// Selects status, owner and number of attempts of one task.
    pub fn holder(&self) -> Text {
        let attempts = match self.fields.get(&Field::Attempts) {
            Some(attempts) => format!("task.{attempts}::pg_catalog.int8"),
            None => "NULL::pg_catalog.int8".into(),
        };
        self.look(&format!("task.{}, task.{}, {attempts}", self.status(), self.field(Field::Owner)))
    }

    /// Selects the tasks in a state, in the order in which they leave it, up to the limit given as parameter. With two
    /// statements, the tasks of the second follow the tasks of the first.
    pub fn tasks_in(&self, status: Status) -> Vec<String> {
        let runat = format!("task.{}", self.field(Field::Runat));
        let key = self.key_list("task.");
        let is_timed = self.has(Field::Runat) && self.timed_states().contains(&status);
        let parts = match status {
            Status::Ready | Status::Buried => vec![(String::new(), self.take_order("task."))],
            _ if is_timed => vec![
                (format!(" AND {runat} IS NOT NULL"), format!("{runat}, {key}")),
                (format!(" AND {runat} IS NULL"), key),
            ],
            Status::Taken | Status::Waiting | Status::Zombie | Status::Done => {
                vec![(String::new(), key)]
            }
        };
        let statement = |(condition, order): (String, String)| {
            format!(
                "SELECT {} FROM ONLY {} AS task WHERE {}{condition} ORDER BY {order} LIMIT $1",
                self.row(),
                self.qualified(),
                self.is(status)
            )
        };
        parts.into_iter().map(statement).collect()
    }

    fn look(&self, columns: &str) -> Text {
        let mut parameters = Parameters::default();
        let key = self.has_key(&mut parameters);
        parameters
            .text(format!("SELECT {columns} FROM ONLY {} AS task WHERE {key}", self.qualified()))
    }

    /// Selects the columns that marks name, and the priority, of the first task at or behind the mark, locked or not.
    pub fn first(&self, within: Within) -> Text {
        let mut parameters = Parameters::default();
        let mut condition = self.is_within(within, &mut parameters);
        condition += &self.is_at_or_behind_mark(within, &mut parameters);
        let priority = match self.fields.get(&Field::Priority) {
            Some(priority) => format!("task.{priority}::pg_catalog.int8"),
            None => "NULL::pg_catalog.int8".into(),
        };
        parameters.text(format!(
            "SELECT {}, {priority} FROM ONLY {} AS task WHERE {condition} ORDER BY {} LIMIT 1",
            self.marked_list("task."),
            self.qualified(),
            self.order_within(within)
        ))
    }

    /// Calls the pick function for the keys of the tasks to take, in order. `function` is its name with its parameters.
    /// Also returns whether it takes the tube as an argument.
    pub fn ask(&self, function: &str) -> (String, bool) {
        let (name, takes_tube) = match function.strip_suffix("(integer, text)") {
            Some(name) => (name, true),
            None => (function.trim_end_matches("(integer)"), false),
        };
        let arguments = if takes_tube { "$1, $2" } else { "$1" };
        let keys = match self.key.as_slice() {
            [_] => "pick".to_string(),
            _ => self.key_list("pick."),
        };
        (format!("SELECT {keys} FROM {name}({arguments}) AS pick"), takes_tube)
    }

    /// Selects the least priority of the ready tasks at or behind the mark. NULL is the greatest: it sorts last.
    pub fn least(&self, marked: bool) -> Text {
        let mut parameters = Parameters::default();
        let priority = self.field(Field::Priority);
        let mut condition = self.is(Status::Ready);
        if marked {
            condition += &format!(" AND {}", self.is_at_or_behind("task.", true, &mut parameters));
        }
        parameters.text(format!(
            "SELECT task.{priority}::pg_catalog.int8 FROM ONLY {} AS task WHERE {condition} \
             ORDER BY {} LIMIT 1",
            self.qualified(),
            self.take_order("task.")
        ))
    }

    /// Selects the least priority of ready tasks that is not less than a given one.
    pub fn next_level(&self) -> Text {
        let mut parameters = Parameters::default();
        let within = Within::Ready { tube: false, level: false };
        let condition = self.is_within(within, &mut parameters);
        let (priority, level) = (self.field(Field::Priority), parameters.add(Parameter::Level));
        parameters.text(format!(
            "SELECT task.{priority}::pg_catalog.int8 FROM ONLY {} AS task \
             WHERE {condition} AND task.{priority} {AT_LEAST} {level} ORDER BY {} LIMIT 1",
            self.qualified(),
            self.order_within(within)
        ))
    }

    /// Selects the next `runat` and the next `expires` at which the worker must act.
    pub fn next_due(&self) -> Text {
        let mut parameters = Parameters::default();
        let mut first = |field, states: &[Status]| {
            let Some(column) = self.fields.get(&field) else { return "NULL".to_string() };
            let since = self.last_until(field, &parameters.add(Parameter::Since));
            format!(
                "(SELECT task.{column} FROM ONLY {} AS task WHERE {} AND task.{column} {AT_LEAST} {since} \
                 ORDER BY task.{column} LIMIT 1)",
                self.qualified(),
                self.is_one_of(states)
            )
        };
        let runat = first(Field::Runat, &self.timed_states());
        let expires = first(Field::Expires, &MORTAL);
        parameters.text(format!("SELECT {runat}, {expires}"))
    }

    /// Returns the states in which the worker must act on a task at its `runat`.
    pub fn timed_states(&self) -> Vec<Status> {
        Status::ALL.into_iter().filter(|status| self.features.is_timed(*status)).collect()
    }

    /// Selects the sessions that hold tasks, with the number of tasks.
    pub fn holders(&self) -> Text {
        Parameters::default().text(format!(
            "SELECT task.{0}, pg_catalog.count(*) FROM ONLY {1} AS task WHERE {2} GROUP BY task.{0}",
            self.field(Field::Owner),
            self.qualified(),
            self.is(Status::Taken)
        ))
    }

    /// Selects the given sessions that hold tasks.
    pub fn holding(&self) -> Text {
        let mut parameters = Parameters::default();
        let condition = self.is_orphan(&mut parameters);
        let (owner, table) = (self.field(Field::Owner), self.qualified());
        parameters.text(format!(
            "SELECT task.{owner} FROM ONLY {table} AS task WHERE {condition} GROUP BY task.{owner}"
        ))
    }

    /// Returns the condition that one of the given sessions holds the task.
    pub(super) fn is_held(&self, parameters: &mut Parameters) -> String {
        let (owner, sessions) = (self.field(Field::Owner), parameters.add(Parameter::Sessions));
        let text = if self.owner_is_text { "::pg_catalog.text[]" } else { "" };
        format!("{} AND task.{owner} {EQUALS} ANY ({sessions}{text})", self.is(Status::Taken))
    }

    /// Returns the condition that one of the given sessions has left the task. The session 0 stands for owners that are
    /// no sessions: such a text is found without the index.
    pub(super) fn is_orphan(&self, parameters: &mut Parameters) -> String {
        let is_held = self.is_held(parameters);
        if !self.owner_is_text {
            return is_held;
        }
        let (owner, sessions) = (self.field(Field::Owner), parameters.add(Parameter::Sessions));
        format!(
            "({is_held} OR {} AND '00000000-0000-0000-0000-000000000000'::pg_catalog.uuid {EQUALS} ANY ({sessions}) \
             AND task.{owner} COLLATE pg_catalog.\"C\" OPERATOR(pg_catalog.!~) \
             '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$')",
            self.is(Status::Taken)
        )
    }

    /// Selects the greatest integer key up to a limit.
    pub fn greatest_key_up_to(&self, limit: i64) -> String {
        let keys = join(self.key.iter().take(1).map(|key| format!("task.{}", key.name)), "");
        let table = self.qualified();
        format!(
            "SELECT {keys} FROM ONLY {table} AS task \
             WHERE {keys} OPERATOR(pg_catalog.<=) {limit}::pg_catalog.int8 ORDER BY {keys} DESC LIMIT 1"
        )
    }
}
