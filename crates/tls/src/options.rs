//! The options that an operator gives, as text. The fields are named like the settings.

use std::time::Duration;

/// Whether clients need certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// Clients are not asked for a certificate.
    No,
    /// Clients may send a certificate, which must be valid.
    Optional,
    /// Clients must send a valid certificate.
    #[default]
    Required,
}

/// Which sessions may be resumed. That makes the next handshake of the same client cheaper.
#[derive(Clone, Copy, Debug)]
pub struct Caching {
    /// How many sessions are kept.
    pub count_max: usize,
    /// How long each is kept.
    pub timeout: Duration,
}

/// See the head of this file. An empty text means: not set.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `tls-cert-file`: the server's certificate, and those between it and its authority.
    pub cert_file: String,
    /// `tls-key-file`: its key.
    pub key_file: String,
    /// `tls-key-file-pass`: the password of the key file.
    pub key_file_pass: String,
    /// `tls-client-cert-file`: the certificate for connections to other servers, if it is another one.
    pub client_cert_file: String,
    /// `tls-client-key-file`: its key.
    pub client_key_file: String,
    /// `tls-client-key-file-pass`: the password of that key file.
    pub client_key_file_pass: String,
    /// `tls-ca-cert-file`: certificates of authorities.
    pub ca_cert_file: String,
    /// `tls-ca-cert-dir`: a folder with certificates of authorities.
    pub ca_cert_dir: String,
    /// `tls-auth-clients`.
    pub authentication: Authentication,
    /// `tls-protocols`: versions.
    pub protocols: String,
    /// `tls-ciphers`: suites of TLS 1.2, by OpenSSL's names.
    pub ciphers: String,
    /// `tls-ciphersuites`: suites of TLS 1.3.
    pub ciphersuites: String,
    /// `tls-prefer-server-ciphers`: the server's order of suites decides.
    pub prefer_server_ciphers: bool,
    /// `tls-session-caching`, `-size` and `-timeout`; `None`: sessions are not resumed.
    pub caching: Option<Caching>,
}
