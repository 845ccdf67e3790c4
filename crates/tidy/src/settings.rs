//! Every setting has an effect: something reads it.
//!
//! A setting that nothing reads is a promise that is not kept. Those that refuse every value but one make no promise.

use std::collections::BTreeSet;

use crate::none;
use crate::sources::{Source, production};

/// The names that a file uses outside `use` statements.
fn names(source: &Source) -> BTreeSet<&str> {
    let mut is_import = false;
    let named = source.tokens.iter().filter(|token| {
        let was_import = is_import;
        is_import = token.as_str() == "use" || is_import && token.as_str() != ";";
        !is_import && !was_import
    });
    named.map(String::as_str).collect()
}

/// The settings that a file declares, except for those that are refused.
fn declared(source: &Source) -> Vec<&str> {
    let starts = source.tokens.windows(4).enumerate().filter_map(|(place, words)| {
        (words[1..] == ["=", "Setting", "{"]).then_some((place, words[0].as_str()))
    });
    let starts: Vec<_> = starts.collect();
    let ends = starts.iter().skip(1).map(|(place, _)| *place).chain([source.tokens.len()]);
    let blocks = starts.iter().zip(ends).map(|((place, name), end)| (*name, &source.tokens[*place..end]));
    blocks.filter(|(_, block)| !block.iter().any(|word| word == "refused")).map(|(name, _)| name).collect()
}

#[test]
fn every_setting_is_read() {
    let sources = production();
    let is_table = |source: &&Source| source.krate == "config" && source.path.starts_with("settings/table");
    let read: BTreeSet<&str> = sources.iter().filter(|source| !is_table(source)).flat_map(names).collect();
    let settings: Vec<&str> = sources.iter().filter(is_table).flat_map(declared).collect();
    assert!(settings.len() > 100, "they are found: {}", settings.len());
    let unread: Vec<String> =
        settings.iter().filter(|name| !read.contains(*name)).map(|name| (*name).to_owned()).collect();
    none("settings that nothing reads", &unread);
}

/// Some settings are read through a method of the settings.
#[test]
fn every_method_of_the_settings_is_called() {
    let sources = production();
    let is_values = |source: &&Source| source.krate == "config" && source.path == "settings/values.rs";
    let values = sources.iter().find(is_values).expect("there are values");
    let methods: Vec<&str> = values
        .tokens
        .windows(6)
        .filter(|words| words[..2] == ["pub", "fn"] && words[3..] == ["(", "&", "self"])
        .map(|words| words[2].as_str())
        .collect();
    assert!(methods.len() > 20, "they are found: {}", methods.len());
    let called: BTreeSet<&str> = sources
        .iter()
        .flat_map(|source| source.tokens.windows(3))
        .filter(|words| words[0] == "." && words[2] == "(")
        .map(|words| words[1].as_str())
        .collect();
    let uncalled: Vec<String> =
        methods.iter().filter(|name| !called.contains(*name)).map(|name| (*name).to_owned()).collect();
    none("methods of the settings that nothing calls", &uncalled);
}
