//! The library `cjson`: JSON after Lua CJSON 2.1.0, with the defaults that Redis builds it with.
//!
//! Each instance (`cjson` itself, and each result of `cjson.new()`) has its own settings, shared by its
//! functions: packed into a string, which is the only item of the functions' own table.

mod decode;
mod encode;
mod number;

use crate::raw::{Failure, LuaKind, Native, Stack};

/// The deepest nesting under any settings. There is a limit because encoder and decoder recurse.
const NESTING_MAX: i32 = 2000;
/// Most significant digits that fit the C library's number buffer.
const PRECISION_MAX: i32 = 14;

const FUNCTIONS: [(&str, Native); 10] = [
    ("encode", encode::encode),
    ("decode", decode::decode),
    ("encode_sparse_array", encode_sparse_array),
    ("encode_max_depth", |stack| {
        change_integer(stack, |settings| &mut settings.encode_depth_max, 1, i32::MAX)
    }),
    ("decode_max_depth", |stack| {
        change_integer(stack, |settings| &mut settings.decode_depth_max, 1, i32::MAX)
    }),
    ("encode_number_precision", |stack| {
        change_integer(stack, |settings| &mut settings.precision, 1, PRECISION_MAX)
    }),
    ("encode_keep_buffer", |stack| {
        change_choice(stack, |settings| &mut settings.keeps_buffer, &["off", "on"])
    }),
    ("encode_invalid_numbers", |stack| {
        change_choice(stack, |settings| &mut settings.encode_invalid, &["off", "on", "null"])
    }),
    ("decode_invalid_numbers", |stack| {
        change_choice(stack, |settings| &mut settings.decode_invalid, &["off", "on"])
    }),
    ("new", |stack| push_instance(stack).map(|()| 1)),
];

/// The settings of one instance. A choice is an index into its names; "off" is 0 and "on" is 1.
#[derive(Clone, Copy)]
struct Settings {
    sparse_convert: i32,
    /// An array with more than this many positions per item is sparse. 0: none is.
    sparse_ratio: i32,
    /// An array of at most this length is never sparse.
    sparse_safe: i32,
    encode_depth_max: i32,
    decode_depth_max: i32,
    precision: i32,
    /// Stored and reported, but without effect: there is no buffer to keep.
    keeps_buffer: i32,
    /// How numbers that JSON does not have are written.
    encode_invalid: i32,
    decode_invalid: i32,
}

impl Settings {
    const DEFAULT: Settings = Settings {
        sparse_convert: 0,
        sparse_ratio: 2,
        sparse_safe: 10,
        encode_depth_max: 1000,
        decode_depth_max: 1000,
        precision: 14,
        keeps_buffer: 1,
        encode_invalid: 0,
        decode_invalid: 1,
    };

    /// The settings of the running function's instance.
    fn load(stack: &mut Stack<'_>) -> Result<Settings, Failure> {
        stack.push_own_table()?;
        stack.get_item(-1, 1)?;
        let mut words = stack
            .bytes(-1)
            .unwrap_or_default()
            .chunks_exact(4)
            .map(|word| i32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        let mut next = || words.next().expect("`store` wrote every setting");
        let settings = Settings {
            sparse_convert: next(),
            sparse_ratio: next(),
            sparse_safe: next(),
            encode_depth_max: next(),
            decode_depth_max: next(),
            precision: next(),
            keeps_buffer: next(),
            encode_invalid: next(),
            decode_invalid: next(),
        };
        stack.pop(2);
        Ok(settings)
    }

    /// Stores the settings in the table on top.
    fn store(&self, stack: &mut Stack<'_>) -> Result<(), Failure> {
        let words = [
            self.sparse_convert,
            self.sparse_ratio,
            self.sparse_safe,
            self.encode_depth_max,
            self.decode_depth_max,
            self.precision,
            self.keeps_buffer,
            self.encode_invalid,
            self.decode_invalid,
        ];
        stack.push_bytes(words.map(i32::to_ne_bytes).as_flattened())?;
        stack.set_item(-2, 1)
    }

    /// Stores them for the running function's instance.
    fn store_own(&self, stack: &mut Stack<'_>) -> Result<(), Failure> {
        stack.push_own_table()?;
        self.store(stack)?;
        stack.pop(1);
        Ok(())
    }
}

/// Adds `cjson` to the globals on top.
pub(crate) fn install(stack: &mut Stack<'_>) -> Result<(), Failure> {
    push_instance(stack)?;
    stack.set_field(-2, "cjson")
}

/// Pushes a new instance of the library, with default settings.
fn push_instance(stack: &mut Stack<'_>) -> Result<(), Failure> {
    stack.push_table(0, 16)?;
    let library = stack.top();
    stack.push_table(1, 0)?;
    let own = stack.top();
    Settings::DEFAULT.store(stack)?;
    for (name, native) in FUNCTIONS {
        stack.push_copy(own)?;
        stack.push_native(native)?;
        stack.set_field(library, name)?;
    }
    stack.pop(1);
    stack.push_null()?;
    stack.set_field(library, "null")?;
    for (name, text) in [("_NAME", "cjson"), ("_VERSION", "2.1.0")] {
        stack.push_bytes(text.as_bytes())?;
        stack.set_field(library, name)?;
    }
    Ok(())
}

fn check_arg_count(stack: &Stack<'_>, count_max: i32) -> Result<(), Failure> {
    if stack.arg_count() > count_max {
        return Err(Failure::argument(count_max + 1, "found too many arguments"));
    }
    Ok(())
}

fn is_given(stack: &Stack<'_>, position: i32) -> bool {
    position <= stack.arg_count() && stack.kind(position) != LuaKind::Nil
}

/// Reads an integer argument, if given, into `setting`. Errors always name the first argument, as in the
/// original.
fn take_integer(
    stack: &Stack<'_>,
    position: i32,
    setting: &mut i32,
    min: i32,
    max: i32,
) -> Result<(), Failure> {
    if is_given(stack, position) {
        let value = stack.arg_integer(position)? as i32;
        if !(min..=max).contains(&value) {
            return Err(Failure::argument(1, format!("expected integer between {min} and {max}")));
        }
        *setting = value;
    }
    Ok(())
}

/// Reads a boolean or one of `names`, if given, into `setting`.
fn take_choice(stack: &Stack<'_>, position: i32, setting: &mut i32, names: &[&str]) -> Result<(), Failure> {
    if is_given(stack, position) {
        *setting = if stack.kind(position) == LuaKind::Boolean {
            i32::from(stack.boolean(position))
        } else {
            let given = stack.arg_bytes(position)?;
            let index = names.iter().position(|name| name.as_bytes() == given);
            let invalid = || Failure::argument(position, [b"invalid option '", given, b"'"].concat());
            index.ok_or_else(invalid)? as i32
        };
    }
    Ok(())
}

fn change_integer(
    stack: &mut Stack<'_>,
    field: fn(&mut Settings) -> &mut i32,
    min: i32,
    max: i32,
) -> Result<i32, Failure> {
    check_arg_count(stack, 1)?;
    let mut settings = Settings::load(stack)?;
    take_integer(stack, 1, field(&mut settings), min, max)?;
    settings.store_own(stack)?;
    stack.push_number(f64::from(*field(&mut settings)))?;
    Ok(1)
}

fn change_choice(
    stack: &mut Stack<'_>,
    field: fn(&mut Settings) -> &mut i32,
    names: &[&str],
) -> Result<i32, Failure> {
    check_arg_count(stack, 1)?;
    let mut settings = Settings::load(stack)?;
    take_choice(stack, 1, field(&mut settings), names)?;
    settings.store_own(stack)?;
    match *field(&mut settings) {
        choice @ (0 | 1) => stack.push_boolean(choice == 1)?,
        choice => stack.push_bytes(names[choice as usize].as_bytes())?,
    }
    Ok(1)
}

fn encode_sparse_array(stack: &mut Stack<'_>) -> Result<i32, Failure> {
    check_arg_count(stack, 3)?;
    let mut settings = Settings::load(stack)?;
    take_choice(stack, 1, &mut settings.sparse_convert, &["off", "on"])?;
    take_integer(stack, 2, &mut settings.sparse_ratio, 0, i32::MAX)?;
    take_integer(stack, 3, &mut settings.sparse_safe, 0, i32::MAX)?;
    settings.store_own(stack)?;
    stack.push_boolean(settings.sparse_convert == 1)?;
    stack.push_number(f64::from(settings.sparse_ratio))?;
    stack.push_number(f64::from(settings.sparse_safe))?;
    Ok(3)
}

/// Appends a number as Lua prints it.
pub(crate) fn write_number(out: &mut Vec<u8>, number: f64) {
    number::write(out, number, PRECISION_MAX as usize);
}
