//! Decides which clients are refused: those above `maxclients`, and those from elsewhere in protected mode.

use std::net::IpAddr;

use acl::Users;
use config::Settings;
use proactor::Socket;

const TOO_MANY_CLIENTS: &str = "ERR max number of clients reached";
const PROTECTED: &str = "DENIED Redis is running in protected mode because protected mode is enabled and no \
    password is set for the default user. In this mode connections are only accepted from the loopback interface. \
    If you want to connect from external computers to Redis you may adopt one of the following solutions: \
    1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface \
    by connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly \
    accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. \
    2) Alternatively you can just disable the protected mode by editing the Redis configuration file, and setting \
    the protected mode option to 'no', and then restarting the server. \
    3) If you started the server manually just for testing, restart it with the '--protected-mode no' option. \
    4) Set up an authentication password for the default user. \
    NOTE: You only need to do one of the above things in order for the server to start accepting connections from \
    the outside.";

/// The reason to refuse a new client, if there is one: there are too many clients (`client_count` with this one), or
/// protected mode excludes it.
pub fn refusal(
    settings: &Settings,
    users: &Users,
    socket: &Socket,
    client_count: u64,
) -> Option<&'static str> {
    let is_outsider = !socket.is_unix() && !is_loopback(socket.peer());
    if client_count > settings.clients_max() {
        Some(TOO_MANY_CLIENTS)
    } else if is_outsider && settings.is_protected() && users.takes_any_password() {
        Some(PROTECTED)
    } else {
        None
    }
}

fn is_loopback(peer: &str) -> bool {
    let ip = peer.rsplit_once(':').map_or(peer, |(ip, _)| ip);
    let ip = ip.trim_start_matches('[').trim_end_matches(']');
    ip.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_machine_itself_is_inside() {
        for (peer, expected) in [
            ("127.0.0.1:5", true),
            ("127.9.9.9:5", true),
            ("[::1]:5", true),
            ("[::ffff:127.0.0.1]:5", true),
            ("10.0.0.1:5", false),
            ("[2001:db8::1]:5", false),
            ("?:0", false),
        ] {
            assert_eq!(is_loopback(peer), expected, "{peer}");
        }
    }
}
