//! `redis.register_function`: how a library registers its functions while it is loaded.
//!
//! ```text
//! redis.register_function('name', callback)
//! redis.register_function{function_name = 'name', callback = callback, flags = {'no-writes'}, description = 'text'}
//! ```

use crate::error::{self, raise};
use crate::flags::Flags;
use crate::raw::{Failure, LuaKind, Stack};
use crate::registry::{Registered, is_valid_name};

const BAD_NAME: &[u8] = b"ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// The arguments. The callback is on top of the stack.
#[derive(Default)]
struct Wanted {
    name: Vec<u8>,
    description: Option<Vec<u8>>,
    flags: Flags,
}

pub(crate) fn register_function(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    let mut registry = stack.registry().borrow_mut();
    let Some(registry) = registry.as_mut() else {
        return Err(raise(stack, b"ERR redis.register_function can only be called on FUNCTION LOAD command"));
    };
    let Wanted { name, description, flags } = match stack.arg_count() {
        1 => read_named(stack)?,
        2 => read_positional(stack)?,
        _ => return Err(raise(stack, b"ERR wrong number of arguments to redis.register_function")),
    };
    if !is_valid_name(&name) {
        return Err(raise(stack, BAD_NAME));
    }
    stack.claim_memory(registry.add_bytes_of(&name, description.as_deref()))?;
    if !registry.take_name(&name) {
        return Err(raise(stack, b"ERR Function already exists in the library"));
    }
    let callback = stack.keep()?;
    registry.functions.push(Registered { name, description, flags, callback });
    Ok(0)
}

fn read_positional(stack: &mut Stack<'_>) -> Result<Wanted, Failure> {
    let Some(name) = stack.text(1).map(<[u8]>::to_vec) else {
        return Err(raise(stack, b"ERR first argument to redis.register_function must be a string"));
    };
    if stack.kind(2) != LuaKind::Function {
        return Err(raise(stack, b"ERR second argument to redis.register_function must be a function"));
    }
    stack.push_copy(2)?;
    Ok(Wanted { name, ..Wanted::default() })
}

fn read_named(stack: &mut Stack<'_>) -> Result<Wanted, Failure> {
    if stack.kind(1) != LuaKind::Table {
        let text = b"ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).";
        return Err(raise(stack, text));
    }
    let (mut wanted, mut name) = (Wanted::default(), None);
    // A slot for the callback, below the keys and values of the iteration.
    stack.push_nil()?;
    let callback = stack.top();
    stack.push_nil()?;
    while stack.next(1)? {
        let key = match stack.kind(-2) {
            LuaKind::String => {
                stack.bytes(-2).map(error::until_zero).unwrap_or_default().to_ascii_lowercase()
            }
            LuaKind::Number => Vec::new(),
            _ => {
                let text = b"ERR named argument key given to redis.register_function is not a string";
                return Err(raise(stack, text));
            }
        };
        let text = || stack.text(-1).map(<[u8]>::to_vec);
        let problem: Option<&[u8]> = match &key[..] {
            b"function_name" => {
                name = text();
                name.is_none().then_some(
                    b"ERR function_name argument given to redis.register_function must be a string",
                )
            }
            b"description" => {
                wanted.description = text();
                (wanted.description.is_none())
                    .then_some(b"ERR description argument given to redis.register_function must be a string")
            }
            b"callback" if stack.kind(-1) == LuaKind::Function => {
                stack.push_copy(-1)?;
                stack.replace(callback);
                None
            }
            b"callback" => Some(b"ERR callback argument given to redis.register_function must be a function"),
            b"flags" if stack.kind(-1) == LuaKind::Table => match read_flags(stack)? {
                Some(flags) => {
                    wanted.flags = flags;
                    None
                }
                None => Some(b"ERR unknown flag given"),
            },
            b"flags" => Some(
                b"ERR flags argument to redis.register_function must be a table representing function flags",
            ),
            _ => Some(b"ERR unknown argument given to redis.register_function"),
        };
        if let Some(problem) = problem {
            return Err(raise(stack, problem));
        }
        stack.pop(1);
    }
    let Some(name) = name else {
        return Err(raise(stack, b"ERR redis.register_function must get a function name argument"));
    };
    if stack.kind(callback) != LuaKind::Function {
        return Err(raise(stack, b"ERR redis.register_function must get a callback argument"));
    }
    Ok(Wanted { name, ..wanted })
}

/// Parses the flags in the table on top; `None` if one is unknown.
fn read_flags(stack: &mut Stack<'_>) -> Result<Option<Flags>, Failure> {
    let (table, mut flags) = (stack.top(), Flags::default());
    for position in 1.. {
        stack.get_item(table, position)?;
        let is_end = stack.kind(-1) == LuaKind::Nil;
        let name = stack.bytes(-1).map(|name| error::until_zero(name).to_ascii_lowercase());
        stack.pop(1);
        if is_end {
            break;
        }
        let Some(flag) = name.as_deref().and_then(|name| flags.named(name)) else { return Ok(None) };
        *flag = true;
    }
    Ok(Some(flags))
}
