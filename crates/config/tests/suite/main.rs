//! Settings as a whole: any bytes as a configuration, and the page of settings.

mod checks;
mod hostile_input;
mod page;
