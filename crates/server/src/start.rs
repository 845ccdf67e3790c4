//! Starts and stops a server: settings, listeners, threads, signals.
//!
//! Everything that can fail fails before the first thread serves, with a sentence on standard error and exit status 1.
//! `SIGTERM`, `SIGINT` and `SHUTDOWN` end the threads' loops (`shutdown.rs`), which close the server's connections and
//! files.

use std::io;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::UNIX_EPOCH;

use acl::{UserLine, Users};
use agent::{Agent, Joining, ProcessFacts};
use cli::offline::Program;
use clients::{Dealer, Listening, wanted_tls};
use config::{APPENDONLY, DIR, DISABLE_THP, Rename, Settings, StartConfig, TABLE, USER};
use config::{Arguments, Directive, FolderTask, Invocation, WithoutEffect};
use heap::Exempt;
use persistence::save_settings;
use proactor::{Disk, Driver, Waker};
use process::daemon::Background;

use crate::commands::functions::functions;
use crate::error::Error;
use crate::reports::Served;
use crate::shared::{Machine, Shared};
use crate::snapshot::{Loader, loading_progress};
use crate::thread::Thread;
use crate::users::users_at_start;
use crate::version::{self, DARTER_VERSION, REDIS_VERSION};
use process::processors::ThreadCount;
use process::supervisor::Ticker;
use process::{PidFile, arguments, crash, log, processors, supervisor, system};

/// Does what the command line (without the program's name) asks for: it usually runs a server until the server is told
/// to stop.
pub fn run(args: &[String]) -> ExitCode {
    end_on_panic();
    if let Some(status) = cli::run(args) {
        return status;
    }
    let outcome = match Invocation::parse(&TABLE, args) {
        Ok(Invocation::Help) => print(&config::help(&cli::help())),
        Ok(Invocation::Version) => print(&(version::line(arguments::is_called("redis-server")) + "\n")),
        Ok(Invocation::Test(arguments)) => {
            read(arguments).and_then(|(settings, found)| judge(&settings, &found))
        }
        Ok(Invocation::Folder(task)) => match run_offline(&task) {
            Ok(status) => return status,
            Err(error) => Err(error),
        },
        Ok(Invocation::Serve(arguments)) => {
            let hidden = arguments::hide(args, &config::secret_arguments(&TABLE, &[USER], args));
            read(arguments).and_then(|(settings, found)| serve(settings, found, hidden))
        }
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::complain(&error);
            log::note_refusal(&error);
            ExitCode::FAILURE
        }
    }
}

fn run_offline(task: &FolderTask) -> Result<ExitCode, Error> {
    let table = crate::commands::table();
    Ok(cli::offline::run(task, &Program { table: &table, redis_version: REDIS_VERSION })?)
}

/// Makes a panic on any thread end the process. Otherwise the thread's clients would hang.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        crash::note_panic(panic.to_string());
        std::process::abort();
    }));
}

fn read(mut arguments: Arguments) -> Result<(Settings, StartConfig), Error> {
    arguments.note_environment(std::env::vars_os());
    Ok(Settings::read(&arguments)?)
}

pub(crate) fn print(text: &str) -> Result<(), Error> {
    use std::io::Write;
    let printed = io::stdout().write_all(text.as_bytes());
    printed.map_err(|source| Error::Io { what: "cannot write to standard output".to_owned(), source })
}

/// Prints which parts of a configuration have no effect, and refuses wrong ones.
fn judge(settings: &Settings, found: &StartConfig) -> Result<(), Error> {
    for WithoutEffect { name, text, place } in &found.without_effect {
        print(&format!("ignored: '{name} {text}' {place}\n"))?;
    }
    let mut table = crate::commands::table();
    let users = rename(&mut table, &found.renames)
        .and_then(|()| users_at_start(&table, settings, &user_lines(found), &Disk::real()));
    let mut errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
    errors.extend(users.err().map(|error| error.to_string()));
    if errors.is_empty() {
        return print("the configuration is valid\n");
    }
    for error in &errors {
        log::complain(error);
    }
    Err(Error::BadConfiguration)
}

/// Renames the commands of `table` as these lines ask.
pub(crate) fn rename(table: &mut engine::Table, renames: &[Rename]) -> Result<(), Error> {
    for rename in renames {
        table.rename(&rename.from, &rename.to).map_err(|why| rename.refused(why))?;
    }
    Ok(())
}

/// The users that the configuration declares.
fn user_lines(found: &StartConfig) -> Vec<UserLine> {
    let line = |line: &Directive| UserLine { place: line.place.clone(), words: line.words.clone() };
    found.users.iter().map(line).collect()
}

fn serve(settings: Settings, mut found: StartConfig, hidden: io::Result<()>) -> Result<(), Error> {
    found.check()?;
    let mut table = crate::commands::table();
    rename(&mut table, &found.renames)?;
    let background = Background::begin(&settings)?;
    if settings.is_on(DISABLE_THP) {
        system::disable_huge_pages();
    }
    heap::keep_freed();
    open_log(&settings, &found)?;
    if let Err(error) = hidden {
        tracing::warn!(
            "the passwords on the command line are visible to every user of this machine: {error}"
        );
    }
    system::give_up_privileges();
    let machine = Machine::real();
    let joining = Joining::prepare(&settings, &machine.disk)?;
    let users = users_at_start(&table, &settings, &user_lines(&found), &machine.disk)?;
    clients::lower_maxclients(&settings);
    let choice = persistence::choose(&settings, &machine.disk)?;
    system::hold_signals();
    system::ignore_file_size_signal();
    let (shared, threads) = open_threads(settings, table, users, machine)?;
    heap::fix();
    crash::watch(shared)
        .map_err(|source| Error::Io { what: "cannot prepare for crashes".to_owned(), source })?;
    obey_signals(shared)?;
    shared.tls.configure(wanted_tls(&shared.settings)).map(drop).map_err(clients::Error::from)?;
    let listeners = shared.listeners.open(&shared.settings)?;
    let http = httpd::Listening::open(&shared.settings)?;
    let places: Vec<String> = listeners.iter().map(|(_, listener)| listener.local().to_owned()).collect();
    let kinds = clients::kinds(&listeners);
    let pid_file = PidFile::write(&shared.settings, background.is_on());
    background.end_start();
    tracing::info!("* Server initialized");
    let mut loader = Loader::of(shared);
    loader.begin(&choice, &shared.journal)?;
    shared.journal.run().map_err(|source| Error::Io { what: "cannot start a thread".to_owned(), source })?;
    let threads = start_threads(shared, threads, listeners);
    if let Some(http) = http {
        tracing::info!("the console and metrics are at {}", http.places().join(", "));
        httpd::start(Box::leak(Box::new(Served::new(shared))), http)?;
    }
    serve_until_stopped(shared, (loader, &choice), threads, joining, |shared| {
        announce(shared, &places, &kinds)
    })?;
    shared.snapshots.end_writer();
    drop(pid_file);
    tracing::info!("# Redis is now ready to exit, bye bye...");
    Ok(())
}

/// Loads the data, and waits until the server stops.
fn serve_until_stopped(
    shared: &'static Shared,
    (loader, choice): (Loader<'_>, &persistence::Choice),
    threads: Vec<JoinHandle<()>>,
    joining: Option<Joining>,
    announce: impl FnOnce(&'static Shared),
) -> Result<(), Error> {
    let is_loading = shared.snapshots.progress.is_loading();
    let ticker = is_loading.then(|| {
        Ticker::start(&shared.settings, || loading_progress(&shared.snapshots, &shared.machine.clock))
    });
    let loaded = loader.load_for(&shared.threads, choice);
    drop(ticker);
    // The loader holds the journal's folder, which may be given up later.
    drop(loader);
    let mut joined = Ok(None);
    match loaded {
        Ok(true) => {
            announce(shared);
            joined = joining.map(|joining| join_group(joining, shared)).transpose();
            if joined.is_err() {
                shared.stop();
            }
        }
        Ok(false) => {}
        Err(_) => shared.stop(),
    }
    for thread in threads {
        if thread.join().is_err() {
            shared.stop();
        }
    }
    if let Ok(Some(agent)) = joined {
        agent.stop();
    }
    shared.journal.stop();
    loaded?;
    joined?;
    Ok(())
}

/// Begins to take part in a group.
fn join_group(joining: Joining, shared: &'static Shared) -> Result<&'static Agent, Error> {
    let facts = ProcessFacts {
        version: DARTER_VERSION.to_owned(),
        cores: shared.threads.len() as u32,
        started_ms: shared.started_ms,
    };
    Ok(joining.begin(shared.role_parts(), facts, Box::new(|| shared.tls.dialing()))?)
}

/// Changes to the working directory, opens the log, and logs the configuration.
fn open_log(settings: &Settings, found: &StartConfig) -> Result<(), Error> {
    let directory = settings.text(DIR);
    if !directory.is_empty() {
        std::env::set_current_dir(&*directory).map_err(|source| Error::Io {
            what: format!("cannot change to the directory {directory}"),
            source,
        })?;
    }
    settings.note_directory();
    log::open(settings)?;
    let threads = ThreadCount::of(settings);
    tracing::info!(
        "Darter {DARTER_VERSION} (as Redis {REDIS_VERSION}) starts, process {}, {} threads ({})",
        std::process::id(),
        threads.count,
        threads.reason
    );
    processors::confine_server(settings);
    supervisor::begin(settings);
    if !found.without_effect.is_empty() {
        let names: Vec<&str> = found.without_effect.iter().map(|directive| directive.name).collect();
        tracing::warn!("accepted but ignored: {}", names.join(", "));
    }
    let memory_bytes_max = settings.memory_bytes_max();
    if (1..1 << 20).contains(&memory_bytes_max) {
        tracing::warn!(
            "WARNING: You specified a maxmemory value that is less than 1MB (current value is {memory_bytes_max} bytes). Are you \
             sure this is what you really want?"
        );
    }
    Ok(())
}

/// Logs that all commands are served now. Other programs wait for some lines of the log. Lines that begin with a sign
/// are Redis', to the letter (docs/decisions/redis-texts.md).
fn announce(shared: &'static Shared, places: &[String], kinds: &[&str]) {
    tracing::info!(
        "listening on {} ({}, {} shards)",
        places.join(", "),
        shared.driver_name,
        shared.shards.len()
    );
    for kind in kinds {
        tracing::info!("* Ready to accept connections {kind}");
    }
    tracing::info!("a crash now would lose: {}", shared.keeper().at_risk(shared.shards.changes()));
    if !shared.settings.is_on(APPENDONLY) && !shared.settings.has_save_points() {
        tracing::info!("appendonly is no and there are no save points: {}", after_restart(shared));
    }
    warn_of_small_limit(shared);
    supervisor::ready(&shared.settings);
}

/// Warns the operator of a `maxmemory` that is small compared with what the server itself takes.
fn warn_of_small_limit(shared: &Shared) {
    let (limit, fixed) = (shared.settings.memory_bytes_max(), heap::exempt_bytes(Exempt::Fixed));
    if limit > 0 && fixed > limit / 2 {
        tracing::warn!(
            "WARNING: maxmemory is {limit} bytes, and the server itself takes another {fixed}, which are not counted: with fewer threads \
             than {} (proactor-threads) it takes less",
            shared.threads.len()
        );
    }
}

/// Describes what a server that saves nothing by itself contains after a restart.
fn after_restart(shared: &Shared) -> String {
    let names = save_settings(&shared.settings, &shared.machine.disk).names;
    let path = names.path(&names.name_to_load());
    let saved = path.metadata().and_then(|found| found.modified()).ok();
    match saved.and_then(|saved| saved.duration_since(UNIX_EPOCH).ok()) {
        None => "a restart loads nothing, unless a snapshot is saved".to_owned(),
        Some(saved) => {
            let (path, saved) = (path.display(), journal::time(saved.as_millis() as u64));
            format!("a restart loads {path} as of {saved} UTC, or a later snapshot")
        }
    }
}

/// A thread that has its driver and waits for the shared part.
struct Starting {
    handle: JoinHandle<()>,
    start: mpsc::Sender<(&'static Shared, Listening)>,
    waker: Arc<Waker>,
    driver_name: &'static str,
}

/// Opens the threads' drivers, and creates the shared part.
fn open_threads(
    settings: Settings,
    table: engine::Table,
    users: Users,
    machine: Machine,
) -> Result<(&'static Shared, Vec<Starting>), Error> {
    let config = settings.driver_config();
    let mut opening = Vec::new();
    // All of them open their drivers at the same time.
    for index in 0..ThreadCount::of(&settings).count {
        let (to_main, opened) = mpsc::channel();
        let (start, started) = mpsc::channel();
        let (config, processor) = (config.clone(), processors::of_thread(&settings, index));
        let work = move || {
            processor.inspect(|processor| processors::pin(index, processor));
            match Driver::open(&config) {
                Err(error) => drop(to_main.send(Err(error))),
                Ok(mut driver) => {
                    let ready = to_main.send(Ok((driver.waker(), driver.name()))).is_ok();
                    if ready && let Ok((shared, listeners)) = started.recv() {
                        run_thread(index as u16, shared, driver, listeners);
                    }
                }
            }
        };
        let handle = std::thread::Builder::new()
            .name(format!("darter-{index}"))
            .spawn(work)
            .map_err(|source| Error::Io { what: "cannot start a thread".to_owned(), source })?;
        opening.push((handle, start, opened));
    }
    let mut threads = Vec::new();
    for (handle, start, opened) in opening {
        let (waker, driver_name) = opened.recv().expect("a thread says how opening its driver went")?;
        threads.push(Starting { handle, start, waker, driver_name });
    }
    let wakers = threads.iter().map(|thread| thread.waker.clone()).collect();
    let seed = proactor::Entropy::from_os()
        .map_err(|source| Error::Io { what: "the system has no random numbers".to_owned(), source })?
        .next_u64();
    let shared = Shared::create(settings, table, users, wakers, threads[0].driver_name, seed, machine);
    Ok((shared, threads))
}

/// Starts the threads. The first one accepts connections for all.
fn start_threads(
    shared: &'static Shared,
    threads: Vec<Starting>,
    mut listeners: Listening,
) -> Vec<JoinHandle<()>> {
    let handles = threads.into_iter().map(|thread| {
        let listeners = std::mem::take(&mut listeners);
        thread.start.send((shared, listeners)).expect("the thread waits for this");
        thread.handle
    });
    handles.collect()
}

fn run_thread(index: u16, shared: &'static Shared, mut driver: Driver, listeners: Listening) {
    // While the snapshot is being loaded, the heaps belong to the loading threads.
    if !shared.snapshots.progress.is_loading() {
        heap::own();
    }
    let mut dealer = Dealer::default();
    let served = listeners
        .into_iter()
        .try_for_each(|(entrance, listener)| {
            driver.listen(listener).map(|number| dealer.note(number, entrance))
        })
        .and_then(|()| {
            let mut thread = heap::as_fixed(|| Thread::new(index, shared, functions(), driver));
            thread.host.balancing.dealer = dealer;
            crash::watch_thread(index);
            thread.run()
        });
    if let Err(error) = served {
        tracing::error!("thread {index} failed: {error}");
        shared.stop();
    }
    heap::disown();
}

/// Handles signals on a thread of its own.
fn obey_signals(shared: &'static Shared) -> Result<(), Error> {
    let work = || shared.obey_signals();
    let started = std::thread::Builder::new().name("signals".to_owned()).stack_size(128 * 1024).spawn(work);
    started.map(|_| ()).map_err(|source| Error::Io { what: "cannot start a thread".to_owned(), source })
}
