//! Lua.
