//! The page `docs/commands.md`, made of the entries.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use command::{Arg, ArgKind, Command, Table};

/// The whole page, in Markdown: a table for each group of commands.
pub fn page(table: &Table) -> String {
    let mut groups: BTreeMap<&str, Vec<&Command>> = BTreeMap::new();
    for command in table.all() {
        let is_container = table.subcommands(command).next().is_some();
        if !is_container || matches!(command.entry.run, command::Run::Function(_)) {
            groups.entry(command.entry.group.name()).or_default().push(command);
        }
    }
    let count: usize = groups.values().map(Vec::len).sum();
    let mut page = format!(
        "# Commands\n\nAll {count} commands, made from their declarations by a test of the `server` crate: run its tests \
         with\n`DARTER_UPDATE=1` to write this page anew. Every command and subcommand of Redis 7.2 is among them. Where the last\n\
         column is empty, a command does what it does in Redis; what deliberately differs in general is in\n\
         [differences.md](differences.md).\n"
    );
    for (group, mut commands) in groups {
        commands.sort_by(|a, b| a.full_name.cmp(&b.full_name));
        let _ = write!(
            page,
            "\n## {group}\n\n| Command | What it does | Complexity | Since | Unlike Redis |\n|---|---|---|---|---|\n"
        );
        for command in commands {
            let entry = command.entry;
            let name = command.full_name.replace('|', " ").to_uppercase();
            let usage = format!("{name}{}", usage(entry.args, " ")).replace('|', "\\|");
            let (summary, complexity) =
                (entry.summary.replace('|', "\\|"), entry.complexity.replace('|', "\\|"));
            let _ =
                writeln!(page, "| `{usage}` | {summary} | {complexity} | {} | {} |", entry.since, entry.note);
        }
    }
    page
}

/// Arguments as redis-cli hints at them, each preceded by a space, or with `separator` between them.
fn usage(args: &[Arg], separator: &str) -> String {
    let shown: Vec<String> = args.iter().map(argument).collect();
    let lead = if separator == " " && !shown.is_empty() { " " } else { "" };
    format!("{lead}{}", shown.join(separator))
}

fn argument(arg: &Arg) -> String {
    let value = match arg.kind {
        ArgKind::PureToken => String::new(),
        ArgKind::OneOf => usage(arg.args, " | ").replace(" | ", "|"),
        ArgKind::Block => usage(arg.args, " ").trim_start().to_owned(),
        ArgKind::String
        | ArgKind::Integer
        | ArgKind::Double
        | ArgKind::Key
        | ArgKind::Pattern
        | ArgKind::UnixTime => arg.display.unwrap_or(arg.name).to_owned(),
    };
    let value = if arg.kind == ArgKind::OneOf && !arg.optional { format!("<{value}>") } else { value };
    let token = arg.token.map(|token| if token.is_empty() { "\"\"" } else { token });
    let one = [token.unwrap_or_default(), &value].join(" ").trim().to_owned();
    let shown = match (arg.multiple, arg.multiple_token) {
        (true, true) => format!("{one} [{one} ...]"),
        (true, false) => format!("{one} [{value} ...]"),
        (false, _) => one,
    };
    if arg.optional { format!("[{shown}]") } else { shown }
}
