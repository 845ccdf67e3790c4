//! Lua behind an interface that cannot jump: all of the crate's `unsafe` is in this folder.
//!
//! `lua` binds the C functions, `layout` reads Lua's structures, `heap` counts and limits memory, `context` is what callbacks find of ours,
//! `guard` makes tables read-only, `base` replaces some of Lua's own functions, `command` is `redis.call`,
//! `patterns` and `tables` are Lua's functions
//! that can take long.
//! What the rest of the crate sees is [`State`], which compiles and runs, and [`Stack`], on which libraries
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
