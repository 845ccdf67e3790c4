//! What an operator asks for, as text. The fields are named like the settings.

use std::time::Duration;

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// They are not asked for one.
    No,
    /// One that is shown must be good.
    Optional,
    /// Each must show a good one.
    #[default]
    Required,
}

/// Which sessions may be resumed, so that the next handshake of the same client costs less.
#[derive(Clone, Copy, Debug)]
pub struct Caching {
    /// Sessions that are kept.
    pub count_max: usize,
    /// How long each is.
    pub timeout: Duration,
}

/// See the head of this file. Empty texts: not given.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `tls-cert-file`: the server's certificate, and those between it and its authority.
    pub cert_file: String,
    /// `tls-key-file`: the key to it.
    pub key_file: String,
    /// `tls-key-file-pass`: the password of the key's file.
    pub key_file_pass: String,
    /// `tls-client-cert-file`: the certificate that is shown to other servers, if not the same.
    pub client_cert_file: String,
    /// `tls-client-key-file`: the key to it.
    pub client_key_file: String,
    /// `tls-client-key-file-pass`: the password of that key's file.
    pub client_key_file_pass: String,
    /// `tls-ca-cert-file`: certificates of authorities.
    pub ca_cert_file: String,
    /// `tls-ca-cert-dir`: a folder with files of such.
    pub ca_cert_dir: String,
    /// `tls-auth-clients`.
    pub authentication: Authentication,
    /// `tls-protocols`: versions.
    pub protocols: String,
    /// `tls-ciphers`: suites of TLS 1.2, by OpenSSL's names.
    pub ciphers: String,
    /// `tls-ciphersuites`: suites of TLS 1.3.
    pub ciphersuites: String,
    /// `tls-prefer-server-ciphers`: the server's order of suites counts.
    pub prefer_server_ciphers: bool,
    /// `tls-session-caching`, `-size` and `-timeout`; `None`: nothing is resumed.
    pub caching: Option<Caching>,
}
