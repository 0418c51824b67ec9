//! Code that depends on each state of a task, or each parameter of a statement, matches all of them by name. The
//! compiler then reports each such match when a state or a parameter is added.

use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Arm, ExprMatch, Pat};
use xqueue_tests::{root, sources};

const LISTED: [&str; 2] = ["Status", "Parameter"];

#[derive(Default)]
struct Matches {
    file: PathBuf,
    count: usize,
    /// The files of matches with a catch-all arm.
    open: Vec<String>,
}

impl<'ast> Visit<'ast> for Matches {
    fn visit_expr_match(&mut self, found: &'ast ExprMatch) {
        if found.arms.iter().any(|arm| names_listed(&arm.pat)) {
            self.count += 1;
            if found.arms.iter().any(is_catch_all) {
                self.open.push(self.file.display().to_string());
            }
        }
        visit::visit_expr_match(self, found);
    }
}

fn names_listed(pattern: &Pat) -> bool {
    let is_listed = |path: &syn::Path| {
        let owner = path.segments.iter().rev().nth(1);
        owner.is_some_and(|owner| LISTED.iter().any(|listed| owner.ident == listed))
    };
    match pattern {
        Pat::Path(path) => is_listed(&path.path),
        Pat::TupleStruct(tuple) => {
            is_listed(&tuple.path)
                || tuple.path.is_ident("Some") && tuple.elems.iter().any(names_listed)
        }
        Pat::Or(or) => or.cases.iter().any(names_listed),
        Pat::Paren(inner) => names_listed(&inner.pat),
        _ => false,
    }
}

fn is_catch_all(arm: &Arm) -> bool {
    arm.guard.is_none() && matches!(arm.pat, Pat::Wild(_) | Pat::Ident(_))
}

#[test]
fn no_match_over_states_or_parameters_has_a_catch_all() {
    let mut matches = Matches::default();
    // A test that leaves a state out fails by itself.
    let src = root().join("src");
    let is_test = |file: &Path| {
        file.strip_prefix(&src).is_ok_and(|path| path.iter().any(|part| part == "tests"))
    };
    for (file, text) in sources("src").into_iter().filter(|(file, _)| !is_test(file)) {
        matches.file = file;
        matches.visit_file(&syn::parse_file(&text).expect("a source that parses"));
    }
    assert!(matches.count > 10, "only {} are found", matches.count);
    assert!(matches.open.is_empty(), "{:#?}", matches.open);
}

/// A file that its area does not declare would never be compiled.
#[test]
fn each_file_of_tests_is_part_of_the_program_of_its_area() {
    let areas = root().join("tests/tests");
    let entries = |folder: &Path| {
        std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path())
    };
    let mut count = 0;
    for area in entries(&areas) {
        assert!(area.is_dir(), "{} is in no area", area.display());
        let program = std::fs::read_to_string(area.join("main.rs")).expect("a program");
        let names = |name: &str| program.lines().any(|line| line == format!("mod {name};"));
        for file in entries(&area).filter(|path| path.is_file()) {
            let name = file.file_stem().and_then(|name| name.to_str()).expect("a name");
            assert!(name == "main" || names(name), "main.rs does not name {}", file.display());
            count += 1;
        }
    }
    assert!(count > 100, "only {count} are found");
}
