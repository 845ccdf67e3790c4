//! Properties that must hold for any bytes, used by the tests here and by the fuzz targets.
//!
//! - Files and words of an operator: they are accepted or refused, and no refusal tells the password.
//! - The wire: plain text is only text that the other side has sent, in its order, however bytes are changed
//!   on the way.
//! - Names in certificates: text, or no name.

use std::fs;
use std::rc::Rc;
use std::sync::Arc;

use proactor::{Codec, InputBuffer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use scratch::Scratch;
use tls::{
    Authentication, Handshakes, Identity, Options, Secured, client_config, common_name, server_config,
};

/// The secret that no error may show.
const PASSWORD: &str = "secret";
/// The words of the client once the handshake is done.
const WORDS: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// Good files, and those that are changed.
struct Fixture {
    folder: Scratch,
    options: Options,
    identity: Identity,
    certificate: Vec<u8>,
}

thread_local! {
    /// One for each thread, which is one for each test: they change files at the same time. Its folder goes
    /// with the thread.
    static FIXTURE: Rc<Fixture> = Rc::new(Fixture::new());
}

fn fixture() -> Rc<Fixture> {
    FIXTURE.with(Rc::clone)
}

impl Fixture {
    fn new() -> Fixture {
        let folder = Scratch::new("tls-checks");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a good name");
        params.distinguished_name.push(DnType::CommonName, "alice");
        let mut authority = params.clone();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = || KeyPair::generate().expect("a key can be made");
        let authority = CertifiedIssuer::self_signed(authority, key()).expect("it can be signed");
        let own = key();
        let certificate = params.signed_by(&own, &authority).expect("it can be signed");
        let options = Options {
            cert_file: folder.file("cert.pem", &certificate.pem()),
            key_file: folder.file("key.pem", &own.serialize_pem()),
            ca_cert_file: folder.file("ca.pem", &authority.pem()),
            authentication: Authentication::Optional,
            ..Options::default()
        };
        let identity = Identity::read(&options).expect("the files are good");
        Fixture { certificate: certificate.der().to_vec(), folder, identity, options }
    }
}

/// Changes `bytes` as `edits` say: two bytes of a place, one to put there.
fn edit(bytes: &mut [u8], edits: &[u8]) {
    for edit in edits.chunks_exact(3) {
        let place = usize::from(u16::from_be_bytes([edit[0], edit[1]]));
        if let Some(byte) = bytes.get_mut(place) {
            *byte = edit[2];
        }
    }
}

/// Makes both sides from the options and files; errors must not tell the password.
fn configure(options: &Options) {
    let made = Identity::read(options)
        .and_then(|identity| server_config(options, &identity).and(client_config(options, &identity)));
    if let Err(error) = made {
        let told = error.to_string();
        assert!(!told.contains(PASSWORD), "{told}");
    }
}

/// Any bytes as files: each in turn in the place of a good one, as they are and as changes of a good one.
pub(crate) fn check_files(input: &[u8]) {
    const KEY: &str = include_str!("../encrypted_key.pem");
    let fixture = fixture();
    let good = &fixture.options;
    let path = fixture.folder.path("changed.pem");
    let changed = |bytes: &[u8]| {
        fs::write(&path, bytes).expect("it can be written");
        path.clone()
    };
    let key_file_pass = PASSWORD.to_owned();
    let cert = |file: String| Options { cert_file: file, ..good.clone() };
    let key = |file: String| Options { key_file: file, key_file_pass: key_file_pass.clone(), ..good.clone() };
    let ca = |file: String| Options { ca_cert_file: file, ..good.clone() };
    let ca_folder =
        Options { ca_cert_file: String::new(), ca_cert_dir: fixture.folder.path(""), ..good.clone() };
    let Some((kind, input)) = input.split_first() else { return };
    let mut text = match kind % 7 {
        0 => return configure(&cert(changed(input))),
        1 => return configure(&key(changed(input))),
        2 => return configure(&ca(changed(input))),
        3 => {
            changed(input);
            return configure(&ca_folder);
        }
        4 => fs::read(&good.cert_file).expect("it was written"),
        5 => fs::read(&good.key_file).expect("it was written"),
        _ => KEY.as_bytes().to_vec(),
    };
    edit(&mut text, input);
    match kind % 7 {
        4 => {
            let file = changed(&text);
            configure(&cert(file.clone()));
            configure(&ca(file));
        }
        _ => configure(&key(changed(&text))),
    }
}

/// Any words as lists of versions and suites, one list a line: lists that are accepted make both sides.
pub(crate) fn check_words(input: &[u8]) {
    let fixture = fixture();
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut lines = text.split('\n').map(str::to_owned);
    let mut line = || lines.next().unwrap_or_default();
    let options = Options {
        protocols: line(),
        ciphers: line(),
        ciphersuites: line(),
        prefer_server_ciphers: true,
        ..fixture.options.clone()
    };
    let good = &fixture.identity;
    let sides = (server_config(&options, good).is_ok(), client_config(&options, good).is_ok());
    assert_eq!(sides.0, sides.1, "{text:?}");
}

/// Both sides of a new connection.
fn sides(protocols: &str) -> (Secured, Secured) {
    let options = Options { protocols: protocols.to_owned(), ..fixture().options.clone() };
    let identity = Identity::read(&options).expect("the files are good");
    let handshake = Arc::new(Handshakes::default()).begin(1).expect("it is the first");
    let config = server_config(&options, &identity).expect("the files are good");
    let server = Secured::accepted(&config, handshake, "peer").expect("the configuration is good");
    let config = client_config(&options, &identity).expect("the files are good");
    (server, Secured::dialed(&config).expect("the configuration is good"))
}

/// Gives `wire` in pieces. Returns the plain bytes that come out, and whether every piece was accepted.
fn receive(side: &mut Secured, wire: &[u8], piece: usize) -> (Vec<u8>, bool) {
    let mut plain = InputBuffer::default();
    let taken = wire.chunks(piece.max(1)).all(|wire| side.receive(wire, &mut plain).is_ok());
    (plain.as_slice().to_vec(), taken)
}

/// Sends any bytes on the wire, before the handshake or after it, to either side: they must not come out as
/// text.
pub(crate) fn check_wire(input: &[u8]) {
    let Some((kind, input)) = input.split_first() else { return };
    let protocols = if kind & 1 == 0 { "TLSv1.3" } else { "TLSv1.2" };
    let (to_server, is_done) = (kind & 2 == 0, kind & 4 == 0);
    let hear = |piece: usize| {
        let (mut server, mut client) = sides(protocols);
        if is_done {
            assert!(converse(&mut server, &mut client, &[], 0), "nothing was changed");
        }
        let side = if to_server { &mut server } else { &mut client };
        let (plain, is_taken) = receive(side, input, piece);
        assert_eq!(plain, b"", "text that nobody has sent");
        // The side may have a last word to send, no matter what it received.
        side.send(&[], &mut Vec::new());
        is_taken
    };
    assert_eq!(hear(input.len()), hear(1 + input.len() / 3));
}

/// A conversation in which one flight is changed on its way: the words of the client come as they are, or not
/// at all.
pub(crate) fn check_changed_flight(input: &[u8]) {
    let Some((kind, edits)) = input.split_first() else { return };
    let (mut server, mut client) = sides(if kind & 1 == 0 { "TLSv1.3" } else { "TLSv1.2" });
    if !converse(&mut server, &mut client, edits, usize::from(kind >> 1) % 5) {
        return;
    }
    assert!(server.is_ready() && client.is_ready());
    let mut wire = Vec::new();
    client.send(WORDS, &mut wire);
    assert_eq!(receive(&mut server, &wire, wire.len()), (WORDS.to_vec(), true));
    client.send(WORDS, &mut wire);
    let mut changed = wire.split_off(wire.len() - WORDS.len() - 16);
    edit(&mut changed, edits);
    let (plain, _) = receive(&mut server, &changed, 7);
    assert!(plain.is_empty() || plain == WORDS, "{}", plain.escape_ascii());
}

/// Passes the bytes of both sides on until they are silent, with the flight of this number changed. Returns
/// whether both are ready.
fn converse(server: &mut Secured, client: &mut Secured, edits: &[u8], changed: usize) -> bool {
    let (mut from, mut to) = (client, server);
    for number in 0..10 {
        let mut wire = Vec::new();
        from.send(&[], &mut wire);
        if number == changed {
            edit(&mut wire, edits);
        }
        let (plain, is_taken) = receive(to, &wire, wire.len());
        assert_eq!(plain, b"", "nobody has said anything yet");
        if !is_taken {
            return false;
        }
        std::mem::swap(&mut from, &mut to);
    }
    from.is_ready() && to.is_ready()
}

/// Reads the name in any bytes, and in a good certificate that is changed: it is text, or the certificate has
/// no name.
pub(crate) fn check_name(input: &[u8]) {
    let _ = common_name(&input.into());
    let fixture = fixture();
    let mut certificate = fixture.certificate.clone();
    edit(&mut certificate, input);
    let is_same = certificate == fixture.certificate;
    let name = common_name(&certificate.into());
    assert!(!is_same || name.as_deref() == Some("alice"));
}
