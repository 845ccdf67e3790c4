//! `darter --check-health` asks for a server's `/healthz`, for containers that have no other program.
//!
//! ```text
//!   darter --check-health [-h host] [-p port]
//! ```
//!
//! The port is that of HTTP. Connecting and every read have a time limit, and the answer has a size limit: its first
//! line is enough.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::remote::command_line::{SHOWN_LETTERS_MAX, number};
use crate::remote::connection::connect;
use crate::remote::error::Error;
use crate::remote::figures::shown;

/// The flag.
pub(crate) const FLAG: &str = "--check-health";
/// How long the server may take to accept the connection, and to send more of a reply.
const SILENCE: Duration = Duration::from_secs(5);
/// The longest first line of a reply.
const LINE_BYTES_MAX: usize = 256;

/// Checks the server that the arguments name.
pub(crate) fn check(args: &[String]) -> Result<(), Error> {
    let (mut host, mut port) = ("127.0.0.1", 8379);
    let mut args = args.iter().filter(|arg| *arg != FLAG);
    while let Some(flag) = args.next() {
        let flag_shown = shown(flag.as_bytes(), SHOWN_LETTERS_MAX);
        if !["-h", "-p"].contains(&flag.as_str()) {
            return Err(Error::Usage(format!("'{flag_shown}' cannot be combined with {FLAG}: see --help")));
        }
        let value = args.next().ok_or_else(|| Error::Usage(format!("{flag} needs a value")))?;
        if flag == "-h" {
            host = value;
        } else {
            port = number("-p", "a port", value)?;
        }
    }
    let (address, stream) = connect(host, port, SILENCE)?;
    let line =
        first_line(stream).map_err(|source| Error::Unreachable { address: address.clone(), source })?;
    match line.starts_with("HTTP/1.1 200 ") {
        true => Ok(()),
        false => Err(Error::Reply { address, reply: shown(line.as_bytes(), SHOWN_LETTERS_MAX) }),
    }
}

/// Reads the first line of the reply.
fn first_line(mut stream: TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < LINE_BYTES_MAX && stream.read(&mut byte)? == 1 && byte[0] != b'\r' {
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// The verdict on a server that sends `answer`.
    fn check_server(answer: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 16];
            stream.read_exact(&mut request).unwrap();
            assert_eq!(&request, b"GET /healthz HTT");
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let args = [FLAG, "-p", &port].map(str::to_owned);
        let outcome = check(&args).map_err(|error| error.to_string().replace(&port, "PORT"));
        server.join().unwrap();
        outcome
    }

    #[test]
    fn a_server_is_healthy_if_it_says_so() {
        assert_eq!(check_server("HTTP/1.1 200 OK\r\n\r\nok"), Ok(()));
        let unhealthy = "127.0.0.1:PORT answers with an error: HTTP/1.1 503 Service Unavailable";
        assert_eq!(check_server("HTTP/1.1 503 Service Unavailable\r\n"), Err(unhealthy.to_owned()));
        let no_http = "127.0.0.1:PORT answers with an error: -ERR unknown command 'GET'";
        assert_eq!(check_server("-ERR unknown command 'GET'\r\n"), Err(no_http.to_owned()));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (line, expected) in [
            ("--check-health -x", "'-x' cannot be combined with --check-health: see --help"),
            ("--check-health -p", "-p needs a value"),
            ("-p 70000 --check-health", "-p is a port, not '70000'"),
        ] {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(check(&args).expect_err(line).to_string(), expected);
        }
    }
}
