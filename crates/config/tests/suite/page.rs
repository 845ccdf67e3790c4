//! `docs/settings.md` is made from the table of settings.
#![allow(clippy::unwrap_used, reason = "tests")]

use config::TABLE;

/// The page `docs/settings.md`.
fn page() -> String {
    format!(
        "# Settings\n\nMade from `crates/config/src/settings/table.rs` by a test; do not edit.\n\n\
         Each is a line `name value` of the configuration file, a flag `--name value` of the command line, and a parameter \
         of `CONFIG GET`. In names, `-` and `_` are alike, so the older spelling `proactor_threads` still works. Settings \
         marked *start* cannot be changed by `CONFIG SET`. In a container, set the environment variable `DARTER_SET_` and the name in \
         capitals with `_` for `-`, as in `DARTER_SET_MAXMEMORY_POLICY=noeviction`; its value is what `CONFIG SET` takes. Flags win \
         over the environment, and that over the file.\n\
         {}\n## Ignored\n\nDirectives of Redis and Valkey that are accepted and shown by `CONFIG GET`, but have no effect: {}.\n\
         \n## Refused\n\nThese would promise something that Darter does not have. With any value but the default the server does not \
         start, and `CONFIG SET` refuses it; likewise `loadmodule`.\n\n{}",
        TABLE.page(),
        TABLE.page_of_foreign(),
        TABLE.page_of_refused()
    )
}

#[test]
fn the_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    if std::env::var_os("DARTER_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(), "run the tests with DARTER_WRITE_DOCS=1 to write docs/settings.md anew");
}
