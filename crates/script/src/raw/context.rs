//! What the Rust side of one Lua state remembers, reachable from every callback.
//!
//! Lua hands a callback nothing but a state pointer. The pointer given to its memory function is the way
//! back: it points to the [`Heap`], which is the first field of the [`Context`]. So it works in coroutines
//! too, and costs one call.

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

/// Buffers of `redis.call`, kept from call to call.
#[derive(Default)]
pub(super) struct Exchange {
    /// Where the host writes its reply.
    pub(super) output: resp::Output,
    /// The reply in one piece, when the output holds it in several.
    pub(super) joined: Vec<u8>,
    /// Numbers among the arguments, as text.
    pub(super) numbers: Vec<u8>,
}

/// What runs.
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
    // First: see the head of the file.
    pub(super) heap: Heap,
    host: Cell<Option<NonNull<dyn Host>>>,
    pub(super) running: Cell<Running>,
    /// What the library that is loaded has registered.
    pub(super) registry: RefCell<Option<Registry>>,
    /// Set once the script must end; from then on every hook and call raises.
    pub(super) interrupt: Cell<Option<Interrupt>>,
    /// Whether `redis.setresp(3)` holds.
    pub(super) is_resp3: Cell<bool>,
    /// Whether a script has said something to the garbage collector.
    pub(super) collector_was_set: Cell<bool>,
    /// Where the fields of tables that never had any lie ([`fields`](super::layout::fields)).
    pub(super) no_fields: Cell<*const c_void>,
    pub(super) random: Random,
    pub(super) exchange: RefCell<Exchange>,
    /// Steps of native functions until the host is asked again.
    pub(super) steps_left: Cell<i64>,
    pub(super) matcher: RefCell<Matcher>,
    /// What calls of `gsub` have made so far, and how much of it belongs to calls that run. See `patterns`.
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

    /// Runs `body`, which catches errors of scripts: whatever was given up in it is forgotten.
    #[inline]
    pub(super) fn catch<R>(&self, body: impl FnOnce() -> R) -> R {
        let before_bytes = self.replaced_bytes.get();
        let result = body();
        self.replaced_bytes.set(before_bytes);
        result
    }

    /// Runs `body` with `host` in place for the callbacks.
    pub(super) fn with_host<R>(&self, host: &mut dyn Host, body: impl FnOnce() -> R) -> R {
        /// Takes the host away also when `body` panics.
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

    /// Lets `body` ask the host of the running script; `None` when no script runs.
    #[inline]
    pub(super) fn ask_host<R>(&self, body: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
        // Taken out meanwhile, so that two exclusive borrows cannot come about.
        let mut host = self.host.take()?;
        // SAFETY: `with_host` holds the borrow that this pointer came from, and no one else has the pointer
        // now.
        let answer = body(unsafe { host.as_mut() });
        self.host.set(Some(host));
        Some(answer)
    }
}
