//! TLS for a client: the trusted certificates, and the handshake of a session. The load then uses it as a codec of
//! the driver's connections (`tls::Secured`).

use std::fs::File;
use std::io::{self, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// What a client trusts over TLS, and its own certificate. The names are redis-cli's.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Trust {
    /// Over TLS: certificates (PEM) that sign the server's; without it, those of the system.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Over TLS: accept any certificate.
    #[arg(long)]
    insecure: bool,
    /// Over TLS: the client's certificate (PEM), for servers that ask for one.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Over TLS: the private key of --cert (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Over TLS: the name that the server's certificate must have, if not the host's.
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
}

/// How to establish TLS on a connection.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: Option<String>,
}

impl Trust {
    /// Reads the files.
    ///
    /// # Errors If one cannot be read or does not contain what it should. The text names the file.
    pub(crate) fn tls(&self) -> io::Result<Tls> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let builder = if self.insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(TrustAll(aws_lc_rs::default_provider())))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let config = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let key_der = PrivateKeyDer::from_pem_reader(open(key)?).map_err(|error| bad(key, &error))?;
                builder
                    .with_client_auth_cert(certificates(cert)?, key_der)
                    .map_err(|error| bad(cert, &error))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Tls { config: Arc::new(config), name: self.sni.clone() })
    }

    fn roots(&self) -> io::Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        match &self.cacert {
            Some(path) => {
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| bad(path, &error))?;
                }
            }
            // rustls may not understand some of the system's certificates.
            None => _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
        }
        Ok(roots)
    }
}

fn open(path: &Path) -> io::Result<BufReader<File>> {
    File::open(path).map(BufReader::new).map_err(|error| bad(path, &error))
}

fn bad(path: &Path, error: &dyn std::error::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_reader_iter(open(path)?)
        .collect::<Result<_, _>>()
        .map_err(|error| bad(path, &error))?;
    if found.is_empty() {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("{}: no certificate", path.display())));
    }
    Ok(found)
}

impl Tls {
    /// A session with the server on this host. The handshake starts with the first bytes that are transferred.
    pub(crate) fn session(&self, host: &str) -> io::Result<ClientConnection> {
        let name = self.name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        // The pipeline bounds what is sent at once.
        session.set_buffer_limit(None);
        Ok(session)
    }
}

/// Accepts any certificate, but checks that the server has its private key.
#[derive(Debug)]
struct TrustAll(CryptoProvider);

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
