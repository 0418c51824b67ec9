//! README.md and docs/: every SQL block is run, every output shown is compared, every link leads somewhere, and every
//! name in the catalogue is described. `tests/src/docs/mod.rs` tells how to write a page for these checks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use xqueue_tests::docs::*;
use xqueue_tests::*;

const README_LINES: usize = 160;
const SUMMARY: &str = "docs/SUMMARY.md";

fn page(path: &str) -> Page {
    Page::read(&root(), Path::new(path))
}

fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).expect("a text")
}

#[track_caller]
fn assert_none(defects: Vec<String>) {
    assert!(defects.is_empty(), "\n{}\n", defects.join("\n"));
}

#[test]
fn docs_blocks_run() {
    let pages = Page::all(&root());
    let is_run = |block: &&Block| matches!(block.kind, Kind::Sql { .. });
    let blocks = pages.iter().flat_map(|page| &page.blocks).filter(is_run).count();
    assert!(blocks > 0, "no block is run");
    let mut defects: Vec<String> = pages.iter().flat_map(|page| page.defects.clone()).collect();
    defects.extend(pages.iter().flat_map(failures));
    assert_none(defects);
}

/// Code for clients is an excerpt of a program that the tests run.
#[test]
fn docs_excerpts_stand_in_their_files() {
    let (mut count, mut defects) = (0, Vec::new());
    for page in Page::all(&root()) {
        for block in &page.blocks {
            let Kind::Excerpt { of } = &block.kind else { continue };
            count += 1;
            let file = std::fs::read_to_string(root().join(of)).unwrap_or_default();
            let lines: Vec<&str> = file.lines().map(str::trim).collect();
            let excerpt: Vec<&str> = block.text.iter().map(|line| line.trim()).collect();
            if excerpt.is_empty() || !lines.windows(excerpt.len()).any(|part| part == excerpt) {
                let place = format!("{}:{}", page.path.display(), block.line);
                defects.push(format!("{place}: {} has other lines", of.display()));
            }
        }
    }
    assert!(count > 0, "no excerpt is compared");
    assert_none(defects);
}

#[test]
fn docs_read_well() {
    let mut pages = Page::all(&root());
    pages.push(page("CHANGELOG.md"));
    assert_none(pages.iter().flat_map(hard_sentences).collect());
}

#[test]
fn docs_links_lead_somewhere() {
    let (root, mut pages) = (root(), Page::all(&root()));
    pages.push(page("CHANGELOG.md"));
    let mut defects = broken_links(&root, &pages);
    defects.extend(pages.iter().flat_map(|page| broken_mentions(&root, page)));
    assert_none(defects);
}

/// Pages named in errors and comments exist, too.
#[test]
fn docs_named_in_code_exist() {
    let (root, mut missing) = (root(), BTreeSet::new());
    for (path, text) in
        ["src", "sql", "tests/src", "tests/tests", "pgrx-embed"].into_iter().flat_map(texts)
    {
        // The tests of the page checks use pages that do not exist.
        if path.iter().rev().nth(1).is_some_and(|folder| folder == "docs") {
            continue;
        }
        let starts = text.match_indices("docs/").map(|(at, _)| &text[at..]);
        let names = starts.filter_map(|rest| rest.split_inclusive(".md").next());
        let is_name = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        missing.extend(
            names
                .filter(|name| name.ends_with(".md") && name.chars().all(is_name))
                .filter(|name| !root.join(name).exists())
                .map(|name| format!("{}: {name}", path.display())),
        );
    }
    assert_none(missing.into_iter().collect());
}

/// A page for developers that says "`name` in `file`" is right: the file defines the name.
#[test]
fn docs_for_developers_name_what_exists() {
    let root = root();
    let (mut count, mut defects) = (0, Vec::new());
    for page in Page::all(&root).iter().filter(|page| page.path.starts_with("docs/dev")) {
        let text = text(&page.path).split_whitespace().collect::<Vec<_>>().join(" ");
        for (at, _) in text.match_indices("` in [`src/") {
            let name = text[..at].rsplit(['`', ':']).next().unwrap_or_default();
            let file = text[at..].split('`').nth(2).unwrap_or_default();
            let code = std::fs::read_to_string(root.join(file)).unwrap_or_default();
            let kinds = ["fn", "const", "static", "struct", "enum", "trait", "type"];
            let is_defined = |kind: &&str| {
                let definition = format!("{kind} {name}");
                let ends = code.match_indices(&definition).map(|(at, _)| at + definition.len());
                let is_name = |c: char| c.is_alphanumeric() || c == '_';
                ends.into_iter().any(|end| !code[end..].starts_with(is_name))
            };
            count += 1;
            if !kinds.iter().any(is_defined) {
                defects.push(format!("{}: {file} does not define {name}", page.path.display()));
            }
        }
    }
    assert!(count > 20, "only {count} names are checked");
    assert_none(defects);
}

#[test]
fn docs_start_at_a_short_readme() {
    let lines = text("README.md").lines().count();
    assert!(lines <= README_LINES, "README.md has {lines} lines");
}

/// From README.md, any page is at most two clicks away.
#[test]
fn docs_are_two_clicks_from_the_readme() {
    let pages = Page::all(&root());
    let is_readme = |page: &&Page| page.path == Path::new("README.md");
    let first = linked_pages(pages.iter().find(is_readme).expect("README.md"));
    let second = pages.iter().filter(|page| first.contains(&page.path)).flat_map(linked_pages);
    let near: BTreeSet<PathBuf> = second.chain(first.clone()).collect();
    let rest = pages.iter().filter(|page| !is_readme(page) && page.path != Path::new(SUMMARY));
    let far = rest.filter(|page| !near.contains(&page.path));
    assert_none(far.map(|page| page.path.display().to_string()).collect());
}

/// The summary lists every page except those for developers.
#[test]
fn docs_stand_in_the_summary() {
    let pages = Page::all(&root());
    let summary = pages.iter().find(|page| page.path == Path::new(SUMMARY)).expect(SUMMARY);
    let is_chapter = |page: &&Page| {
        page.path.starts_with("docs")
            && !page.path.starts_with("docs/dev")
            && page.path != summary.path
    };
    let chapters: BTreeSet<PathBuf> =
        pages.iter().filter(is_chapter).map(|page| page.path.clone()).collect();
    assert_eq!(linked_pages(summary), chapters);
}

/// The functions in `docs/stub.sql` behave like the extension.
#[test]
fn docs_stub_does_what_the_extension_does() {
    let script = format!("\\set VERBOSITY sqlstate\n{}", text("tests/src/docs/stub.sql"));
    let stub = Database::empty("docs_stub");
    assert_eq!(printed_in(&stub, &text("docs/stub.sql")), "");
    let (expected, actual) =
        (printed_in(&Database::new("docs"), &script), printed_in(&stub, &script));
    assert!(expected.lines().count() > 100, "{expected}");
    assert_eq!(actual, expected);
}

/// Asserts that a page describes exactly the names in the catalogue.
#[track_caller]
fn assert_described(sql: &str, described: impl Iterator<Item = String>) {
    let rows = connect().query(sql, &[]).expect("the names");
    let names: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let described: BTreeSet<String> = described.collect();
    let differ: Vec<_> = names.symmetric_difference(&described).collect();
    assert!(differ.is_empty(), "either described or in the catalogue: {differ:?}");
}

/// Returns the names in the first cells of a page's tables: `| `name`, `name` | …`.
fn first_cells(page: &Page) -> impl Iterator<Item = String> {
    page.prose.iter().flat_map(|(_, line)| names_in_first_cell(line))
}

/// Returns the names in the first cells of one section of the page.
fn first_cells_of(page: &Page, heading: &str) -> impl Iterator<Item = String> {
    section(page, format!("## {heading}")).flat_map(names_in_first_cell)
}

/// Returns the lines from a heading to the next one.
fn section(page: &Page, heading: String) -> impl Iterator<Item = &str> {
    let lines = page.prose.iter().map(|(_, line)| line.as_str());
    lines.skip_while(move |line| *line != heading).skip(1).take_while(|line| !line.starts_with('#'))
}

fn names_in_first_cell(line: &str) -> Vec<String> {
    let cell = line.strip_prefix("| ").and_then(|rest| rest.split(" |").next());
    cell.unwrap_or_default().split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn docs_have_an_entry_for_each_function() {
    let functions =
        "SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace = 'xqueue'::regnamespace";
    let text = text("docs/reference/functions.md");
    let internal = functions.replace("xqueue", "xqueue_internal");
    let internal = connect().query(&internal, &[]).expect("the functions");
    assert!(!internal.is_empty());
    for name in internal.iter().map(|row| row.get::<_, String>(0)) {
        assert!(text.contains(&format!("`{name}()`")), "{name}");
    }
    assert_described(functions, headings(&page("docs/reference/functions.md"), 3));
}

/// The signatures at the heads of the entries name every parameter.
#[test]
fn docs_have_each_parameter() {
    let page = page("docs/reference/functions.md");
    let sql = "SELECT DISTINCT proname::text, argument
               FROM pg_proc, unnest(proargnames) AS argument
               WHERE pronamespace = 'xqueue'::regnamespace AND argument <> ''";
    let described: BTreeSet<String> = headings(&page, 3).collect();
    let rows = connect().query(sql, &[]).expect("the parameters");
    let parameters = rows.iter().map(|row| (row.get::<_, String>(0), row.get::<_, String>(1)));
    let missing: Vec<_> = parameters
        .filter(|(function, _)| described.contains(function))
        .filter(|(function, parameter)| !signatures(&page, function).contains(parameter))
        .collect();
    assert!(!rows.is_empty() && missing.is_empty(), "{missing:?}");
}

/// Returns the words in code spans of an entry that show a call of the function.
fn signatures(page: &Page, function: &str) -> BTreeSet<String> {
    let entry = section(page, format!("### {function}")).collect::<Vec<_>>().join(" ");
    let codes = entry.split('`').skip(1).step_by(2);
    let starts = [format!("{function}("), format!("CALL {function}(")];
    let calls = codes.filter(|code| starts.iter().any(|start| code.starts_with(start)));
    let words = calls.flat_map(|call| call.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.map(str::to_owned).collect()
}

/// Returns whether a text such as 10MB means this number of kB.
fn is_megabytes(text: &str, kilobytes: &str) -> bool {
    let number = text.strip_suffix("MB").and_then(|number| number.parse::<u64>().ok());
    number.is_some_and(|number| (number * 1024).to_string() == kilobytes)
}

#[test]
fn docs_have_each_setting_with_its_default() {
    let page = page("docs/reference/settings.md");
    let sql = "SELECT name FROM pg_settings WHERE name LIKE 'xqueue.%'";
    assert_described(sql, first_cells(&page));
    let sql =
        "SELECT name, boot_val, coalesce(unit, ''), coalesce(min_val, ''), coalesce(max_val, '')
               FROM pg_settings WHERE name LIKE 'xqueue.%'";
    for row in connect().query(sql, &[]).expect("the settings") {
        let [name, default, unit, min, max] = std::array::from_fn(|n| row.get::<_, String>(n));
        let start = format!("| `{name}` |");
        let line = page.prose.iter().find(|(_, line)| line.starts_with(&start));
        let cells: Vec<&str> = line.expect("its row").1.split('|').map(str::trim).collect();
        let shown = if default.is_empty() { "empty".to_owned() } else { default };
        let is_size = |cell: &str| unit == "kB" && is_megabytes(cell, &shown);
        let is_same = |cell: &str| cell == shown || is_time(cell, &shown, &unit) || is_size(cell);
        assert!(is_same(cells[2]), "{name}: {} is not {shown} {unit}", cells[2]);
        if !min.is_empty() {
            let range = format!("{min}–{max}");
            assert!(cells[3].starts_with(&range), "{name}: {} is not {range}", cells[3]);
        }
    }
}

/// Returns whether a time such as `30d` is `value` in the setting's unit.
fn is_time(cell: &str, value: &str, unit: &str) -> bool {
    let has_unit = matches!(unit, "ms" | "s");
    let sql = "SELECT replace($1, 'd', ' days')::interval = ($2::text || $3::text)::interval";
    has_unit && scalar::<bool>(&mut connect(), sql, &[&cell, &value, &unit])
}

#[test]
fn docs_have_each_column_of_views() {
    let page = page("docs/reference/views.md");
    let views = "SELECT c.relname::text FROM pg_class c
                 WHERE c.relnamespace = 'xqueue'::regnamespace AND c.relkind = 'v'";
    assert_described(views, headings(&page, 2));
    for view in headings(&page, 2) {
        let sql = format!(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = 'xqueue.{view}'::regclass AND attnum > 0"
        );
        assert_described(&sql, first_cells_of(&page, &view));
    }
}

/// The error about an unknown name lists the known names.
#[test]
fn docs_have_each_option() {
    let (page, mut c) = (page("docs/reference/options.md"), connect());
    let tables = [
        (r#"{"fields": {"unknown": "a"}}"#, first_cells_of(&page, "Fields").collect()),
        (r#"{"features": {"unknown": true}}"#, first_cells_of(&page, "Features").collect()),
        (r#"{"unknown": 1}"#, first_cells(&page).collect()),
    ];
    for (options, described) in tables {
        let described: BTreeSet<String> = described;
        let sql = format!("SELECT xqueue.create('docs_options', '{options}')");
        let error = c.batch_execute(&sql).expect_err("the name is unknown");
        let message = db_error(&error).message().to_owned();
        let (_, list) = message.split_once("expected one of ").expect("the names");
        let names: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        assert!(names.len() > 1, "{message}");
        let missing: Vec<_> = names.iter().filter(|name| !described.contains(**name)).collect();
        assert!(missing.is_empty(), "{missing:?} of {options}");
        let foreign = described.iter().filter(|name| !names.contains(&name.as_str())).count();
        assert!(foreign == 0 || options.contains("1}"), "{described:?} of {options}");
    }
}

/// Wrong pages fail when they are run: the checks are able to fail.
#[test]
fn docs_that_are_wrong_fail() {
    let parse = |text: &str| Page::parse(Path::new("wrong.md"), text);
    let right = parse("```sql\nSELECT 1 AS n;\n```\n\n```output\n n\n---\n 1\n(1 row)\n```\n");
    assert_none(failures(&right));
    let wrong = [
        ("```sql\nSELECT 2 AS n;\n```\n\n```output\n n\n---\n 1\n(1 row)\n```\n", "psql prints"),
        ("```sql\nSELECT 1 / 0;\n```\n", "division by zero"),
        ("```sql\nSELECT xqueue.take('nothing');\n```\n", "nothing"),
        ("```sql\nSELECT xqueue.take('x');\n```\n\n```output\nERROR:  other\n```\n", "psql prints"),
        ("```sql\n\\no_such_command\n```\n", "invalid command"),
        ("```sql\nSELECT 1;\n\\q\n```\n\n```sql\nSELECT 2;\n```\n", "did not run to its end"),
        ("```sql\nSELECT 'open;\n```\n", "did not run to its end"),
    ];
    for (text, expected) in wrong {
        let failures = failures(&parse(text));
        assert!(failures.len() == 1 && failures[0].contains(expected), "{text}: {failures:?}");
        assert!(failures[0].starts_with("wrong.md:1: "), "{failures:?}");
    }
}

/// The stub refuses options and arguments that it would otherwise ignore.
#[test]
fn docs_stub_refuses_what_it_does_not_do() {
    let stub = Database::empty("docs_stub");
    assert_eq!(printed_in(&stub, &text("docs/stub.sql")), "");
    let queue = r#"SELECT FROM xqueue.create('q', '{"features": {"retry": true, "ttr": true, "priority": true}}');
                   SELECT FROM xqueue.put('q', '{}'); SELECT FROM xqueue.take('q');"#;
    assert!(!printed_in(&stub, queue).contains("ERROR"));
    for call in [
        "upgrade('q', dry_run => true)",
        r#"upgrade('q', '{"states": {"R": "r"}}')"#,
        r#"upgrade('q', '{"tube_stats": ["a"]}')"#,
        r#"upgrade('q', '{"fields": {"order": "payload"}}')"#,
        r#"upgrade('q', '{"fields": {"expires": "payload"}, "features": {"ttl": true}}')"#,
        r#"upgrade('q', '{"features": {"utube": true}}')"#,
        r#"upgrade('q', '{"features": {"capacity": 1}}')"#,
        r#"upgrade('q', '{"features": {"id": "uuid"}}')"#,
        "put('q', '{}', front => true)",
        "take('q', ttr => '1 h')",
        "ack('q', 1, attempt => 7)",
    ] {
        let printed = printed_in(&stub, &format!("SELECT xqueue.{call};"));
        assert!(printed.starts_with("ERROR:  the stub does not do "), "{call}: {printed}");
    }
}
