//! Utility statements that concern queues, read from the server's parse trees.

use crate::server::foreign::{list, list_nth};
use pgrx::pg_sys::{self, Oid};
use std::ffi::CStr;

/// Commands that need more handling than their catalog changes.
pub enum Command {
    /// COMMIT PREPARED or ROLLBACK PREPARED.
    ResolvePrepared,
    DiscardAll,
    /// A command that needs exclusive use of the database, by name.
    OccupyDatabase {
        name: String,
        purpose: Purpose,
    },
    /// ALTER TYPE … RENAME VALUE of an enum.
    RenameLabel(RenamedLabel),
    /// ALTER TABLE … ALTER COLUMN … TYPE of this table.
    AlterColumnType(Oid),
}

pub struct RenamedLabel {
    pub kind: Oid,
    pub old: String,
    pub new: String,
}

/// The reason why a command needs a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Drop,
    Rename,
    /// Moves the database to another tablespace.
    Move,
    /// Uses the database as the template of another one.
    Copy,
}

/// Returns whether a statement can be one of the commands handled here.
///
/// # Safety
/// `node` is a parsed utility statement.
pub(super) unsafe fn concerns(node: *mut pg_sys::Node) -> bool {
    use pg_sys::TransactionStmtKind::{TRANS_STMT_COMMIT_PREPARED, TRANS_STMT_ROLLBACK_PREPARED};
    // SAFETY: the tag determines the node's type.
    unsafe {
        match (*node).type_ {
            pg_sys::NodeTag::T_TransactionStmt => {
                let kind = (*node.cast::<pg_sys::TransactionStmt>()).kind;
                kind == TRANS_STMT_COMMIT_PREPARED || kind == TRANS_STMT_ROLLBACK_PREPARED
            }
            pg_sys::NodeTag::T_RenameStmt => {
                let renamed = (*node.cast::<pg_sys::RenameStmt>()).renameType;
                renamed == pg_sys::ObjectType::OBJECT_DATABASE
            }
            pg_sys::NodeTag::T_AlterEnumStmt => {
                !(*node.cast::<pg_sys::AlterEnumStmt>()).oldVal.is_null()
            }
            pg_sys::NodeTag::T_AlterTableStmt => {
                let commands = (*node.cast::<pg_sys::AlterTableStmt>()).cmds;
                list::<pg_sys::AlterTableCmd>(commands)
                    .any(|command| (*command).subtype == pg_sys::AlterTableType::AT_AlterColumnType)
            }
            pg_sys::NodeTag::T_DiscardStmt
            | pg_sys::NodeTag::T_DropdbStmt
            | pg_sys::NodeTag::T_AlterDatabaseStmt
            | pg_sys::NodeTag::T_CreatedbStmt => true,
            _ => false,
        }
    }
}

/// # Safety
/// `node` is a parsed utility statement for which `concerns` is true.
pub(super) unsafe fn command(node: *mut pg_sys::Node) -> Option<Command> {
    // SAFETY: the tag determines the node's type.
    unsafe {
        match (*node).type_ {
            pg_sys::NodeTag::T_TransactionStmt => Some(Command::ResolvePrepared),
            pg_sys::NodeTag::T_DiscardStmt => {
                let target = (*node.cast::<pg_sys::DiscardStmt>()).target;
                (target == pg_sys::DiscardMode::DISCARD_ALL).then_some(Command::DiscardAll)
            }
            pg_sys::NodeTag::T_DropdbStmt => {
                occupied((*node.cast::<pg_sys::DropdbStmt>()).dbname, Purpose::Drop)
            }
            pg_sys::NodeTag::T_AlterDatabaseStmt => {
                let alter = &*node.cast::<pg_sys::AlterDatabaseStmt>();
                option(alter.options, c"tablespace")
                    .and_then(|_| occupied(alter.dbname, Purpose::Move))
            }
            pg_sys::NodeTag::T_RenameStmt => {
                occupied((*node.cast::<pg_sys::RenameStmt>()).subname, Purpose::Rename)
            }
            pg_sys::NodeTag::T_AlterEnumStmt => {
                let alter = &*node.cast::<pg_sys::AlterEnumStmt>();
                let name = pg_sys::makeTypeNameFromNameList(alter.typeName);
                let kind = pg_sys::LookupTypeNameOid(std::ptr::null_mut(), name, true);
                let text = |label: *const std::ffi::c_char| {
                    CStr::from_ptr(label).to_string_lossy().into_owned()
                };
                let (old, new) = (text(alter.oldVal), text(alter.newVal));
                (kind != Oid::INVALID).then_some(Command::RenameLabel(RenamedLabel {
                    kind,
                    old,
                    new,
                }))
            }
            pg_sys::NodeTag::T_AlterTableStmt => {
                let table = pg_sys::RangeVarGetRelidExtended(
                    (*node.cast::<pg_sys::AlterTableStmt>()).relation,
                    pg_sys::NoLock as pg_sys::LOCKMODE,
                    pg_sys::RVROption::RVR_MISSING_OK,
                    None,
                    std::ptr::null_mut(),
                );
                (table != Oid::INVALID).then_some(Command::AlterColumnType(table))
            }
            pg_sys::NodeTag::T_CreatedbStmt => {
                let create = &*node.cast::<pg_sys::CreatedbStmt>();
                match option(create.options, c"template") {
                    Some(template) => occupied(pg_sys::defGetString(template), Purpose::Copy),
                    None => occupied(c"template1".as_ptr(), Purpose::Copy),
                }
            }
            _ => None,
        }
    }
}

/// Returns the option of this name, if it has a value.
///
/// # Safety
/// `options` is null or a list of options.
unsafe fn option(options: *mut pg_sys::List, name: &CStr) -> Option<*mut pg_sys::DefElem> {
    // SAFETY: by the contract of this function.
    unsafe {
        let count = if options.is_null() { 0 } else { (*options).length };
        (0..count)
            .map(|index| list_nth::<pg_sys::DefElem>(options, index))
            .find(|option| CStr::from_ptr((**option).defname) == name && !(**option).arg.is_null())
    }
}

/// # Safety
/// `name` is null or a C string.
unsafe fn occupied(name: *const std::ffi::c_char, purpose: Purpose) -> Option<Command> {
    if name.is_null() {
        return None;
    }
    // SAFETY: by the contract of this function.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    Some(Command::OccupyDatabase { name, purpose })
}
