//! Both sides of a connection, through the codec, with certificates of an own authority.

use std::sync::Arc;

use proactor::{Codec, Heard, InputBuffer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use scratch::Scratch;
use tls::{Authentication, Handshakes, Identity, Options, Secured, client_config, server_config};

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("it can be made");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = params("authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("it can be made"))
        .expect("it can be made")
}

/// A certificate of `authority`, and its key.
fn issue(authority: &CertifiedIssuer<'static, KeyPair>, name: &str) -> (String, String) {
    let key = KeyPair::generate().expect("it can be made");
    let certificate = params(name).signed_by(&key, authority).expect("it can be made");
    (certificate.pem(), key.serialize_pem())
}

/// Options of a server with a certificate of its own, which also dials with it.
fn options(folder: &Scratch, name: &str) -> Options {
    let authority = authority();
    let (certificate, key) = issue(&authority, name);
    Options {
        cert_file: folder.file("cert.pem", &certificate),
        key_file: folder.file("key.pem", &key),
        ca_cert_file: folder.file("ca.pem", &authority.pem()),
        ..Options::default()
    }
}

/// Passes the bytes of either side on until both are silent. Returns the first error.
fn converse(one: &mut Secured, other: &mut Secured) -> Result<(), std::io::ErrorKind> {
    let mut plain = InputBuffer::default();
    while one.has_words() || other.has_words() {
        for _ in 0..2 {
            let mut wire = Vec::new();
            one.send(&[], &mut wire);
            other.receive(&wire, &mut plain)?;
            std::mem::swap(one, other);
        }
    }
    Ok(())
}

fn pair(server: &Options, client: &Options) -> (Secured, Secured, Arc<tls::Handshake>) {
    let handshake = Arc::new(Handshakes::default()).begin(1).expect("it can be made");
    let config =
        server_config(server, &Identity::read(server).expect("it can be made")).expect("it can be made");
    let accepted = Secured::accepted(&config, handshake.clone(), "peer").expect("it can be made");
    let dialed = Secured::dialed(
        &client_config(client, &Identity::read(client).expect("it can be made")).expect("it can be made"),
    )
    .expect("it can be made");
    (accepted, dialed, handshake)
}

#[test]
fn bytes_arrive_however_the_wire_cuts_them() {
    let folder = Scratch::new("bytes");
    let options = options(&folder, "alice");
    let (mut server, mut client, handshake) = pair(&options, &options);
    assert!(!handshake.is_over() && !server.is_ready());
    converse(&mut client, &mut server).unwrap();
    assert!(handshake.is_over() && server.is_ready());
    assert_eq!(handshake.common_name(), Some("alice"));
    let (mut wire, mut plain) = (Vec::new(), InputBuffer::default());
    let words = vec![b'x'; proactor::PLAIN_BYTES_MAX];
    client.send(&words, &mut wire);
    client.send(b"end", &mut wire);
    for byte in wire.drain(..) {
        assert_eq!(server.receive(&[byte], &mut plain), Ok(Heard::More));
    }
    assert_eq!(plain.as_slice(), [&words[..], b"end"].concat());
    client.finish(&mut wire);
    assert_eq!(server.receive(&wire, &mut plain), Ok(Heard::Goodbye));
}

#[test]
fn strangers_are_refused_unless_nobody_asks() {
    let (folder, other) = (Scratch::new("own"), Scratch::new("foreign"));
    let (mut own, foreign) = (options(&folder, "server"), options(&other, "stranger"));
    let trusting = Options { ca_cert_file: own.ca_cert_file.clone(), ..foreign.clone() };
    let bare = Options {
        cert_file: String::new(),
        key_file: String::new(),
        ca_cert_file: own.ca_cert_file.clone(),
        ..Options::default()
    };
    for (authentication, takes_stranger, takes_bare) in [
        (Authentication::Required, false, false),
        (Authentication::Optional, false, true),
        (Authentication::No, true, true),
    ] {
        own.authentication = authentication;
        for (client, is_taken) in [(&trusting, takes_stranger), (&bare, takes_bare), (&own, true)] {
            let (mut server, mut client, _) = pair(&own, client);
            let outcome = converse(&mut client, &mut server);
            assert_eq!(outcome.is_ok(), is_taken, "{authentication:?}");
        }
    }
    // Nor does a client trust a server that another authority vouches for.
    let (mut server, mut client, _) = pair(&own, &foreign);
    assert!(converse(&mut client, &mut server).is_err());
}

/// Two servers that share one self-signed certificate, which each names as its authority, as with OpenSSL.
#[test]
fn one_certificate_may_be_that_of_both_sides_and_their_authority() {
    let alone = |name: &str, change: &dyn Fn(&mut CertificateParams)| {
        let (folder, mut params) = (Scratch::new(name), params("alone"));
        change(&mut params);
        let key = KeyPair::generate().expect("it can be made");
        let certificate = params.self_signed(&key).expect("it can be made").pem();
        let options = Options {
            cert_file: folder.file("cert.pem", &certificate),
            key_file: folder.file("key.pem", &key.serialize_pem()),
            ca_cert_file: folder.file("ca.pem", &certificate),
            ..Options::default()
        };
        (folder, options)
    };
    let authority = |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let check = |one: &Options, other: &Options, is_accepted: bool| {
        let (mut server, mut client, _) = pair(one, other);
        assert_eq!(converse(&mut client, &mut server).is_ok(), is_accepted, "{one:?} {other:?}");
    };
    let (_one, one) = alone("alone", &authority);
    check(&one, &one, true);
    let (_plain, plain) = alone("plain", &|_| {});
    check(&plain, &plain, true);
    // Another one with the same names, and one that is not valid any more.
    let (_other, other) = alone("other", &authority);
    check(&one, &other, false);
    let trusting = Options { ca_cert_file: one.ca_cert_file.clone(), ..other.clone() };
    check(&one, &trusting, false);
    check(&trusting, &one, false);
    let (_expired, expired) = alone("expired", &|params| {
        authority(params);
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    check(&expired, &expired, false);
}

#[test]
fn plain_text_is_answered_with_an_alert() {
    let folder = Scratch::new("plain");
    let options = options(&folder, "server");
    let (mut server, _, _) = pair(&options, &options);
    assert!(server.receive(b"*1\r\n$4\r\nPING\r\n", &mut InputBuffer::default()).is_err());
    let mut wire = Vec::new();
    server.send(&[], &mut wire);
    assert_eq!(wire[0], 21, "it is an alert");
}

#[test]
fn so_many_handshakes_may_be_under_way() {
    let all = Arc::new(Handshakes::default());
    let folder = Scratch::new("limit");
    let options = options(&folder, "server");
    let config = server_config(&options, &Identity::read(&options).unwrap()).unwrap();
    let first = Secured::accepted(&config, all.begin(1).unwrap(), "peer").unwrap();
    assert!(all.begin(1).is_none());
    assert_eq!(all.count(), 1);
    drop(first);
    assert_eq!(all.count(), 0);
    assert!(all.begin(1).is_some());
}

#[test]
fn what_is_wrong_with_files_is_said_by_name() {
    let folder = Scratch::new("wrong");
    let good = options(&folder, "server");
    let (_, other_key) = issue(&authority(), "other");
    let rubbish = folder.file("rubbish.pem", "no certificate");
    let (missing, other) =
        (format!("{}/no.pem", folder.folder().display()), folder.file("other.pem", &other_key));
    let check = |options: Options, expected: &str| {
        let made = Identity::read(&options).and_then(|identity| server_config(&options, &identity));
        assert_eq!(made.map(drop).unwrap_err().to_string(), expected);
    };
    check(Options::default(), "No tls-cert-file configured!");
    check(
        Options { ca_cert_file: String::new(), ..good.clone() },
        "No tls-ca-cert-file or tls-ca-cert-dir configured! It names the authorities that vouch for clients; without one, set tls-auth-clients to no",
    );
    check(
        Options { cert_file: rubbish.clone(), ..good.clone() },
        &format!("tls-cert-file: {rubbish}: it contains no certificate (PEM)"),
    );
    check(
        Options { key_file: missing.clone(), ..good.clone() },
        &format!("tls-key-file: cannot read {missing}: No such file or directory (os error 2)"),
    );
    check(
        Options { key_file: other.clone(), ..good.clone() },
        &format!("tls-key-file: {other}: the key does not match the certificate"),
    );
}

#[test]
fn a_key_may_be_encrypted() {
    const KEY: &str = include_str!("encrypted_key.pem");
    let folder = Scratch::new("encrypted");
    let path = folder.file("key.pem", KEY);
    let cert = folder.file("cert.pem", include_str!("encrypted_key_cert.pem"));
    let options = |pass: &str| Options {
        cert_file: cert.clone(),
        key_file: path.clone(),
        key_file_pass: pass.to_owned(),
        authentication: Authentication::No,
        ..Options::default()
    };
    let make = |pass: &str| {
        let options = options(pass);
        Identity::read(&options).and_then(|identity| server_config(&options, &identity)).map(drop)
    };
    make("secret").unwrap();
    let refused = [make("wrong"), make("")].map(|outcome| outcome.unwrap_err().to_string());
    assert!(refused[0].contains("it cannot be decrypted with tls-key-file-pass"), "{}", refused[0]);
    assert_eq!(refused[1], format!("tls-key-file: {path}: it is encrypted; set tls-key-file-pass"));
}
