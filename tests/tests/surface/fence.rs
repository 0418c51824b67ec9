//! Checks the fence around the server's C interface in the sources: where unsafe code is allowed, and which types leave
//! the fence. The compiler itself (`deny(unsafe_code)`) refuses unsafe code outside of `src/server` and the files of
//! `src/parts` that allow it.

use std::path::PathBuf;

use syn::visit::{self, Visit};
use syn::{Arm, Attribute, Expr, Stmt};
use xqueue_tests::sources;

const FENCED: [&str; 2] = ["src/server", "src/parts"];
/// Names of types that are pointers, or whose bits the server trusts.
const BARE: [&str; 10] = [
    "Datum",
    "NullableDatum",
    "FunctionCallInfo",
    "HeapTuple",
    "HeapTupleHeader",
    "MemoryContext",
    "Snapshot",
    "TriggerData",
    "TupleDesc",
    "SPIPlanPtr",
];
/// Rises only in a commit that gives the reason. A change that removes a block lowers it.
const UNSAFE_BLOCKS: usize = 419;
const PROTOTYPES: usize = 74;
/// Safe functions inside the fence that take a bare type.
const TRUSTING: usize = 4;

#[derive(Default)]
struct Fence {
    file: PathBuf,
    unsafe_blocks: usize,
    prototypes: usize,
    /// Safe functions inside the fence that take a bare type: a wrong argument from its own code would read invalid
    /// memory.
    trusting: Vec<String>,
    /// Safe functions that code outside can call, with the bare types that they take or return.
    leaks: Vec<String>,
}

impl Fence {
    fn of_all() -> Fence {
        let mut fence = Fence::default();
        for (file, text) in FENCED.into_iter().flat_map(sources) {
            fence.file = file;
            fence.look(&text);
        }
        fence
    }

    fn look(&mut self, text: &str) {
        self.visit_file(&syn::parse_file(text).expect("a source of Rust"));
    }

    /// Notes a function that is public beyond the fence, safe, and has a bare type in its signature.
    fn note(&mut self, visible: &syn::Visibility, signature: &syn::Signature) {
        let is_public = matches!(visible, syn::Visibility::Public(_));
        if signature.unsafety.is_some() {
            return;
        }
        let mut bare = Bare::default();
        signature.inputs.iter().for_each(|input| bare.visit_fn_arg(input));
        let of = format!("{}: {}", self.file.display(), signature.ident);
        if is_public {
            bare.visit_return_type(&signature.output);
            self.leaks.extend(bare.0.into_iter().map(|leak| format!("{of} ({leak})")));
        } else if !bare.0.is_empty() {
            self.trusting.push(of);
        }
    }
}

impl<'ast> Visit<'ast> for Fence {
    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafe_blocks += 1;
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_foreign_item_fn(&mut self, _: &'ast syn::ForeignItemFn) {
        self.prototypes += 1;
    }

    /// Counts declarations that a macro compares with pgrx's, and unsafe blocks in macros that define functions.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let text = call.tokens.to_string();
        if call.path.is_ident("functions") {
            self.prototypes += text.split_whitespace().filter(|word| *word == "fn").count();
        } else {
            self.unsafe_blocks += text.matches("unsafe {").count();
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.vis, &item.sig);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.vis, &item.sig);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if matches!(field.vis, syn::Visibility::Public(_)) {
            let mut bare = Bare::default();
            bare.visit_type(&field.ty);
            let name = field.ident.as_ref().map(|name| name.to_string()).unwrap_or_default();
            let of = format!("{}: field {name}", self.file.display());
            self.leaks.extend(bare.0.into_iter().map(|leak| format!("{of} ({leak})")));
        }
    }
}

/// The bare types in a type.
#[derive(Default)]
struct Bare(Vec<String>);

impl<'ast> Visit<'ast> for Bare {
    fn visit_type_ptr(&mut self, _: &'ast syn::TypePtr) {
        self.0.push("a pointer".into());
    }

    fn visit_type_path(&mut self, path: &'ast syn::TypePath) {
        let segments: Vec<_> =
            path.path.segments.iter().map(|part| part.ident.to_string()).collect();
        let (last, is_servers) = (segments.last(), segments.contains(&"pg_sys".to_string()));
        if let Some(name) = last
            && (BARE.contains(&name.as_str()) && (is_servers || name == "Datum")
                || name == "Relation" && is_servers)
        {
            self.0.push(name.clone());
        }
        visit::visit_type_path(self, path);
    }
}

/// Code that some majors have and that no other code needs: a major without it compiles.
#[derive(Default)]
struct Vanishing {
    file: PathBuf,
    found: Vec<String>,
}

impl Vanishing {
    fn note(&mut self, kind: &str, attributes: &[Attribute]) {
        let names_major = |attribute: &Attribute| {
            let list = attribute.meta.require_list();
            list.is_ok_and(|list| {
                list.path.is_ident("cfg") && list.tokens.to_string().contains("pg1")
            })
        };
        if attributes.iter().any(names_major) {
            self.found.push(format!("{}: {kind}", self.file.display()));
        }
    }
}

fn has_value(block: &syn::Block) -> bool {
    matches!(block.stmts.last(), Some(Stmt::Expr(_, None)))
}

impl<'ast> Visit<'ast> for Vanishing {
    fn visit_arm(&mut self, arm: &'ast Arm) {
        self.note("arm", &arm.attrs);
        visit::visit_arm(self, arm);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        match statement {
            Stmt::Expr(Expr::If(of), _) if of.else_branch.is_none() => self.note("if", &of.attrs),
            Stmt::Expr(Expr::Block(of), _) if !has_value(&of.block) => {
                self.note("block", &of.attrs)
            }
            Stmt::Expr(Expr::Unsafe(of), _) if !has_value(&of.block) => {
                self.note("block", &of.attrs)
            }
            Stmt::Expr(Expr::Call(call), Some(_)) => self.note("call", &call.attrs),
            Stmt::Expr(Expr::MethodCall(call), Some(_)) => self.note("call", &call.attrs),
            Stmt::Expr(Expr::Assign(assign), Some(_)) => self.note("assignment", &assign.attrs),
            _ => {}
        }
        visit::visit_stmt(self, statement);
    }
}

/// Values leave the fence with their types, and tables and plans as owning types.
#[test]
fn nothing_bare_leaves_it() {
    let leaks = Fence::of_all().leaks;
    assert!(leaks.is_empty(), "safe and public, but bare:\n{}", leaks.join("\n"));
}

/// Differences between majors name the majors: a new one does not compile until each difference has a branch for it.
#[test]
fn differences_between_majors_name_them() {
    let mut found = Vec::new();
    for (file, text) in sources("src") {
        let text: String = text.split_whitespace().collect();
        if text.contains("not(feature=\"pg1") || text.contains("not(any(feature=\"pg1") {
            found.push(file.display().to_string());
        }
    }
    assert!(found.is_empty(), "branches for all majors but those named: {found:?}");
}

/// A statement or an arm that a new major lacks is no error of the compiler. A value that it lacks is one.
#[test]
fn a_new_major_does_not_compile_without_its_branches() {
    let mut vanishing = Vanishing::default();
    for (file, text) in sources("src") {
        vanishing.file = file;
        vanishing.visit_file(&syn::parse_file(&text).expect("a source of Rust"));
    }
    assert!(vanishing.found.is_empty(), "only some majors have: {:#?}", vanishing.found);
}

/// The test above detects bare types.
#[test]
fn what_is_bare_is_seen() {
    let mut fence = Fence::default();
    fence.look(
        "pub struct Open { pub place: *mut u8, own: *mut u8 }
         pub fn read(value: Datum) -> u64 {}
         pub unsafe fn promised(value: Datum) {}
         pub(super) fn inside(value: Datum) {}
         impl Open { pub fn all(&self) -> Vec<pg_sys::TupleDesc> {} pub fn fine(&self, oid: Oid) {} }
         fn count() { unsafe { look() }; vec![unsafe { look() }]; }
         unsafe extern \"C\" { fn look(); }
         functions! { pub fn one(); fn two(); }",
    );
    let found: Vec<_> = fence.leaks.iter().map(|leak| leak.trim_start_matches(": ")).collect();
    assert_eq!(found, ["field place (a pointer)", "read (Datum)", "all (TupleDesc)"]);
    assert_eq!((fence.unsafe_blocks, fence.prototypes), (2, 3));
    assert_eq!(fence.trusting, [": inside"]);
}

#[test]
fn it_does_not_grow() {
    let fence = Fence::of_all();
    let found = (fence.unsafe_blocks, fence.prototypes);
    assert_eq!(found, (UNSAFE_BLOCKS, PROTOTYPES), "unsafe blocks, prototypes written by hand");
    let trusting = fence.trusting;
    assert_eq!(trusting.len(), TRUSTING, "safe, but take what is bare:\n{}", trusting.join("\n"));
}
