//! Replies to a client that has not authenticated, and may do nothing else.
//!
//! As in memcached, a client authenticates with `set <anything> 0 0 <bytes>␍␊<user> <password>␍␊`.

use engine::CommandResult;
use resp::memcached::Verb;

/// The reply to a request of a client that has not authenticated. `admits`: whether a user with this password is
/// accepted. `None`: the client wants to disconnect, and gets no reply.
pub fn reply_to_stranger(
    verb: Verb,
    words: &[&[u8]],
    admits: impl FnOnce(&[u8], &[u8]) -> CommandResult,
) -> Option<Vec<u8>> {
    let reply: &[u8] = match (verb, words.last()) {
        (Verb::Quit, _) => return None,
        (Verb::Set, Some(value)) => {
            let mut parts = value.split(|&byte| byte == b' ').filter(|part| !part.is_empty());
            match (parts.next(), parts.next()) {
                (Some(user), Some(password)) => match admits(user, password) {
                    Ok(()) => b"STORED\r\n",
                    Err(error) if error.code() == "WRONGPASS" => b"CLIENT_ERROR authentication failure\r\n",
                    Err(error) => return Some([b"CLIENT_ERROR ", error.text(), b"\r\n"].concat()),
                },
                _ => b"CLIENT_ERROR bad authentication token format\r\n",
            }
        }
        _ => b"CLIENT_ERROR unauthenticated\r\n",
    };
    Some(reply.to_vec())
}

#[cfg(test)]
mod tests {
    use engine::CommandError;

    use super::*;

    #[test]
    fn only_the_password_will_do() {
        for (verb, value, reply) in [
            (Verb::Set, "me secret", Some("STORED\r\n")),
            (Verb::Set, "  me  secret more", Some("STORED\r\n")),
            (Verb::Set, "me wrong", Some("CLIENT_ERROR authentication failure\r\n")),
            (Verb::Set, "me", Some("CLIENT_ERROR bad authentication token format\r\n")),
            (Verb::Set, "", Some("CLIENT_ERROR bad authentication token format\r\n")),
            (Verb::Get, "me secret", Some("CLIENT_ERROR unauthenticated\r\n")),
            (Verb::Set, "full secret", Some("CLIENT_ERROR ERR no more\r\n")),
            (Verb::Quit, "", None),
        ] {
            let words: [&[u8]; 2] = [b"set", value.as_bytes()];
            let admits = |user: &[u8], password: &[u8]| match (user, password) {
                (b"me", b"secret") => Ok(()),
                (b"full", _) => Err(CommandError::fixed("ERR no more")),
                _ => Err(CommandError::fixed("WRONGPASS not this one")),
            };
            let said = reply_to_stranger(verb, &words, admits);
            assert_eq!(said.as_deref(), reply.map(str::as_bytes), "{value:?}");
        }
    }
}
