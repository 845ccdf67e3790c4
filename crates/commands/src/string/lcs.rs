//! `LCS`: the longest common subsequence of two strings.
//!
//! The textbook dynamic program: a table of (length of one + 1) × (length of the other + 1) lengths, then a walk back
//! from its last corner. Time and memory are the product of the lengths; `proto-max-bulk-len` limits the memory.

use engine::Flag::*;
use engine::KeyFlag::*;
use engine::{
    Acl, CommandError, CommandResult, Ctx, Entry, Group, KeySpec, Pace, Run, Shape, integer, key, keyword_is,
    parse_i64, token,
};
use keyspace::{Str, StrRef};

pub(super) const LCS: Entry = Entry {
    name: "lcs",
    summary: "Finds the longest common substring.",
    complexity: "O(N*M) where N and M are the lengths of s1 and s2, respectively",
    since: "7.0.0",
    group: Group::String,
    arity: -3,
    flags: &[ReadOnly],
    acl: &[Acl::String],
    keys: &[KeySpec::range(1, 1, 1, &[RO, Access])],
    args: &[
        key("key1", 0),
        key("key2", 0),
        token("len", "LEN").optional(),
        token("idx", "IDX").optional(),
        integer("min-match-len").token("MINMATCHLEN").optional(),
        token("withmatchlen", "WITHMATCHLEN").optional(),
    ],
    reply: Shape::OneOf(&[Shape::Bulk, Shape::Int, Shape::Map(&Shape::Bulk, &Shape::Any)]),
    run: Run::Function(lcs),
    ..Entry::DEFAULT
};

fn lcs(ctx: &mut Ctx) -> CommandResult {
    let not_strings = || CommandError::new("ERR The specified keys must contain string values");
    let (first, second) = (ctx.args[1], ctx.args[2]);
    for key in [first, second] {
        ctx.store.read_as::<Str>(key).map_err(|_| not_strings())?;
    }
    let options = Options::parse(&ctx.args[3..])?;
    let a = ctx.store.peek_as::<Str>(first)?.map(StrRef::bytes).unwrap_or_default();
    let b = ctx.store.peek_as::<Str>(second)?.map(StrRef::bytes).unwrap_or_default();
    let mut pace = Pace::new(ctx.host);
    let lengths = Lengths::new(&a, &b, ctx.store.config().string_bytes_max, &mut pace)?;
    if options.indexes {
        let matches = lengths.matches(&a, &b, options.match_length_min);
        ctx.reply.map(2);
        ctx.reply.bulk(b"matches");
        ctx.reply.array(matches.len());
        for found in matches {
            ctx.reply.array(2 + usize::from(options.with_match_length));
            for start in [found.a, found.b] {
                ctx.reply.array(2);
                ctx.reply.int(start as i64);
                ctx.reply.int((start + found.length - 1) as i64);
            }
            if options.with_match_length {
                ctx.reply.int(found.length as i64);
            }
        }
        ctx.reply.bulk(b"len");
        ctx.reply.int(i64::from(lengths.at(a.len(), b.len())));
    } else if options.length {
        ctx.reply.int(i64::from(lengths.at(a.len(), b.len())));
    } else {
        let mut common = Vec::new();
        for found in lengths.matches(&a, &b, 0).iter().rev() {
            common.extend_from_slice(&a[found.a..found.a + found.length]);
        }
        ctx.reply.bulk(&common);
    }
    Ok(())
}

#[derive(Default)]
struct Options {
    length: bool,
    indexes: bool,
    with_match_length: bool,
    match_length_min: usize,
}

impl Options {
    fn parse(args: &[&[u8]]) -> Result<Options, CommandError> {
        let mut options = Options::default();
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            if keyword_is(word, "IDX") {
                options.indexes = true;
            } else if keyword_is(word, "LEN") {
                options.length = true;
            } else if keyword_is(word, "WITHMATCHLEN") {
                options.with_match_length = true;
            } else if keyword_is(word, "MINMATCHLEN") {
                let number = rest.next().ok_or(CommandError::SYNTAX)?;
                options.match_length_min = parse_i64(number)?.max(0) as usize;
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        if options.indexes && options.length {
            let text = "ERR If you want both the length and indexes, please just use IDX.";
            return Err(CommandError::new(text));
        }
        Ok(options)
    }
}

/// A run of bytes that both strings contain.
struct Match {
    a: usize,
    b: usize,
    length: usize,
}

/// Cells that are filled in about the time of a step.
const CELLS_PER_STEP: usize = 64;

/// For every prefix of one string and every prefix of the other, the length of their longest common subsequence.
struct Lengths {
    cells: Vec<u32>,
    width: usize,
}

impl Lengths {
    fn new(a: &[u8], b: &[u8], bytes_max: u64, pace: &mut Pace<'_>) -> Result<Lengths, CommandError> {
        let width = b.len() + 1;
        let cells = (a.len() as u64 + 1).saturating_mul(width as u64);
        if cells.saturating_mul(size_of::<u32>() as u64) > bytes_max {
            let text = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
            return Err(CommandError::new(text));
        }
        let mut lengths = Lengths { cells: vec![0; cells as usize], width };
        for (row, byte_a) in a.iter().enumerate() {
            pace.steps(b.len() / CELLS_PER_STEP);
            for (column, byte_b) in b.iter().enumerate() {
                lengths.cells[(row + 1) * width + column + 1] = if byte_a == byte_b {
                    lengths.at(row, column) + 1
                } else {
                    lengths.at(row, column + 1).max(lengths.at(row + 1, column))
                };
            }
        }
        Ok(lengths)
    }

    fn at(&self, a: usize, b: usize) -> u32 {
        self.cells[a * self.width + b]
    }

    /// The matching runs of at least `length_min`, the last ones first.
    fn matches(&self, a: &[u8], b: &[u8], length_min: usize) -> Vec<Match> {
        let mut matches: Vec<Match> = Vec::new();
        let mut run = 0;
        let (mut i, mut j) = (a.len(), b.len());
        loop {
            let extends = i > 0 && j > 0 && a[i - 1] == b[j - 1];
            if !extends {
                if run > 0 && run >= length_min {
                    matches.push(Match { a: i, b: j, length: run });
                }
                run = 0;
            }
            if i == 0 || j == 0 {
                return matches;
            } else if extends {
                (i, j, run) = (i - 1, j - 1, run + 1);
            } else if self.at(i - 1, j) > self.at(i, j - 1) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }
}
