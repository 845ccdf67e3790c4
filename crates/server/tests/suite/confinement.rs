//! A server whose surroundings forbid or limit something: system calls, processors, processor time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use blackbox::{Scratch, Server, eventually, free_port};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// `@privileged` and `@resources`, as `systemd-analyze syscall-filter` lists them: what Debian's
/// `redis-server.service` takes out of `@system-service`.
const FORBIDDEN: &[i64] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_acct,
    libc::SYS_bpf,
    libc::SYS_capset,
    libc::SYS_chroot,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_setdomainname,
    libc::SYS_setfsuid,
    libc::SYS_setgroups,
    libc::SYS_sethostname,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_setuid,
    libc::SYS_vhangup,
    libc::SYS_ioprio_set,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_setpriority,
    libc::SYS_setrlimit,
];
/// Further system calls, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const FORBIDDEN_OF_OLD: &[i64] =
    &[libc::SYS_chown, libc::SYS_lchown, libc::SYS__sysctl, libc::SYS_ioperm, libc::SYS_iopl];
#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_OF_OLD: &[i64] = &[];

/// Starts a server that dies if it makes one of these system calls.
fn start_filtered(options: Vec<String>) -> Server {
    let calls = [FORBIDDEN, FORBIDDEN_OF_OLD].concat();
    let filter: BpfProgram = SeccompFilter::new(
        calls.into_iter().map(|call| (call, Vec::new())).collect::<BTreeMap<_, _>>(),
        SeccompAction::Allow,
        SeccompAction::KillProcess,
        std::env::consts::ARCH.try_into().expect("a known architecture"),
    )
    .and_then(TryInto::try_into)
    .expect("a filter");
    // The filter applies to this thread and to its children.
    let filtered = std::thread::spawn(move || {
        apply_filter(&filter).expect("filters may be set");
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Server::darter(&options).unwrap_or_else(|error| panic!("{error}"))
    });
    filtered.join().expect("no assertion failed")
}

#[test]
fn the_system_calls_that_a_unit_file_forbids_are_not_made() {
    for io in ["auto", "epoll"] {
        let scratch = Scratch::new("filtered");
        let options: &[&[&str]] = &[
            &["--dir", &scratch.path("")],
            &["--unixsocket", &scratch.path("socket"), "--unixsocketperm", "770"],
            &["--pidfile", &scratch.path("pid"), "--logfile", &scratch.path("log")],
            &["--io", io, "--save", "3600 1"],
        ];
        let mut server = start_filtered(options.concat().into_iter().map(str::to_owned).collect());
        let mut client = server.client();
        for request in ["SET k v", "CONFIG SET maxclients 2000", "SAVE", "BGSAVE", "MEMORY PURGE", "INFO all"]
        {
            let reply = client.show(request);
            assert!(!reply.starts_with("(error)"), "{request}: {reply}");
        }
        eventually("the snapshot is written", || client.info("persistence", "rdb_bgsave_in_progress") == "0");
        client.send("SHUTDOWN");
        client.expect_end();
        assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    }
}

/// The processors that `/proc` shows for each thread that serves.
fn processors_of_threads(server: &Server) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process_id())).expect("it runs");
    let mut found = Vec::new();
    for task in tasks {
        let task = task.expect("a thread").path();
        let name = fs::read_to_string(task.join("comm")).expect("a name");
        if name.starts_with("darter-") {
            let status = fs::read_to_string(task.join("status")).expect("a status");
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            found.push(line.expect("a list").trim().to_owned());
        }
    }
    found
}

/// The processors of this process, as `/proc` shows them and one by one.
fn own_processors() -> (String, Vec<usize>) {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line =
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list").trim();
    let numbers = line.split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().expect("a number")..=last.parse().expect("a number")
    });
    (line.to_owned(), numbers.collect())
}

#[test]
fn no_thread_could_get_more_rights() {
    let server = Server::start(2, "auto", &["--http-port", &free_port().unwrap().to_string()]);
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process_id())).expect("it runs");
    for task in tasks {
        let status = fs::read_to_string(task.expect("a thread").path().join("status")).expect("a status");
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    }
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(server.log().contains("the server runs as root"), is_root, "{}", server.log());
}

#[test]
fn the_kernel_places_the_threads_unless_told_otherwise() {
    let (all, each) = own_processors();
    let server = Server::start(2, "auto", &[]);
    assert_eq!(processors_of_threads(&server), [all.clone(), all]);
    let last = each.last().expect("there is one").to_string();
    let server = Server::start(2, "auto", &["--server_cpulist", &last]);
    assert_eq!(processors_of_threads(&server), [last.clone(), last.clone()]);
    let mut client = server.client();
    assert!(client.show("CONFIG GET server_cpulist").contains(&last));
    let server = Server::start(each.len(), "auto", &["--pin"]);
    let mut pinned = processors_of_threads(&server);
    pinned.sort_by_key(|cpu| cpu.parse::<usize>().expect("one processor"));
    assert_eq!(pinned, each.iter().map(usize::to_string).collect::<Vec<_>>());
    // A number of threads that is not set follows the list, too.
    let server = Server::darter(&["--server_cpulist", &last]).unwrap();
    assert_eq!(server.client().info("server", "threads"), "1");
}

#[test]
fn a_list_of_processors_that_is_none_is_refused() {
    let output = blackbox::run(&[], &["--port", "0", "--server_cpulist", "1-0"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.starts_with("darter: bad value '1-0' for 'server_cpulist' on the command line: "), "{text}");
}

/// Starts a server as `script` (for sh) prepares its surroundings; its thread count and why.
fn threads_after(script: &str) -> Option<(String, String)> {
    let script = format!("set -e; {script}; exec \"$@\"");
    let server =
        Server::launch(&["unshare", "--mount", "sh", "-c", &script, "sh"], &["--proactor-threads=0"]);
    match server {
        Ok(server) => Some((server.client().info("server", "threads"), server.log())),
        Err(error) if std::env::var("CI").as_deref() != Ok("true") => {
            println!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[track_caller]
fn check_quota(script: &str, expected: usize) {
    let allowed = own_processors().1.len();
    let Some((threads, log)) = threads_after(script) else { return };
    let shown = match expected < allowed {
        true => format!("{expected} threads (the CPU quota of the control group, with {allowed} processors"),
        false => format!("{allowed} threads (as many as processors this process may use)"),
    };
    assert_eq!(threads, expected.min(allowed).to_string(), "{log}");
    assert!(log.contains(&shown), "{shown}: {log}");
}

#[test]
fn as_many_threads_as_a_quota_of_control_groups_pays_for() {
    let fake = "mount -t tmpfs none /sys/fs/cgroup; cd /sys/fs/cgroup";
    let show = "mount --bind /sys/fs/cgroup/self /proc/$$/cgroup; cd /";
    // Version 2: the quota of a group above counts too; half a processor more makes no thread more.
    check_quota(
        &format!(
            "{fake}; mkdir -p a/b; touch a/b/cgroup.controllers; echo max 100000 > a/b/cpu.max; \
             echo 150000 100000 > a/cpu.max; echo 0::/a/b > self; {show}"
        ),
        1,
    );
    check_quota(
        &format!("{fake}; touch cgroup.controllers; echo max 100000 > cpu.max; echo 0::/ > self; {show}"),
        usize::MAX,
    );
    // Version 1.
    check_quota(
        &format!(
            "{fake}; mkdir -p cpu/a; echo 50000 > cpu/a/cpu.cfs_quota_us; echo 100000 > cpu/a/cpu.cfs_period_us; \
             echo 4:cpu,cpuacct:/a > self; {show}"
        ),
        1,
    );
}

#[test]
fn a_real_control_group_counts() {
    for (folder, prepare, is_there) in [
        ("/sys/fs/cgroup/cpu", "echo 100000 > cpu.cfs_quota_us", "cpu.cfs_quota_us"),
        ("/sys/fs/cgroup", "echo 100000 100000 > cpu.max", "cpu.max"),
    ] {
        let group = format!("{folder}/darter-{}", std::process::id());
        if fs::create_dir(&group).is_err() {
            continue;
        }
        if Path::new(&group).join(is_there).exists() {
            check_quota(&format!("cd {group}; {prepare}; echo $$ > cgroup.procs; cd /"), 1);
        }
        // The kernel needs a moment after the last process has gone.
        eventually("the group is empty", || fs::remove_dir(&group).is_ok());
    }
}
