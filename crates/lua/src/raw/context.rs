//! The Rust side's data of one Lua state, reachable from every callback.
//!
//! Lua passes a callback only a state pointer. The way back is the pointer that was given to Lua's memory
//! function: it points to the [`Heap`], which is the first field of the [`Context`]. This works in
//! coroutines, too, and costs one call.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::{NonNull, null};

use super::heap::Heap;
use super::lua::Lua;
use crate::host::{Host, Interrupt};
use crate::pattern::Matcher;
use crate::random::Random;
use crate::registry::Registry;
use crate::steps::STEP_COUNT;

/// Buffers of `redis.call`, reused by all calls.
#[derive(Default)]
pub(super) struct Exchange {
    /// The host writes its reply here.
    pub(super) output: resp::Output,
    /// The reply in one piece, if the output has it in several.
    pub(super) joined: Vec<u8>,
    /// Arguments that are numbers, as text.
    pub(super) numbers: Vec<u8>,
}

/// The kind of code that is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Running {
    Script,
    Function,
    /// The code of a library, which registers its functions.
    Library,
}

/// The Rust side of one state.
#[repr(C)]
pub(super) struct Context {
    // Must be first: see the head of the file.
    pub(super) heap: Heap,
    host: Cell<Option<NonNull<dyn Host>>>,
    pub(super) running: Cell<Running>,
    /// The functions registered by the library that is being loaded.
    pub(super) registry: RefCell<Option<Registry>>,
    /// Set once the script must end. From then on, every hook and call raises.
    pub(super) interrupt: Cell<Option<Interrupt>>,
    /// Whether the script called `redis.setresp(3)`.
    pub(super) is_resp3: Cell<bool>,
    /// Whether a script has called `collectgarbage`.
    pub(super) collector_was_set: Cell<bool>,
    /// The address of the fields of tables that have never had any ([`fields`](super::layout::fields)).
    pub(super) no_fields: Cell<*const c_void>,
    pub(super) random: Random,
    pub(super) exchange: RefCell<Exchange>,
    /// Steps of native functions until the host is asked again.
    pub(super) steps_left: Cell<i64>,
    pub(super) matcher: RefCell<Matcher>,
    /// Results of running `gsub` calls, and how many of these bytes belong to calls that still run. See
    /// `patterns`.
    pub(super) replaced: RefCell<Vec<u8>>,
    pub(super) replaced_bytes: Cell<usize>,
}

impl Context {
    pub(super) fn new(memory_bytes_max: usize) -> Context {
        Context {
            heap: Heap::new(memory_bytes_max),
            host: Cell::new(None),
            running: Cell::new(Running::Script),
            registry: RefCell::new(None),
            interrupt: Cell::new(None),
            is_resp3: Cell::new(false),
            collector_was_set: Cell::new(false),
            no_fields: Cell::new(null()),
            random: Random::default(),
            exchange: RefCell::default(),
            steps_left: Cell::new(STEP_COUNT),
            matcher: RefCell::default(),
            replaced: RefCell::default(),
            replaced_bytes: Cell::new(0),
        }
    }

    /// The context of a live state.
    #[inline]
    pub(super) fn of<'a>(lua: Lua) -> &'a Context {
        // SAFETY: every state is opened over the heap of a boxed context, which outlives it; the heap is the
        // first field.
        unsafe { &*lua.heap().cast::<Context>() }
    }

    /// Runs `body`, which catches errors of scripts. Discards the results of `gsub` calls that an error ended
    /// in it.
    #[inline]
    pub(super) fn catch<R>(&self, body: impl FnOnce() -> R) -> R {
        let before_bytes = self.replaced_bytes.get();
        let result = body();
        self.replaced_bytes.set(before_bytes);
        result
    }

    /// Runs `body` while callbacks can ask `host`.
    pub(super) fn with_host<R>(&self, host: &mut dyn Host, body: impl FnOnce() -> R) -> R {
        /// Removes the host even if `body` panics.
        struct Leave<'a>(&'a Context);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.host.set(None);
            }
        }
        let pointer: NonNull<dyn Host + '_> = NonNull::from(host);
        // SAFETY: only the lifetime changes; `Leave` takes the pointer away before the borrow ends.
        let pointer = unsafe { std::mem::transmute::<NonNull<dyn Host + '_>, NonNull<dyn Host>>(pointer) };
        self.host.set(Some(pointer));
        let _leave = Leave(self);
        body()
    }

    /// Calls `body` with the host of the running script; `None` if no script runs.
    #[inline]
    pub(super) fn ask_host<R>(&self, body: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        // Taken out for the duration, so that there are never two exclusive borrows.
        let mut host = self.host.take()?;
        // SAFETY: `with_host` holds the borrow that this pointer came from, and no one else has the pointer
        // now.
        let answer = body(unsafe { host.as_mut() });
        self.host.set(Some(host));
        Some(answer)
    }
}
