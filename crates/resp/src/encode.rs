//! Requests as clients send them.

/// Appends `args` to `out` as an array of bulk strings.
pub fn encode_request(args: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    push_header(b'*', args.len(), out);
    for arg in args {
        let arg = arg.as_ref();
        push_header(b'$', arg.len(), out);
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

fn push_header(kind: u8, count: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_every_argument() {
        let mut out = Vec::new();
        encode_request(&["SET", "key", "a\r\nb"], &mut out);
        encode_request(&[] as &[&str], &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$4\r\na\r\nb\r\n*0\r\n");
    }
}
