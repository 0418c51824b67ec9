//! For any names, each statement of a queue consists of the same tokens as the statement of a table with plain names.

use crate::conflict::Conflict;
use crate::form::Form;
use crate::statement::tests::names::{KEY, Names, ORDER, names, quote};
use crate::statement::tests::tokens::{Token, tokens};
use crate::statement::*;
use crate::status::Status;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeSet;

fn features() -> impl Strategy<Value = Features> {
    let flag = || prop::option::of(any::<bool>());
    let time = || select(vec!["null", "true", "60", "0.5"]);
    let utube = select(vec!["null", "true", r#"{"strict": true}"#]);
    let retry = select(vec![
        "null",
        "true",
        r#"{"limit": 3}"#,
        r#"{"limit": 5, "backoff": 1.5, "max": 60}"#,
    ]);
    (flag(), flag(), flag(), flag(), flag(), time(), time(), time(), utube, retry).prop_map(
        |(delayed, buried, keep, priority, tube, ttl, ttr, zombie, utube, retry)| {
            let mut text = Vec::new();
            let flags = [
                ("delayed", delayed),
                ("buried", buried),
                ("keep", keep),
                ("priority", priority),
                ("tube", tube),
            ];
            text.extend(
                flags.into_iter().filter_map(|(name, on)| Some(format!("\"{name}\": {}", on?))),
            );
            let others = [
                ("ttl", ttl),
                ("ttr", ttr),
                ("zombie", zombie),
                ("utube", utube),
                ("retry", retry),
            ];
            let others = others.into_iter().filter(|(_, value)| *value != "null");
            text.extend(others.map(|(name, value)| format!("\"{name}\": {value}")));
            serde_json::from_str(&format!("{{{}}}", text.join(", "))).expect("features")
        },
    )
}

/// Options of a call on which a statement can depend.
type Flags = [bool; 8];

/// Number of parts into which all statements are divided.
const PARTS: usize = 6;
const STEPS: usize = 1;
const LOOKS: usize = 3;

/// Returns a part of the statements: one statement of each kind, according to the flags.
fn statements(part: usize, table: &Table, names: &Names, flags: Flags) -> Vec<Text> {
    let flags = possible(table, flags);
    let [tube, level, ttr, marked, many, delay, ttl, other] = flags;
    let form = if other { Form::Json } else { Form::Row };
    let within = if many { Within::Buried } else { Within::Ready { tube, level } };
    let without_parameters = |sql| Text { sql, parameters: vec![] };
    match part {
        0 => changes(within, flags)
            .into_iter()
            .flat_map(|change| [table.change(change), table.change_one(change), table.pick(change)])
            .collect(),
        STEPS => verbs(&table.features)
            .flat_map(|verb| {
                let step = Step {
                    delay,
                    ttl,
                    attempt: level && table.has(Field::Attempts),
                    at_once: tube,
                    many,
                    ..Step::new(verb)
                };
                let update = Step { update: vec![1, 3], plain: marked, ..step.clone() };
                [table.step(&step), table.step(&update)]
            })
            .collect(),
        2 => [Source::Values, Source::Task, Source::Tasks, Source::Row]
            .map(|source| {
                let (columns, front) = (vec![2, 3], level && marked);
                let conflict = match (many, marked) {
                    (false, false) => Conflict::Error,
                    (false, true) => Conflict::Nothing,
                    (true, at_once) => Conflict::Update { at_once },
                };
                table.put(&Put {
                    form,
                    source,
                    columns,
                    delay,
                    ttl,
                    ttr,
                    priority: level,
                    front,
                    tube,
                    conflict,
                    update: vec![
                        Update { column: 2, is_field: tube },
                        Update { column: 3, is_field: false },
                    ],
                })
            })
            .into(),
        LOOKS => {
            let mut texts =
                vec![table.holder(), table.holders(), table.holding(), table.next_due()];
            texts.extend([table.least(marked), table.next_level(), table.first_level()]);
            texts.extend([table.subqueue_of_task(), table.is_takeable(), table.subqueues()]);
            texts.extend([table.peek(), table.first(within)]);
            texts
        }
        4 => definitions(table, names).into_iter().map(without_parameters).collect(),
        _ => {
            let lists = Status::ALL.into_iter().flat_map(|status| table.tasks_in(status));
            let mut texts: Vec<(String, bool)> = lists.map(|sql| (sql, false)).collect();
            texts.extend(["(integer)", "(integer, text)"].map(|arguments| {
                let (schema, function) = (quote(&names.schema), quote(&names.function));
                table.ask(&format!("{schema}.{function}{arguments}"))
            }));
            let text = |(sql, takes_tube): (String, bool)| {
                let tube = takes_tube.then_some(Parameter::Tube);
                Text { sql, parameters: [Parameter::Limit].into_iter().chain(tube).collect() }
            };
            texts.into_iter().map(text).collect()
        }
    }
}

/// Clears the flags of features that the queue does not have.
fn possible(table: &Table, [tube, level, ttr, marked, many, delay, ttl, other]: Flags) -> Flags {
    let features = &table.features;
    let (tube, level) = (tube && features.has_tubes(), level && features.has_priority());
    let (ttr, delay) = (ttr && features.has_deadlines(), delay && features.delays());
    [tube, level, ttr, marked, many, delay, ttl && features.expires(), other]
}

fn changes(within: Within, flags: Flags) -> Vec<Change> {
    let [tube, level, ttr, marked, many, delay, ttl, other] = flags;
    vec![
        Change::Take { within, ttr, marked, many },
        Change::TakeNamed { tube, ttr, any: other },
        Change::TakeInSubqueue { ttr, marked, limited: level },
        Change::Promote,
        Change::ExpireLeases,
        Change::DeleteZombies,
        Change::Expire,
        Change::Reap,
        Change::ReapOwnerless,
        Change::SnatchAll,
        Change::GiveBack,
        Change::Plow { delay, ttl, marked },
    ]
}

/// Returns the verbs of a queue. Touch needs a time to put off.
fn verbs(features: &Features) -> impl Iterator<Item = Verb> {
    let touch = (features.has_deadlines() || features.expires()).then_some(Verb::Touch);
    let verbs = [Verb::Ack, Verb::Release, Verb::Bury, Verb::Dig, Verb::Snatch, Verb::Restart];
    let switches = Status::ALL.into_iter().map(Verb::Switch);
    verbs.into_iter().chain([Verb::Delete]).chain(touch).chain(switches)
}

/// Returns the statements that make a table a queue and an ordinary table again.
fn definitions(table: &Table, names: &Names) -> Vec<String> {
    let mut texts = vec![
        table.set_default(Field::Status),
        table.set_key_default("0"),
        table.add_identity(7),
        table.drop_key_default(true),
        table.drop_key_default(false),
        table.wait_until_due(),
        table.greatest_key_up_to(9),
    ];
    for status in Status::ALL {
        texts.extend([table.fill_status(status), table.convert(status, None)]);
        texts.extend(Status::ALL.map(|to| table.convert(status, Some(to))));
        texts.push(table.forget(Field::Owner, Some(status)));
    }
    for field in Field::ALL {
        texts.extend(table.add_column(field, Status::Done));
        texts.push(table.forget(field, None));
    }
    texts.extend(Index::ALL.map(|index| table.create_index(index, &quote(&names.index))));
    for (name, statements) in table.triggers() {
        texts.extend(statements);
        texts.push(table.drop_trigger(name));
    }
    texts
}

/// Returns the token for other names that corresponds to a token for plain names.
fn renamed(token: Token, plain: &Names, names: &Names) -> Token {
    let of = |known: Vec<&String>, others: Vec<&String>, text: &String| {
        let at = known.iter().position(|known| *known == text)?;
        Some(others[at].clone())
    };
    match token {
        Token::Name(name) => Token::Name(of(plain.all(), names.all(), &name).unwrap_or(name)),
        Token::Literal(text) => {
            let labels = (plain.labels.iter().collect(), names.labels.iter().collect());
            Token::Literal(of(labels.0, labels.1, &text).unwrap_or(text))
        }
        other => other,
    }
}

proptest! {
    #[test]
    fn no_name_changes_what_a_statement_is(
        part in 0..PARTS, names in names(), features in features(), keys in 1..=KEY, order in 0..=ORDER, flags in any::<Flags>()
    ) {
        // A column that is in both is watched once.
        prop_assume!(!names.order.iter().any(|name| names.key.contains(name)));
        let plain = Names::plain();
        let expected = statements(part, &plain.table(&features, keys, order), &plain, flags);
        let texts = statements(part, &names.table(&features, keys, order), &names, flags);
        prop_assert_eq!(texts.len(), expected.len());
        for (text, expected) in texts.iter().zip(&expected) {
            let read = tokens(&text.sql).map_err(TestCaseError::fail)?;
            let model = tokens(&expected.sql).map_err(TestCaseError::fail)?;
            let model: Vec<Token> =
                model.into_iter().map(|token| renamed(token, &plain, &names)).collect();
            prop_assert_eq!(&read, &model, "{}", text.sql);
            prop_assert_eq!(&text.parameters, &expected.parameters);
        }
    }

    #[test]
    fn parameters_are_those_that_the_text_names(
        part in 0..PARTS, features in features(), keys in 1..=KEY, order in 0..=ORDER, flags in any::<Flags>()
    ) {
        let names = Names::plain();
        for text in statements(part, &names.table(&features, keys, order), &names, flags) {
            let read = tokens(&text.sql).map_err(TestCaseError::fail)?;
            let named: BTreeSet<usize> = read.iter().filter_map(|token| match token {
                Token::Parameter(number) => Some(*number),
                _ => None,
            }).collect();
            let all: BTreeSet<usize> = (1..=text.parameters.len()).collect();
            // Some statements of these parts do not use all their parameters.
            let may_ignore = [STEPS, LOOKS].contains(&part) && named.is_subset(&all);
            prop_assert!(named == all || may_ignore, "{}", text.sql);
            let count = |bracket| read.iter().filter(|token| **token == Token::Punctuation(bracket)).count();
            prop_assert_eq!((count('('), count('[')), (count(')'), count(']')), "{}", text.sql);
        }
    }
}
