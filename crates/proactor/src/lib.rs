//! One thread's loop.
