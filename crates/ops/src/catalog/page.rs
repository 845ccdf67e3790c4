//! The page `docs/commands.md`, derived from the entries and from the page about differences.
//!
//! Not here: what the commands do in detail. For commands of Redis the page links to its documentation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use engine::{Arg, ArgKind, Command, Group, Table};

/// The address of Redis' documentation.
const REDIS_DOCS: &str = "https://redis.io/docs/latest/commands";
/// The head of each family's table.
const HEAD: &str = "| Command | What it does | Complexity | Since | Unlike Redis |\n|---|---|---|---|---|\n";
/// Arguments up to this length are written twice to show that they may be repeated.
const REPEATED_LEN_MAX: usize = 30;

/// A family's heading and purpose.
fn family(group: Group) -> (&'static str, &'static str) {
    match group {
        Group::Bitmap => ("Bitmaps", "strings as arrays of bits"),
        Group::Bloom => ("Bloom filters", "was this item added? Versions are those of RedisBloom"),
        Group::Cluster => {
            ("Cluster", "what a client of a cluster asks; Darter emulates a cluster of one node")
        }
        Group::Connection => {
            ("Connections", "authentication, the protocol's version, the clients of the server")
        }
        Group::CountMin => ("Count-min sketches", "how often was it added? Versions are those of RedisBloom"),
        Group::Cuckoo => {
            ("Cuckoo filters", "the same, and items can be deleted. Versions are those of RedisBloom")
        }
        Group::Generic => ("Keys", "any key, whatever its type: expiry, names, copies, scans"),
        Group::Geo => ("Geospatial indexes", "sorted sets of places"),
        Group::Hash => ("Hashes", "fields and values, and fields that expire"),
        Group::HyperLogLog => ("HyperLogLogs", "approximate counts of distinct elements"),
        Group::List => ("Lists", "sequences; most queues are lists"),
        Group::PubSub => ("Publish and subscribe", "messages to subscribed clients"),
        Group::Queue => ("Queues", "Darter's own: [what it knows of queues](queues.md)"),
        Group::Scripting => ("Scripts and functions", "Lua on the server"),
        Group::Server => ("Server", "configuration, users, saving, replication, statistics"),
        Group::Set => ("Sets", "distinct members without an order"),
        Group::SortedSet => ("Sorted sets", "distinct members ordered by a score"),
        Group::Stream => ("Streams", "logs of entries with consumer groups"),
        Group::String => ("Strings", "values, counters and parts of them"),
        Group::TDigest => ("t-digests", "quantiles and ranks of numbers. Versions are those of RedisBloom"),
        Group::TopK => ("Top-k sketches", "the most frequent items. Versions are those of RedisBloom"),
        Group::Transactions => ("Transactions", "several commands as one"),
    }
}

/// The page in Markdown: an overview, and a table for each family. `differences` is the text of `docs/differences.md`.
/// Commands are linked to the sections that name them.
pub fn page(table: &Table, differences: &str) -> String {
    let mut families: BTreeMap<&str, (Group, Vec<&Command>)> = BTreeMap::new();
    for command in table.all() {
        let is_container = table.subcommands(command).next().is_some();
        if !is_container || matches!(command.entry.run, engine::Run::Function(_)) {
            let group = command.entry.group;
            families.entry(family(group).0).or_insert((group, Vec::new())).1.push(command);
        }
    }
    let sections = Sections::of(differences);
    let count: usize = families.values().map(|(_, commands)| commands.len()).sum();
    let mut page = format!(
        "# Commands\n\nA test of the `server` crate makes this page from the declarations of the commands; do not edit it. Run the \
         tests with\n`DARTER_UPDATE=1` to write it anew.\n\nDarter has {count} commands: all commands and subcommands of Redis 7.2, \
         some of later versions, and its own.\n\n- A command does what it does in Redis 7.2 where the column *Unlike Redis* is \
         empty. Elsewhere it\n  says what differs, or links to the parts of [differences.md](differences.md) that mention the command.\n\
         - *Since* is the version of Redis that introduced the command, and links to its documentation. A version after 7.2 \
         is\n  a command that Redis 7.2 does not have. Other commands are not Redis'.\n- Modules cannot be loaded, \
         and there is no cluster.\n\n| Family | Commands | For |\n|---|--:|---|\n"
    );
    for (title, (group, commands)) in &families {
        let anchor = anchor(title);
        let _ = writeln!(page, "| [{title}](#{anchor}) | {} | {} |", commands.len(), family(*group).1);
    }
    for (title, (_, mut commands)) in families {
        commands.sort_by(|a, b| a.full_name.cmp(&b.full_name));
        let _ = write!(page, "\n## {title}\n\n{HEAD}");
        for command in commands {
            row(&mut page, command, &sections);
        }
    }
    page
}

fn row(page: &mut String, command: &Command, sections: &Sections) {
    let entry = command.entry;
    let words = command.full_name.replace('|', " ");
    let name = words.to_uppercase();
    let usage = format!("{name}{}", usage(entry.args, " ")).replace('|', "\\|");
    let (summary, complexity) = (entry.summary.replace('|', "\\|"), entry.complexity.replace('|', "\\|"));
    let is_of_redis = !entry.since.is_empty() && entry.group != Group::Queue;
    let since = match is_of_redis {
        true => format!("[{}]({REDIS_DOCS}/{}/)", entry.since, words.replace(' ', "-")),
        false => "Darter".to_owned(),
    };
    let mut unlike: Vec<String> = Vec::new();
    if !entry.note.is_empty() {
        unlike.push(entry.note.to_owned());
    }
    unlike.extend(sections.naming(&name));
    let unlike = unlike.join("; ");
    let _ = writeln!(page, "| `{usage}` | {summary} | {complexity} | {since} | {unlike} |");
}

/// The sections of `docs/differences.md`: the heading of each, and the code spans in it.
struct Sections<'t>(Vec<(&'t str, Vec<&'t str>)>);

impl<'t> Sections<'t> {
    fn of(page: &'t str) -> Sections<'t> {
        let parts = page.split("\n## ").skip(1).filter_map(|part| part.split_once('\n'));
        // These sections are about memcached's commands.
        let parts = parts.filter(|(heading, _)| !heading.starts_with("memcached"));
        Sections(
            parts.map(|(heading, text)| (heading, text.split('`').skip(1).step_by(2).collect())).collect(),
        )
    }

    /// Links to sections with a code span that begins with this command.
    fn naming(&self, name: &str) -> impl Iterator<Item = String> {
        let names = move |span: &str| {
            span.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\n']))
        };
        let sections = self.0.iter().filter(move |(_, spans)| spans.iter().any(|span| names(span)));
        sections.map(|(heading, _)| format!("[{heading}](differences.md#{})", anchor(heading)))
    }
}

/// A heading's anchor, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Arguments in the notation of redis-cli's hints, each after a space, or with `separator` between them.
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
        (true, true) if one.len() > REPEATED_LEN_MAX => format!("{one} [...]"),
        (true, true) => format!("{one} [{one} ...]"),
        (true, false) if value.len() > REPEATED_LEN_MAX => format!("{one} [...]"),
        (true, false) => format!("{one} [{value} ...]"),
        (false, _) => one,
    };
    if arg.optional { format!("[{shown}]") } else { shown }
}
