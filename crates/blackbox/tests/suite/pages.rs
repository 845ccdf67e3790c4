//! The command lines in the documentation work when users copy them.
//!
//! The `sh` blocks of a section (from one `##` heading to the next) are one script, which bash runs with real servers. A
//! comment that begins with `<!-- run` is part of it: it prepares, checks or replaces commands, and readers do not see it.
//! Each script gets its own folders in place of `/var`, `/etc` and `/backup`, and free ports in place of those on the page. It
//! stops at the first command that fails. Servers that it leaves running are ended with it.
//!
//! Not here: blocks in other languages (`console`, `text`), which need root, a service manager or other machines.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use blackbox::{Scratch, Signal, binary, free_port};
use rustix::process::{Pid, kill_process_group};

/// The ports on the pages.
const PORTS: [&str; 5] = ["26379", "6379", "6380", "7000", "8379"];
/// System folders on the pages.
const FOLDERS: [&str; 3] = ["/var/", "/etc/", "/backup/"];
/// A script that hangs is ended after this many seconds.
const SECONDS_MAX: &str = "300";
/// The beginning of every script: it ends at the first error.
const HEAD: &str = "set -euo pipefail\n";

/// The title of a section, and its script.
type Section = (String, String);

/// The sections of a page that have something to run.
fn sections(page: &str) -> Vec<Section> {
    let mut sections = vec![(String::from("the beginning"), String::new())];
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let end = match line {
            "```sh" => "```",
            "<!-- run" => "-->",
            _ => {
                if let Some(title) = line.strip_prefix("## ") {
                    sections.push((title.to_owned(), String::new()));
                }
                continue;
            }
        };
        let script = &mut sections.last_mut().expect("there is one from the start").1;
        for line in lines.by_ref().take_while(|line| *line != end) {
            script.push_str(line);
            script.push('\n');
        }
    }
    sections.retain(|(_, script)| !script.is_empty());
    sections
}

/// The script with its own folders and ports.
fn moved(script: &str, folder: &Scratch) -> String {
    let mut script = script.to_owned();
    for name in FOLDERS {
        script = script.replace(name, &folder.path(&name[1..]));
        fs::create_dir_all(folder.path(&name[1..])).expect("the scratch directory can be written to");
    }
    // In two steps, because the digits of a free port may contain another port of the page.
    for (index, port) in PORTS.iter().enumerate() {
        script = script.replace(port, &format!("@port {index}@"));
    }
    for index in 0..PORTS.len() {
        let port = free_port().expect("a port is free").to_string();
        script = script.replace(&format!("@port {index}@"), &port);
    }
    script
}

fn run(title: &str, script: &str) {
    let folder =
        Scratch::new(&format!("page-{}", title.replace(|letter: char| !letter.is_alphanumeric(), "-")));
    let programs = folder.path("bin");
    fs::create_dir_all(&programs).expect("the scratch directory can be written to");
    let darter = binary().unwrap_or_else(|error| panic!("{error}"));
    let link = Path::new(&programs).join("darter");
    std::os::unix::fs::symlink(darter, link).expect("the scratch directory can be written to");
    let script = folder.file("script", &format!("{HEAD}{}", moved(script, &folder)));
    let search = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let told = folder.path("told");
    let file = File::create(&told).expect("the scratch directory can be written to");
    let mut child = Command::new("timeout")
        .args(["-k", "5", SECONDS_MAX, "bash", "-x", &script])
        .current_dir(folder.path(""))
        .env("PATH", search)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("the file can be opened twice"))
        .stderr(file)
        .spawn()
        .expect("there is bash");
    let status = child.wait().expect("it is our child");
    // The servers that it started are in its process group. There may be none.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    assert!(status.success(), "{title}: {status}\n{}", fs::read_to_string(&told).unwrap_or_default());
}

fn run_all(page: &str) {
    let has_redis = Command::new("redis-server").arg("--version").output().is_ok();
    if !has_redis && std::env::var("CI").as_deref() != Ok("true") {
        println!("SKIPPED: redis-server is not installed");
        return;
    }
    let sections = sections(page);
    assert!(!sections.is_empty(), "there is nothing to run");
    for (title, script) in sections {
        println!("--- {title}");
        run(&title, &script);
    }
}

#[test]
fn the_ways_from_redis_and_back_work() {
    run_all(include_str!("../../../../docs/moving-from-redis.md"));
}

#[test]
fn what_operators_do_works() {
    run_all(include_str!("../../../../docs/running.md"));
}

#[test]
fn what_users_of_job_systems_look_at_is_there() {
    run_all(include_str!("../../../../docs/for-your-job-system.md"));
}
