//! Scripts, and the replies of redis-server 7.0.15. Where 7.2 replies differently, the files say so and
//! contain 7.2's reply.
//!
//! ```text
//! > return 1
//! :1\r\n
//! ```
//!
//! One line of source, then one of reply, both with the escapes of Rust's `b"…"`. `resp3` and `resp2` lines
//! switch the client's protocol. `{sha}` in a reply stands for the script's name. Each file is one server, so
//! settings of cjson last from script to script.

use lua::Sha1Hex;
use resp::Proto;

use crate::memory_host::Bench;

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (&letter, after) = rest.split_first().expect("an escape has a letter");
        rest = after;
        bytes.push(match letter {
            b'n' => b'\n',
            b'r' => b'\r',
            b'x' => {
                let (digits, after) = rest.split_at(2);
                rest = after;
                let digits = std::str::from_utf8(digits).expect("digits are ASCII");
                u8::from_str_radix(digits, 16).expect("two digits")
            }
            letter => letter,
        });
    }
    bytes
}

fn check_file(text: &str) {
    let mut bench = Bench::new();
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("//"));
    let mut failures = Vec::new();
    while let Some(line) = lines.next() {
        match line {
            "resp2" => bench.proto = Proto::Resp2,
            "resp3" => bench.proto = Proto::Resp3,
            _ => {
                let source = unescape(line.strip_prefix("> ").expect("a script"));
                let expected = lines.next().expect("a reply").replace("{sha}", Sha1Hex::of(&source).as_str());
                let (reply, _) = bench.run(&source, &[], &[]);
                if reply != unescape(&expected) {
                    failures.push(format!("{line}\n  got  {}\n  want {expected}", reply.escape_ascii()));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn scripts() {
    check_file(include_str!("replies/scripts.txt"));
}

#[test]
fn replies() {
    check_file(include_str!("replies/replies.txt"));
}

#[test]
fn cjson() {
    check_file(include_str!("replies/cjson.txt"));
}

#[test]
fn cmsgpack() {
    check_file(include_str!("replies/cmsgpack.txt"));
}

#[test]
fn structure_and_bit() {
    check_file(include_str!("replies/struct_and_bit.txt"));
}

#[test]
fn generated_values() {
    check_file(include_str!("replies/generated.txt"));
}
