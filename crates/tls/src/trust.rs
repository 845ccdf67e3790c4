//! Decides which peers are trusted: those with a certificate of a configured authority, and those with the
//! authority's own certificate.
//!
//! rustls accepts no certificate of an authority as that of a server or client. But the simplest way to
//! encrypt the connection of two servers is one self-signed certificate, which both have, and which each
//! names as its authority. OpenSSL, and so Redis, accepts that. So a certificate that is itself among the
//! trusted ones is accepted as long as it is valid. The handshake proves that the peer has its key, as
//! always.
//!
//! Names are not checked, as in Redis: replicas and primaries find each other by addresses, which change.

use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use x509_cert::der::Decode;

type Trusted = Arc<Vec<CertificateDer<'static>>>;

/// Accepts servers.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) roots: RootCertStore,
    pub(crate) trusted: Trusted,
    pub(crate) provider: Arc<CryptoProvider>,
}

/// Accepts clients.
#[derive(Debug)]
pub(crate) struct Clients {
    /// For all but certificates that are themselves trusted.
    pub(crate) inner: Arc<dyn ClientCertVerifier>,
    pub(crate) trusted: Trusted,
}

/// Forgives `error`, with which a certificate was refused, if the certificate is itself trusted and valid
/// now.
fn is_itself_trusted(
    certificate: &CertificateDer<'_>,
    trusted: &Trusted,
    now: UnixTime,
    error: rustls::Error,
) -> Result<(), rustls::Error> {
    if !trusted.contains(certificate) {
        return Err(error);
    }
    let parsed = x509_cert::Certificate::from_der(certificate);
    let parsed = parsed.map_err(|_| rustls::Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let (validity, now) = (parsed.tbs_certificate().validity(), Duration::from_secs(now.as_secs()));
    if now < validity.not_before.to_unix_duration() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > validity.not_after.to_unix_duration() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        ParsedCertificate::try_from(end_entity)
            .and_then(|certificate| {
                verify_server_cert_signed_by_trust_anchor(
                    &certificate,
                    &self.roots,
                    intermediates,
                    now,
                    algorithms,
                )
            })
            .or_else(|error| is_itself_trusted(end_entity, &self.trusted, now, error))?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Clients {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.inner.verify_client_cert(end_entity, intermediates, now).or_else(|error| {
            is_itself_trusted(end_entity, &self.trusted, now, error)?;
            Ok(ClientCertVerified::assertion())
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
