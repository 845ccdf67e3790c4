//! Lua behind an interface that cannot jump. All of the crate's `unsafe` is in this folder.
//!
//! `lua` binds the C functions, `layout` reads Lua's structures, `heap` counts and limits memory, `context`
//! holds our data for callbacks, `guard` makes tables read-only, `base` replaces some of Lua's own functions,
//! `command` is `redis.call`, and `patterns` and `tables` are those of Lua's functions that can take long.
//! The rest of the crate sees only [`State`], which compiles and runs, and [`Stack`], on which the libraries
//! work.

mod base;
mod chunk;
mod command;
mod context;
mod guard;
mod heap;
mod layout;
mod lua;
mod patterns;
mod stack;
mod state;
mod tables;

pub(crate) use lua::Function;
pub(crate) use stack::{Failure, LuaKind, Native, Stack, integer_of};
pub(crate) use state::{Ending, LoadFailure, State};
