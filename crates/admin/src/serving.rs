//! The thread, its connections, and their limits.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use settings::HTTP_CONNECTIONS_MAX;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::MissedTickBehavior;

use crate::console::Console;
use crate::sampler::Sampler;
use crate::state::{Counts, State};
use crate::stream::Stream;
use crate::{Error, Listening, Source, routes};

/// How long the head of a request may take, and a kept connection may be silent.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(10);
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// How long a connection may last; then it ends after the request that it is at.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(600);
/// After an accept that failed, for instance because there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What a client is told that comes when there are too many.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\nretry-after: 1\r\n\
     connection: close\r\n\r\ntoo many HTTP connections (setting http-connections-max)\n";
/// Clients at once that are told so; further ones are only disconnected.
const TOLD_MAX: usize = 64;
/// How long one may take to read that.
const TELL_WAIT_MAX: Duration = Duration::from_secs(1);

/// Serves HTTP on a thread of its own, for as long as the process lives.
///
/// # Errors
/// If the system gives no thread or no random numbers.
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
            counts: Counts::default(),
        });
        let tasks = LocalSet::new();
        for listener in listening.0 {
            tasks.spawn_local(accept(state.clone(), listener));
        }
        runtime.block_on(tasks.run_until(sample(state)));
    })?;
    Ok(())
}

/// Takes samples for the charts, every second.
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
        let (tcp, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!("cannot take an HTTP connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let count = &state.counts.connections;
        if count.get() >= state.source.settings().number(HTTP_CONNECTIONS_MAX) as usize {
            state.counts.rejected.set(state.counts.rejected.get() + 1);
            if state.counts.told.get() < TOLD_MAX {
                state.counts.told.set(state.counts.told.get() + 1);
                let state = state.clone();
                spawn_local(async move {
                    // One that does not read it is disconnected as well.
                    let _ = tokio::time::timeout(TELL_WAIT_MAX, send_away(tcp)).await;
                    state.counts.told.set(state.counts.told.get() - 1);
                });
            }
            continue;
        }
        count.set(count.get() + 1);
        let state = state.clone();
        spawn_local(async move {
            serve(&state, tcp, peer).await;
            state.counts.connections.set(state.counts.connections.get() - 1);
        });
    }
}

/// Tells a client that there are too many, and reads what it sends: closed before that, the connection would be reset, and the
/// client might not see the answer.
async fn send_away(mut tcp: TcpStream) -> std::io::Result<()> {
    tcp.write_all(TOO_MANY).await?;
    tcp.shutdown().await?;
    let mut unread = [0; 1024];
    while tcp.read(&mut unread).await? > 0 {}
    Ok(())
}

/// Serves a connection until it ends.
async fn serve(state: &Rc<State>, tcp: TcpStream, peer: SocketAddr) {
    // An answer leaves at once.
    let _ = tcp.set_nodelay(true);
    let answer = service_fn(|request: Request<Incoming>| {
        let state = state.clone();
        async move { Ok::<_, Infallible>(routes::answer(&state, peer, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(Stream::new(tcp)), answer));
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
