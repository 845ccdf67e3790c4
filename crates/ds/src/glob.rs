//! Glob patterns as KEYS, SCAN MATCH, PSUBSCRIBE and CONFIG GET understand them.
//!
//! `*` matches any run of bytes, `?` one byte, `[abc]`, `[a-z]` and `[^abc]` one byte of a class, `\x` the byte x
//! itself. Patterns match bytes, not characters. These corner cases are Redis' own and kept on purpose:
//!
//! * an empty text matches only the empty pattern, not `*` (the commands handle a lone `*` separately);
//! * a class that is never closed ends with the pattern; so `[^` matches any byte;
//! * the bounds of a range compare as *signed* bytes and may be in either order; `-` before `]` still makes a range;
//! * an escaped byte within a class is compared with its case even where case is ignored;
//! * a pattern with more than [`STARS_MAX`] runs of stars matches nothing.
//!
//! Every element except `*` matches exactly one byte. So only the last star passed has to be retried at a
//! later place: if the rest of the pattern matches nowhere after it, no other choice for an earlier star
//! helps. For any pattern the time is at most proportional to the product of both lengths, and there is no
//! recursion.

/// The number of separate runs of stars beyond which a pattern matches nothing, as in Redis.
pub const STARS_MAX: usize = 1000;

/// Whether `pattern` matches the whole of `text`. `nocase` ignores the case of ASCII letters.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let mut rest = pattern;
    let mut at = 0;
    // The pattern after the last star, and the position in the text where it is being tried.
    let mut retry: Option<(&[u8], usize)> = None;
    let mut stars = 0;
    while at < text.len() {
        if rest.first() == Some(&b'*') {
            rest = skip_stars(rest);
            if rest.is_empty() {
                return true;
            }
            stars += 1;
            if stars > STARS_MAX {
                return false;
            }
            retry = Some((rest, at));
        } else if let Some(tail) = match_byte(rest, text[at], nocase) {
            rest = tail;
            at += 1;
        } else if let Some((after_star, tried)) = retry {
            rest = after_star;
            at = tried + 1;
            retry = Some((after_star, at));
        } else {
            return false;
        }
    }
    skip_stars(rest).is_empty()
}

fn skip_stars(pattern: &[u8]) -> &[u8] {
    let stars = pattern.iter().take_while(|&&byte| byte == b'*').count();
    &pattern[stars..]
}

/// Matches the first element of `pattern`, which is not a star, against one byte. Returns the rest of the pattern if it matches.
fn match_byte(pattern: &[u8], byte: u8, nocase: bool) -> Option<&[u8]> {
    let (matched, tail) = match pattern {
        [] => return None,
        [b'?', tail @ ..] => (true, tail),
        [b'[', class @ ..] => match_class(class, byte, nocase),
        [b'\\', literal, tail @ ..] | [literal, tail @ ..] => (same(*literal, byte, nocase), tail),
    };
    matched.then_some(tail)
}

/// Matches the class after its opening bracket against one byte. Returns whether it matches, and the pattern after the class.
fn match_class(class: &[u8], byte: u8, nocase: bool) -> (bool, &[u8]) {
    let (negated, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        match rest {
            [] => break,
            [b'\\', literal, tail @ ..] => {
                found |= *literal == byte;
                rest = tail;
            }
            [b']', tail @ ..] => {
                rest = tail;
                break;
            }
            [first, b'-', last, tail @ ..] => {
                found |= in_range(*first, *last, byte, nocase);
                rest = tail;
            }
            [literal, tail @ ..] => {
                found |= same(*literal, byte, nocase);
                rest = tail;
            }
        }
    }
    (found != negated, rest)
}

fn in_range(first: u8, last: u8, byte: u8, nocase: bool) -> bool {
    let (low, high) = if first as i8 > last as i8 { (last, first) } else { (first, last) };
    let fold = |byte: u8| if nocase { byte.to_ascii_lowercase() as i8 } else { byte as i8 };
    fold(low) <= fold(byte) && fold(byte) <= fold(high)
}

fn same(literal: u8, byte: u8, nocase: bool) -> bool {
    if nocase { literal.eq_ignore_ascii_case(&byte) } else { literal == byte }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition itself: a star tries every length. Exponential, so only for short patterns.
    fn model(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (_, []) => false,
            ([b'*', rest @ ..], _) => {
                skip_stars(rest).is_empty()
                    || (0..text.len()).any(|taken| model(skip_stars(rest), &text[taken..], nocase))
            }
            (_, [byte, tail @ ..]) => match match_byte(pattern, *byte, nocase) {
                Some(rest) if tail.is_empty() => skip_stars(rest).is_empty(),
                Some(rest) => model(rest, tail, nocase),
                None => false,
            },
        }
    }

    #[test]
    fn patterns() {
        let yes: &[(&[u8], &[u8])] = &[
            (b"", b""),
            (b"*", b"a"),
            (b"a*", b"a"),
            (b"a**", b"a"),
            (b"a?c", b"abc"),
            (b"h[ae]llo", b"hallo"),
            (b"h[^e]llo", b"hallo"),
            (b"h[a-b]llo", b"hbllo"),
            (b"h[b-a]llo", b"hbllo"),
            (b"\\*", b"*"),
            (b"a\\", b"a\\"),
            (b"[\\]]", b"]"),
            (b"[a", b"a"),
            (b"[^", b"x"),
            (b"[a-]", b"^"),
            (b"[\\", b"\\"),
            (b"[^]", b"x"),
            (b"[a-\xff]", b"\x01"),
            (b"*a*b*c", b"xxaxxbxxc"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern, text, false), "{pattern:?} {text:?}");
        }
        let no: &[(&[u8], &[u8])] = &[
            (b"*", b""),
            (b"", b"a"),
            (b"?", b""),
            (b"a?", b"a"),
            (b"[", b"["),
            (b"[]a]", b"a"),
            (b"[a-\xff]", b"b"),
            (b"A", b"a"),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern, text, false), "{pattern:?} {text:?}");
        }
        assert!(matches(b"A[B-D]", b"ac", true));
        assert!(!matches(b"[\\A]", b"a", true), "an escape in a class keeps its case");
    }

    #[test]
    fn hostile_patterns_end() {
        let text = vec![b'a'; 20_000];
        let pattern = [b"a*".repeat(900), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &text, false));
        assert!(matches(&b"a*".repeat(1000), &text, false));
        assert!(matches(&[b"a*".repeat(1000), b"a".to_vec()].concat(), &text, false));
        assert!(!matches(&[b"a*".repeat(1001), b"a".to_vec()].concat(), &text, false));
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(
            pattern in proptest::collection::vec(prop::sample::select(&b"*?[]^-\\abAB\xff"[..]), 0..10),
            text in proptest::collection::vec(prop::sample::select(&b"abABc]-\\^\xff"[..]), 0..9),
            nocase: bool,
        ) {
            prop_assert_eq!(matches(&pattern, &text, nocase), model(&pattern, &text, nocase));
        }
    }
}
