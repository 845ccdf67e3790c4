//! What a client is told that has not said its password: only that will do.
//!
//! As memcached has it, a client says `set <anything> 0 0 <bytes>␍␊<user> <password>␍␊`.

use resp::memcached::Verb;

/// The reply to a request of a client that nobody knows yet; `admits` says whether a user has this password. `None`: the client wants to
/// go, and gets no reply.
pub fn reply_to_stranger(
    verb: Verb,
    words: &[&[u8]],
    admits: impl FnOnce(&[u8], &[u8]) -> bool,
) -> Option<&'static [u8]> {
    Some(match (verb, words.last()) {
        (Verb::Quit, _) => return None,
        (Verb::Set, Some(value)) => {
            let mut parts = value.split(|&byte| byte == b' ').filter(|part| !part.is_empty());
            match (parts.next(), parts.next()) {
                (Some(user), Some(password)) if admits(user, password) => b"STORED\r\n",
                (Some(_), Some(_)) => b"CLIENT_ERROR authentication failure\r\n",
                _ => b"CLIENT_ERROR bad authentication token format\r\n",
            }
        }
        _ => b"CLIENT_ERROR unauthenticated\r\n",
    })
}

#[cfg(test)]
mod tests {
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
            (Verb::Quit, "", None),
        ] {
            let words: [&[u8]; 2] = [b"set", value.as_bytes()];
            let admits = |user: &[u8], password: &[u8]| (user, password) == (b"me", b"secret");
            assert_eq!(reply_to_stranger(verb, &words, admits), reply.map(str::as_bytes), "{value:?}");
        }
    }
}
