//! A sketch that is written is read again and stays the same; damaged fields are refused, or harmless.

use sketches::cuckoo::Parameters;
use sketches::{BYTES_MAX, Bloom, CountMin, CreateError, Cuckoo, Field, FieldSource, Sketch, TDigest, TopK};

/// A field in memory.
#[derive(Clone, PartialEq, Debug)]
enum Owned {
    Unsigned(u64),
    Signed(i64),
    Double(u64),
    Bytes(Vec<u8>),
}

struct Fields(std::vec::IntoIter<Owned>);

macro_rules! take {
    ($self:ident, $kind:ident) => {
        match $self.0.next() {
            Some(Owned::$kind(value)) => Ok(value),
            _ => Err(()),
        }
    };
}

impl FieldSource for Fields {
    type Error = ();

    fn unsigned(&mut self) -> Result<u64, ()> {
        take!(self, Unsigned)
    }

    fn signed(&mut self) -> Result<i64, ()> {
        take!(self, Signed)
    }

    fn double(&mut self) -> Result<f64, ()> {
        take!(self, Double).map(f64::from_bits)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, ()> {
        take!(self, Bytes)
    }

    fn refuse(&mut self) {}
}

fn written(sketch: &Sketch) -> Vec<Owned> {
    let ready = sketch.written();
    let sketch = ready.as_ref().unwrap_or(sketch);
    let fields = (0..).map_while(|index| sketch.field(index));
    fields
        .map(|field| match field {
            Field::Unsigned(number) => Owned::Unsigned(number),
            Field::Signed(number) => Owned::Signed(number),
            Field::Double(number) => Owned::Double(number.to_bits()),
            Field::Bytes(bytes) => Owned::Bytes(bytes.to_vec()),
        })
        .collect()
}

/// Reads a sketch of the same kind.
fn read(like: &Sketch, fields: Vec<Owned>) -> Result<Sketch, ()> {
    use sketches::{bloom, count_min, cuckoo, t_digest, top_k};
    let source = &mut Fields(fields.into_iter());
    Ok(match like {
        Sketch::Bloom(_) => Sketch::Bloom(Bloom::read(bloom::VERSION, source)?),
        Sketch::Cuckoo(_) => Sketch::Cuckoo(Cuckoo::read(cuckoo::VERSION, source)?),
        Sketch::CountMin(_) => Sketch::CountMin(CountMin::read(count_min::VERSION, source)?),
        Sketch::TopK(_) => Sketch::TopK(TopK::read(top_k::VERSION, source)?),
        Sketch::TDigest(_) => Sketch::TDigest(TDigest::read(t_digest::VERSION, source)?),
    })
}

/// Adds some items, and asks for some.
fn use_it(sketch: &mut Sketch, from: u64) -> String {
    let mut answers = String::new();
    for number in from..from + 60 {
        let text = format!("i{}", number * number % 37);
        let item = text.as_bytes();
        let answer = match sketch {
            Sketch::Bloom(filter) => format!("{:?} {}", filter.add(item), filter.contains(b"i1")),
            Sketch::Cuckoo(filter) if number % 4 == 0 => format!("{}", filter.remove(item)),
            Sketch::Cuckoo(filter) => format!("{:?} {}", filter.add(item), filter.count_of(item)),
            Sketch::CountMin(counts) => format!("{} {}", counts.add(item, number), counts.count_of(b"i1")),
            Sketch::TopK(top) => {
                format!("{:?} {} {:?}", top.add(item, number as u32 % 9), top.count_of(item), top.list())
            }
            Sketch::TDigest(digest) => {
                let _ = digest.add((number * 7919 % 1000) as f64);
                let merged = digest.merged();
                let asked = [0.1, 0.5, 0.9].map(|share| merged.quantile(share));
                format!("{asked:?} {} {}", merged.share_below(500.0), merged.trimmed_mean(0.1, 0.9))
            }
        };
        answers.push_str(&answer);
    }
    answers
}

fn samples() -> Vec<Sketch> {
    let small = Parameters { bucket_size: 2, iterations_max: 5, expansion: 2 };
    vec![
        Sketch::Bloom(Bloom::new(10, 0.1, 2, true).expect("valid")),
        Sketch::Bloom(Bloom::new(10, 0.01, 0, false).expect("valid")),
        Sketch::Cuckoo(Cuckoo::new(8, small).expect("valid")),
        Sketch::CountMin(CountMin::new(7, 3).expect("valid")),
        Sketch::TopK(TopK::new(3, 4, 2, 0.9).expect("valid")),
        Sketch::TDigest(TDigest::new(3).expect("valid")),
    ]
}

#[test]
fn what_was_read_goes_on_like_what_was_written() {
    for mut sketch in samples() {
        for round in 0..6 {
            let mut copy = read(&sketch, written(&sketch)).expect("it was just written");
            assert_eq!(written(&copy), written(&sketch), "{sketch:?}");
            assert_eq!(use_it(&mut copy, round * 60), use_it(&mut sketch, round * 60));
            assert_eq!(written(&copy), written(&sketch), "{sketch:?}");
        }
    }
}

#[test]
fn damage_is_refused_or_harmless() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for mut sketch in samples() {
        use_it(&mut sketch, 0);
        let fields = written(&sketch);
        for _ in 0..3000 {
            let mut damaged = fields.clone();
            for _ in 0..=random(2) {
                let index = random(damaged.len() as u64) as usize;
                let extreme = [0, 1, 2, 255, 65_535, 1 << 31, u64::MAX / 2, u64::MAX][random(8) as usize];
                match &mut damaged[index] {
                    Owned::Unsigned(number) => *number = extreme,
                    Owned::Signed(number) => *number = extreme as i64,
                    Owned::Double(bits) => {
                        *bits = [extreme, 1.5_f64.to_bits(), f64::NAN.to_bits()][random(3) as usize]
                    }
                    Owned::Bytes(bytes) if random(2) == 0 => {
                        bytes.truncate(random(bytes.len() as u64 + 1) as usize)
                    }
                    Owned::Bytes(bytes) => bytes.iter_mut().for_each(|byte| *byte = random(256) as u8),
                }
            }
            if random(8) == 0 {
                damaged.truncate(random(damaged.len() as u64) as usize);
            }
            if let Ok(mut found) = read(&sketch, damaged) {
                use_it(&mut found, 100);
                let again = read(&found, written(&found));
                let again = again.unwrap_or_else(|()| panic!("it was accepted before: {found:?}"));
                assert_eq!(written(&again), written(&found));
            }
        }
    }
}

#[test]
fn damaged_heads_of_dumps_are_refused_or_harmless() {
    let (mut bloom, mut cuckoo) =
        (Bloom::new(10, 0.1, 2, true).expect("valid"), Cuckoo::new(8, Parameters::default()).expect("valid"));
    for number in 0..100_u32 {
        bloom.add(&number.to_le_bytes());
        cuckoo.add(&number.to_le_bytes());
    }
    let head = bloom.dump_head();
    let mut copy = Bloom::from_dump_head(&head).expect("it was just written");
    let mut at = 1;
    while let Some((next, chunk)) = bloom.dump_chunk(at) {
        copy.load_chunk(next, chunk).expect("it fits");
        at = next;
    }
    assert_eq!(written(&Sketch::Bloom(copy)), written(&Sketch::Bloom(bloom)));
    for index in 0..head.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = head.clone();
            damaged[index] = value;
            if let Some(mut found) = Bloom::from_dump_head(&damaged) {
                found.add(b"x");
                found.contains(b"x");
            }
        }
        assert!(Bloom::from_dump_head(&head[..index]).is_none());
    }
    let head: [u8; sketches::cuckoo::DUMP_HEAD_BYTES] =
        cuckoo.dump_head().try_into().expect("it is that long");
    let mut copy = Cuckoo::from_dump_head(&head).expect("it was just written");
    let mut at = 1;
    while let Some((next, chunk)) = cuckoo.dump_chunk(at) {
        assert!(copy.load_chunk(next, chunk));
        at = next;
    }
    assert_eq!(written(&Sketch::Cuckoo(copy)), written(&Sketch::Cuckoo(cuckoo)));
    for index in 0..head.len() {
        // A number of buckets near the limit would be allocated.
        for value in [0, 1, 3, 0x80, 0xff] {
            let mut damaged = head;
            damaged[index] = value;
            if !(9..16).contains(&index)
                && let Some(mut found) = Cuckoo::from_dump_head(&damaged)
            {
                found.add(b"x");
                found.remove(b"x");
            }
        }
    }
}

#[test]
fn what_would_take_too_much_is_refused_before_it_is_allocated() {
    let too_large = |result: Result<(), CreateError>| assert_eq!(result, Err(CreateError::TooLarge));
    too_large(Bloom::new(1 << 30, 1e-300, 2, true).map(|_| ()));
    too_large(Bloom::new(u64::MAX, 0.01, 2, true).map(|_| ()));
    too_large(CountMin::new(BYTES_MAX / 4 + 1, 1).map(|_| ()));
    too_large(CountMin::new(u64::MAX, u64::MAX).map(|_| ()));
    too_large(CountMin::new(1 << 33, 1 << 33).map(|_| ()));
    too_large(Cuckoo::new(u64::MAX, Parameters::default()).map(|_| ()));
    too_large(TopK::new(u32::MAX, 8, 7, 0.9).map(|_| ()));
    too_large(TopK::new(1, u32::MAX, u32::MAX, 0.9).map(|_| ()));
    too_large(TDigest::new(u64::MAX).map(|_| ()));
    too_large(TDigest::new(100_000_000).map(|_| ()));
    // The memory of a digest grows with its numbers.
    assert!(TDigest::new(40_000_000).is_ok());
}
