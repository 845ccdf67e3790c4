//! Properties that hold for any bytes given to the reader; shared with the fuzz targets.

use std::io::Read;

use ds::Kind;
use ds::stream::{Stream, StreamLimits};
use rdb::{
    Checksum, Encoder, Error, Family, FileReader, FrameReader, Item, Libraries, Manifest, NoLibrary, Part,
    Reader, ValueType, Why, part_head, read_value, write_frames,
};
use sketches::Sketch;

/// The most bytes that one byte of input can become: LZF makes 264 of 3, and elements have a length of their
/// own.
const EXPANSION_MAX: usize = 90;

/// Any value, as the parts that it was read in.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Model {
    Str(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    ZSet(Vec<(Vec<u8>, f64)>),
    Hash(Vec<(Vec<u8>, Vec<u8>, Option<i64>)>),
    Stream(StreamModel),
    /// A sketch, once it was read.
    Sketch(Option<SketchModel>),
}

/// A sketch, which equals another one if both are written the same.
#[derive(Clone, Debug)]
pub(crate) struct SketchModel(pub(crate) Box<Sketch>);

impl PartialEq for SketchModel {
    fn eq(&self, other: &Self) -> bool {
        let encoded = |sketch: &SketchModel| Model::Sketch(Some(sketch.clone())).encode(false, false).1;
        encoded(self) == encoded(other)
    }
}

/// A stream, which equals another one if both are written the same.
#[derive(Clone, Debug)]
pub(crate) struct StreamModel(pub(crate) Stream);

impl PartialEq for StreamModel {
    fn eq(&self, other: &Self) -> bool {
        let encoded = |stream: &StreamModel| Model::Stream(stream.clone()).encode(false, false).1;
        encoded(self) == encoded(other)
    }
}

impl Model {
    fn new(value_type: ValueType) -> Model {
        let Some(kind) = value_type.kind() else { return Model::Sketch(None) };
        match kind {
            Kind::Str => Model::Str(Vec::new()),
            Kind::List => Model::List(Vec::new()),
            Kind::Set => Model::Set(Vec::new()),
            Kind::ZSet => Model::ZSet(Vec::new()),
            Kind::Hash => Model::Hash(Vec::new()),
            Kind::Stream => Model::Stream(StreamModel(Stream::new())),
            Kind::Bloom | Kind::Cuckoo | Kind::CountMin | Kind::TopK | Kind::TDigest => {
                unreachable!("a sketch says itself which it is")
            }
        }
    }

    /// Takes a part; duplicates are not noticed.
    fn add(&mut self, part: Part) {
        match (self, part) {
            (Model::Str(string), Part::Str(whole)) => *string = whole,
            (Model::List(list), Part::Element(element)) => list.push(element.to_vec()),
            (Model::Set(set), Part::Member(member)) => set.push(member.to_vec()),
            (Model::ZSet(zset), Part::Scored(member, score)) => {
                assert!(!score.is_nan());
                zset.push((member.to_vec(), score));
            }
            (Model::Hash(hash), Part::Field(field, value, expiry)) => {
                hash.push((field.to_vec(), value.to_vec(), expiry));
            }
            (Model::Stream(StreamModel(stream)), Part::Entry { id, pairs, begins_node }) => {
                let limits = StreamLimits { node_bytes_max: 0, node_entries_max: usize::from(begins_node) };
                stream.log.append(id, pairs, &limits).expect("it was looked at");
            }
            (Model::Stream(StreamModel(stream)), Part::SameFields { id, values }) => {
                stream.log.append_same(id, values).expect("it was looked at");
            }
            (Model::Stream(StreamModel(stream)), Part::LogEnd { last_id, max_deleted_id, entries_added }) => {
                let log = &mut stream.log;
                (log.last_id, log.max_deleted_id, log.entries_added) =
                    (last_id, max_deleted_id, entries_added);
                log.debug_validate();
            }
            (Model::Stream(StreamModel(stream)), Part::Group { name, group, .. }) => {
                group.debug_validate();
                stream.groups.insert(name.into(), *group);
            }
            (Model::Stream(StreamModel(stream)), Part::Producers(part)) => {
                let _ = part.add_to(&mut stream.producers);
                stream.producers.iter().for_each(|producers| producers.debug_validate());
            }
            (Model::Sketch(place @ None), Part::Sketch(sketch)) => *place = Some(SketchModel(sketch)),
            (model, part) => panic!("{part:?} is no part of {model:?}"),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Model::Str(string) => string.len(),
            Model::List(elements) | Model::Set(elements) => elements.iter().map(Vec::len).sum(),
            Model::ZSet(members) => members.iter().map(|(member, _)| member.len()).sum(),
            Model::Hash(fields) => fields.iter().map(|(field, value, _)| field.len() + value.len()).sum(),
            Model::Stream(StreamModel(stream)) => stream.memory_bytes(),
            Model::Sketch(sketch) => sketch.iter().map(|sketch| sketch.0.memory_bytes()).sum(),
        }
    }

    /// It in one of the encodings that are written: its type and its bytes.
    pub(crate) fn encode(&self, compresses: bool, is_packed: bool) -> (ValueType, Vec<u8>) {
        self.write(compresses, is_packed).expect("memory takes all")
    }

    fn write(&self, compresses: bool, is_packed: bool) -> std::io::Result<(ValueType, Vec<u8>)> {
        let mut encoder = Encoder::new(Vec::new(), compresses);
        let value_type = match self {
            Model::Str(string) => {
                encoder.string(string)?;
                ValueType::Str
            }
            Model::List(elements) => {
                encoder.quicklist(elements.iter().map(Vec::as_slice))?;
                ValueType::ListQuicklist2
            }
            Model::Set(members) => {
                encoder.strings(members.len(), members.iter().map(Vec::as_slice))?;
                ValueType::Set
            }
            Model::ZSet(members) if is_packed => {
                let scores: Vec<String> = members.iter().map(|(_, score)| format!("{score}")).collect();
                let pairs = members.iter().zip(&scores);
                encoder.listpack(pairs.flat_map(|((member, _), score)| [&member[..], score.as_bytes()]))?;
                ValueType::ZSetListpack
            }
            Model::ZSet(members) => {
                encoder.scored(members.len(), members.iter().map(|(member, score)| (&member[..], *score)))?;
                ValueType::ZSet
            }
            Model::Hash(fields) => {
                let items = fields.iter().flat_map(|(field, value, _)| [&field[..], value]);
                if let Some(earliest) = fields.iter().filter_map(|(.., expiry)| *expiry).min() {
                    let fields =
                        fields.iter().map(|(field, value, expiry)| (&field[..], &value[..], *expiry));
                    encoder.expiring_fields(earliest, fields.len(), fields)?;
                    ValueType::HashExpiring
                } else if is_packed {
                    encoder.listpack(items)?;
                    ValueType::HashListpack
                } else {
                    encoder.length(fields.len() as u64)?;
                    for item in items {
                        encoder.string(item)?;
                    }
                    ValueType::Hash
                }
            }
            Model::Stream(StreamModel(stream)) => {
                encoder.stream(stream)?;
                encoder.style().stream_type_of(stream)
            }
            Model::Sketch(sketch) => {
                encoder.sketch(&sketch.as_ref().expect("it was read").0)?;
                ValueType::Module
            }
        };
        Ok((value_type, encoder.finish()?))
    }
}

/// Hands out its bytes one by one.
pub(crate) struct Dribble<'a>(pub(crate) &'a [u8]);

impl Read for Dribble<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = usize::from(!into.is_empty());
        self.0.read(&mut into[..count])
    }
}

/// Reads a value of this type; the error as a text.
pub(crate) fn read(source: impl Read, value_type: ValueType) -> Result<Model, String> {
    let mut model = Model::new(value_type);
    read_value(&mut Reader::new(source), value_type, &mut |part| {
        model.add(part);
        true
    })
    .map_err(|error| error.to_string())?;
    Ok(model)
}

/// Any bytes as the value of a key: type and value, as in a payload.
pub(crate) fn check_value(input: &[u8]) {
    let Some((&code, bytes)) = input.split_first() else { return };
    let Ok(value_type) = ValueType::from_code(code, Family::Redis) else { return };
    let found = read(bytes, value_type);
    assert_eq!(found, read(Dribble(bytes), value_type));
    check_skipping(bytes, value_type);
    let Ok(model) = found else { return };
    assert!(model.bytes() <= EXPANSION_MAX * bytes.len());
    for (compresses, is_packed) in [(false, false), (true, false), (false, true), (true, true)] {
        let (value_type, encoded) = model.encode(compresses, is_packed);
        assert_eq!(read(&encoded[..], value_type).as_ref(), Ok(&model));
    }
}

/// Skipping a value ends where reading it ends, if it can be read.
fn check_skipping(bytes: &[u8], value_type: ValueType) {
    let part = |is_read: bool| {
        let mut part = FileReader::of_part(bytes, 0, false);
        let done = match is_read {
            true => part.value(value_type, &mut |_| true),
            false => part.skip_value(value_type),
        };
        done.is_ok().then_some(part.offset())
    };
    if let Some(end) = part(true) {
        assert_eq!(part(false), Some(end));
    }
}

/// A text of every item of a file.
fn items(source: impl Read) -> Vec<String> {
    match FileReader::new(source, true) {
        Ok(file) => items_of(file),
        Err(error) => vec![error.to_string()],
    }
}

/// A text of every item of a file that is first cut into parts of `count` items.
fn items_of_parts(input: &[u8], count: usize) -> Result<Vec<String>, Error> {
    let mut file = FileReader::new(input, false)?;
    let mut borders = vec![file.offset()];
    loop {
        let border = file.offset();
        let item = file.next_item()?;
        if let Item::Key(key) = &item {
            file.skip_value(key.value_type)?;
        }
        let is_end = matches!(item, Item::End);
        borders.push(if is_end { border } else { file.offset() });
        if is_end {
            break;
        }
    }
    let last = borders.len() - 1;
    let ends = borders.iter().enumerate().filter(|(index, _)| index % count == 0 || *index == last);
    let ends: Vec<usize> = ends.map(|(_, offset)| *offset as usize).collect();
    let (mut found, mut sum) = (Vec::new(), Checksum::of(&input[..ends[0]]));
    for range in ends.windows(2) {
        let (from, bytes) = (range[0] as u64, &input[range[0]..range[1]]);
        let mut part = items_of(FileReader::of_part(Dribble(bytes), from, false).of_family(file.family()));
        assert_eq!(part.pop().as_deref(), Some("Ok(End)"));
        found.extend(part);
        sum = sum.then(Checksum::of(bytes));
    }
    file.verify(sum)?;
    found.push("Ok(End)".to_owned());
    Ok(found)
}

fn items_of<R: Read>(mut file: FileReader<R>) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let item = file.next_item();
        found.push(format!("{item:?}"));
        match item {
            Err(_) | Ok(Item::End) => return found,
            Ok(Item::Key(key)) => {
                let mut model = Model::new(key.value_type);
                let read = file.value(key.value_type, &mut |part| {
                    model.add(part);
                    true
                });
                found.push(format!("{model:?} {read:?}"));
                if read.is_err() {
                    return found;
                }
            }
            Ok(_) => {}
        }
    }
}

/// Any bytes as a file.
pub(crate) fn check_file(input: &[u8]) -> Vec<String> {
    let found = items(input);
    assert_eq!(found, items(Dribble(input)));
    if found.last().is_some_and(|last| last == "Ok(End)") {
        for count in [1, 3, usize::MAX] {
            assert_eq!(items_of_parts(input, count).expect("it can be read"), found);
        }
    }
    found
}

/// A part with a frame for each of `contents`.
pub(crate) fn part(id: u64, number: u32, contents: &[Vec<u8>]) -> Vec<u8> {
    let mut part = part_head(id, number).to_vec();
    contents.iter().for_each(|content| _ = write_frames(content, &mut part).expect("memory takes it"));
    part
}

/// Any bytes as a part of a snapshot, and as the frames and the items of one.
pub(crate) fn check_part(input: &[u8]) {
    let mut of_items = part_head(0, 0).to_vec();
    write_frames(input, &mut of_items).expect("memory takes it");
    for bytes in [input, &[&part_head(0, 0)[..], input].concat(), &of_items] {
        let frames = |source| FrameReader::new(source, 0, 0, bytes.len() as u64);
        let found = items_of(FileReader::of_part(frames(bytes), 0, false));
        let mut part = FileReader::of_part(frames(bytes), 0, false);
        let error = loop {
            match part.next_item() {
                Ok(Item::End) => break None,
                Ok(Item::Key(key)) => match part.skip_value(key.value_type) {
                    Ok(()) => {}
                    Err(error) => break Some(error),
                },
                Ok(_) => {}
                Err(error) => break Some(error),
            }
        };
        if let Some(error) = error {
            assert_ne!(found.last().map(String::as_str), Some("Ok(End)"));
            let error = part.source_mut().located(error);
            assert!(error.offset <= bytes.len() as u64 && !matches!(error.why, Why::Io(_)), "{error}");
        }
    }
}

/// The manifest with these lines, and the checksum that they have.
pub(crate) fn decode_lines(lines: &[u8]) -> Result<Manifest, Error> {
    let text = [b"DARTER-SNAPSHOT 1\n", lines].concat();
    let checksum = Checksum::of(&text).value();
    Manifest::decode(&[&text[..], format!("crc64 {checksum:016x}\n").as_bytes()].concat())
}

/// Any text as the lines of a manifest.
pub(crate) fn check_manifest(lines: &[u8]) {
    let _ = Manifest::decode(lines);
    if let Ok(manifest) = decode_lines(lines) {
        let text = manifest.encode();
        assert!(text.as_bytes()[b"DARTER-SNAPSHOT 1\n".len()..].starts_with(lines));
        assert_eq!(Manifest::decode(text.as_bytes()).expect("it is whole"), manifest);
    }
}

/// Reads any bytes as the libraries of a payload. Returns the libraries before the first that is invalid, and
/// what is wrong with that one.
pub(crate) fn check_libraries(input: &[u8]) -> (Vec<Vec<u8>>, Option<NoLibrary>) {
    let mut codes = Vec::new();
    for code in Libraries::new(input) {
        match code {
            Ok(code) => codes.push(code),
            Err(why) => return (codes, Some(why)),
        }
    }
    assert!(codes.iter().map(Vec::len).sum::<usize>() <= EXPANSION_MAX * input.len());
    for compresses in [false, true] {
        let mut encoder = Encoder::new(Vec::new(), compresses);
        codes.iter().for_each(|code| encoder.function(code).expect("memory takes it"));
        let encoded = encoder.finish().expect("memory takes it");
        assert!(Libraries::new(&encoded).map(Result::unwrap).eq(codes.iter().cloned()));
    }
    (codes, None)
}
