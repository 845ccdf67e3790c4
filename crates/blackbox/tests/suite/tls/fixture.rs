//! A certificate authority, the certificates that it issues, and servers and clients that use them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use blackbox::{Client, PATIENCE, Scratch, Server, check, free_port};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

pub(crate) type Secure = StreamOwned<ClientConnection, TcpStream>;

/// A certificate authority, and the folder for the files that it issues.
pub(crate) struct Authority {
    pub(crate) issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) scratch: Scratch,
    pub(crate) name: &'static str,
}

/// A certificate and its key (PEM).
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

fn params(name: &str) -> CertificateParams {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).expect("they are names");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    pub(crate) fn new(name: &'static str) -> Authority {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("there is randomness");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("it signs itself");
        let authority = Authority { issuer, scratch: Scratch::new(name), name };
        authority.scratch.file("ca.pem", &authority.issuer.pem());
        authority
    }

    pub(crate) fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.signed_by(&key, &self.issuer).expect("it signs");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    pub(crate) fn issue(&self, name: &str) -> Identity {
        self.sign(&params(name))
    }

    pub(crate) fn issue_expired(&self, name: &str) -> Identity {
        let mut params = params(name);
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        self.sign(&params)
    }

    /// Puts these files where the server reads its own.
    pub(crate) fn serve_as(&self, identity: &Identity) {
        self.scratch.file("server.pem", &identity.certificate);
        self.scratch.file("server.key", &identity.key);
    }

    /// Options of a server with TLS.
    pub(crate) fn options(&self) -> Vec<String> {
        let paths = [("cert", "server.pem"), ("key", "server.key"), ("ca-cert", "ca.pem")];
        let file = |(what, name): (&str, &str)| [format!("--tls-{what}-file"), self.scratch.path(name)];
        paths.into_iter().flat_map(file).collect()
    }

    /// A client's configuration: the authority that it trusts, and its own certificate.
    pub(crate) fn client_config(&self, identity: Option<&Identity>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let pem = self.issuer.pem();
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")).expect("it is an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM"),
                )
                .expect("they fit"),
        })
    }
}

/// A server with a port for TLS and one without.
pub(crate) struct Secured {
    pub(crate) server: Server,
    pub(crate) port: u16,
    pub(crate) authority: Authority,
}

pub(crate) fn secured_on(authority: Authority, io: &str, more: &[&str]) -> Secured {
    let port = free_port().expect("a port is free");
    let mut options = authority.options();
    options.extend(["--tls-port".to_owned(), port.to_string()]);
    let options: Vec<&str> = options.iter().map(String::as_str).chain(more.iter().copied()).collect();
    Secured { server: Server::start(2, io, &options), port, authority }
}

pub(crate) fn secured(name: &'static str, more: &[&str]) -> Secured {
    let authority = Authority::new(name);
    authority.serve_as(&authority.issue("server"));
    secured_on(authority, "auto", more)
}

/// A connection without TLS.
pub(crate) fn dial_plain(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    stream
}

/// A connection whose handshake happens with the first request.
pub(crate) fn dial(port: u16, config: Arc<ClientConfig>) -> Secure {
    secure(dial_plain(port), config)
}

fn secure(tcp: TcpStream, config: Arc<ClientConfig>) -> Secure {
    let name = ServerName::try_from("localhost").expect("it is a name");
    StreamOwned::new(ClientConnection::new(config, name).expect("the configuration is good"), tcp)
}

impl Secured {
    pub(crate) fn tcp(&self) -> TcpStream {
        dial_plain(self.port)
    }

    pub(crate) fn connect(&self, identity: Option<&Identity>) -> Client<Secure> {
        self.connect_with(self.authority.client_config(identity))
    }

    pub(crate) fn connect_with(&self, config: Arc<ClientConfig>) -> Client<Secure> {
        Client::over(dial(self.port, config))
    }

    /// A client on this connection.
    pub(crate) fn over(&self, tcp: TcpStream, identity: &Identity) -> Client<Secure> {
        Client::over(secure(tcp, self.authority.client_config(Some(identity))))
    }

    /// Whether a client with this configuration is served.
    pub(crate) fn serves(&self, config: Arc<ClientConfig>) -> bool {
        let mut client = self.connect_with(config);
        let stream = client.stream();
        let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.flush());
        let mut reply = [0; 7];
        asked.is_ok() && stream.read_exact(&mut reply).is_ok() && &reply == b"+PONG\r\n"
    }

    /// The certificate that the server presents on a new connection.
    pub(crate) fn shown(&self, client: &Identity) -> Vec<u8> {
        let mut client = self.connect(Some(client));
        check(&mut client, "PING", "PONG");
        client.stream().conn.peer_certificates().expect("it was shown")[0].to_vec()
    }
}

/// Reads until the peer closes. Returns what arrived.
pub(crate) fn read_to_end(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    bytes
}
