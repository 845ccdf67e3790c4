//! The thread, its connections, and their limits.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};

use config::HTTP_CONNECTIONS_MAX;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::MissedTickBehavior;

use crate::connections::{Connection, Place};
use crate::console::Console;
use crate::guard::Peer;
use crate::sampler::Sampler;
use crate::securing::{Opened, open};
use crate::state::{Counts, State};
use crate::stream::Stream;
use crate::{Error, Listening, Source, routes};

/// How long the head of a request may take, and how long a connection may be idle.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(10);
/// The most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The most headers of a request.
const HEADERS_MAX: usize = 64;
/// How long a connection may last. After that it ends when its current request is answered.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(600);
/// The pause after a failed accept, for instance when no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The answer to a client when there are too many.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\nretry-after: 1\r\n\
     connection: close\r\n\r\ntoo many HTTP connections (setting http-connections-max)\n";
/// How many clients may be getting that answer at the same time. Further ones are only disconnected.
const TOLD_MAX: usize = 64;
/// How long such a client may take to read it.
const TELL_WAIT_MAX: Duration = Duration::from_secs(1);

/// Serves HTTP on a thread of its own, until the process ends.
///
/// # Errors
/// If the system provides no thread or no random numbers.
pub fn start(source: &'static dyn Source, listening: Listening) -> Result<(), Error> {
    let mut secret = [0; 16];
    proactor::Entropy::from_os()?.secret(&mut secret)?;
    let token = u128::from_ne_bytes(secret);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("http".to_owned()).spawn(move || {
        let state = Rc::new(State {
            source,
            token: format!("{token:032x}"),
            console: Console::new(),
            sampler: RefCell::new(Sampler::new(source)),
            labels: RefCell::default(),
            started: Instant::now(),
            throttle: RefCell::default(),
            key_samples: RefCell::default(),
            connections: Rc::default(),
            counts: Counts::default(),
        });
        let tasks = LocalSet::new();
        for listener in listening.listeners {
            tasks.spawn_local(accept(state.clone(), listener));
        }
        runtime.block_on(tasks.run_until(sample(state)));
    })?;
    Ok(())
}

/// Takes samples for the charts once a second.
async fn sample(state: Rc<State>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        state.sampler.borrow_mut().take(state.source);
    }
}

async fn accept(state: Rc<State>, listener: std::net::TcpListener) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!("cannot serve HTTP: {error}"),
    };
    loop {
        let (tcp, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!("cannot take an HTTP connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // An answer leaves at once.
        let _ = tcp.set_nodelay(true);
        let peer = Peer { address, common_name: None };
        let count_max = state.source.settings().number(HTTP_CONNECTIONS_MAX) as usize;
        let Some(place) = state.connections.admit(count_max, Instant::now()) else {
            turn_away(&state, Stream::new(tcp, Rc::new(Connection::default())), peer);
            continue;
        };
        let (state, connection) = (state.clone(), place.connection.clone());
        let stream = Stream::new(tcp, connection.clone());
        let task = spawn_local(async move {
            match open(&state, stream, peer).await {
                Some(Opened::Plain(stream, peer)) => serve(&state, &place, stream, &peer).await,
                Some(Opened::Secured(stream, peer)) => serve(&state, &place, *stream, &peer).await,
                None => {}
            }
        });
        connection.is_served_by(task.abort_handle());
        // Let this connection's task read what has arrived before the next connection may take its place.
        tokio::task::yield_now().await;
    }
}

/// Tells a client that there are too many clients.
fn turn_away(state: &Rc<State>, stream: Stream, peer: Peer) {
    let counts = &state.counts;
    counts.rejected.set(counts.rejected.get() + 1);
    if counts.told.get() >= TOLD_MAX {
        return;
    }
    counts.told.set(counts.told.get() + 1);
    let state = state.clone();
    spawn_local(async move {
        let tell = async {
            match open(&state, stream, peer).await {
                Some(Opened::Plain(mut stream, _)) => send_away(&mut stream, TOO_MANY).await,
                Some(Opened::Secured(mut stream, _)) => send_away(&mut *stream, TOO_MANY).await,
                None => Ok(()),
            }
        };
        // A client that does not read the answer is disconnected as well.
        let _ = tokio::time::timeout(TELL_WAIT_MAX, tell).await;
        state.counts.told.set(state.counts.told.get() - 1);
    });
}

/// Answers a request that was not read, and reads it afterwards. If the connection were closed earlier, it would be
/// reset, and the client might not get the answer.
pub(crate) async fn send_away(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    answer: &[u8],
) -> std::io::Result<()> {
    stream.write_all(answer).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

/// Serves a connection until it ends.
async fn serve(state: &Rc<State>, place: &Place, stream: impl AsyncRead + AsyncWrite + Unpin, peer: &Peer) {
    let answer = service_fn(|request: Request<Incoming>| async move {
        place.note_request();
        let answer = routes::answer(state, peer, request).await;
        place.note_answer();
        Ok::<_, Infallible>(answer)
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), answer));
    let ended = match tokio::time::timeout(CONNECTION_AGE_MAX, connection.as_mut()).await {
        Ok(ended) => ended,
        Err(_) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("an HTTP connection ended: {error}");
    }
}
