//! Reads certificates and keys from files. The only I/O of this crate is [`read`] and listing a folder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::encrypted::decrypt;
use crate::error::Error;
use crate::options::{Authentication, Options};

/// The largest file. The certificates of a whole system take 250 KiB.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// The most bytes of all files in a folder.
const FOLDER_BYTES_MAX: usize = 64 << 20;
const ENCRYPTED_LABEL: &str = "ENCRYPTED PRIVATE KEY";

/// A certificate, those between it and its authority, and its key.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
    /// The setting and file, for errors.
    pub(crate) setting: &'static str,
    pub(crate) path: String,
}

/// The server's certificates and the authorities that it trusts, as the files were when they were read.
#[derive(Debug)]
pub struct Identity {
    pub(crate) server: Option<Pair>,
    /// The certificate for connections to other servers.
    pub(crate) client: Option<Pair>,
    pub(crate) roots: RootCertStore,
    /// The certificates of the authorities.
    pub(crate) trusted: Arc<Vec<CertificateDer<'static>>>,
}

impl Identity {
    /// Reads all files that `options` names.
    pub fn read(options: &Options) -> Result<Identity, Error> {
        let server = pair(
            ("tls-cert-file", &options.cert_file),
            ("tls-key-file", &options.key_file),
            ("tls-key-file-pass", &options.key_file_pass),
        )?;
        let client = pair(
            ("tls-client-cert-file", &options.client_cert_file),
            ("tls-client-key-file", &options.client_key_file),
            ("tls-client-key-file-pass", &options.client_key_file_pass),
        )?;
        let (mut roots, mut trusted) = (RootCertStore::empty(), Vec::new());
        add_file((&mut roots, &mut trusted), &options.ca_cert_file)?;
        add_folder((&mut roots, &mut trusted), &options.ca_cert_dir)?;
        Ok(Identity { server, client, roots, trusted: Arc::new(trusted) })
    }

    /// The authorities. They must be given if the certificates of clients are checked.
    pub(crate) fn roots_for(&self, authentication: Authentication) -> Result<&RootCertStore, Error> {
        if self.roots.is_empty() && authentication != Authentication::No {
            let hint =
                " It names the authorities that vouch for clients; without one, set tls-auth-clients to no";
            return Err(Error::Missing { setting: "tls-ca-cert-file or tls-ca-cert-dir", hint });
        }
        Ok(&self.roots)
    }
}

/// Reads the file of a setting.
fn read(setting: &'static str, path: &str) -> Result<Vec<u8>, Error> {
    let unreadable = |source| Error::Unreadable { setting, path: path.to_owned(), source };
    read_regular(Path::new(path)).map_err(unreadable)
}

/// Reads a regular file that is not too large, both checked after it was opened. A device or a FIFO might
/// never end, and opening a FIFO might wait for ever.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let size_bytes = metadata.len();
        return Err(io::Error::other(format!(
            "it has {size_bytes} bytes, more than the limit of {FILE_BYTES_MAX}"
        )));
    }
    Ok(bytes)
}

fn unusable(setting: &'static str, path: &str, why: impl ToString) -> Error {
    Error::Unusable { setting, path: path.to_owned(), why: why.to_string() }
}

fn certificates(
    setting: &'static str,
    path: &str,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| unusable(setting, path, error))?;
    if found.is_empty() {
        return Err(unusable(setting, path, "it contains no certificate (PEM)"));
    }
    Ok(found)
}

/// Reads the certificate and key of two settings; `None`: neither names a file.
fn pair(
    (cert_setting, cert_path): (&'static str, &str),
    (key_setting, key_path): (&'static str, &str),
    (pass_setting, pass): (&'static str, &str),
) -> Result<Option<Pair>, Error> {
    match (cert_path.is_empty(), key_path.is_empty()) {
        (true, true) => return Ok(None),
        (true, false) => return Err(Error::Missing { setting: cert_setting, hint: "" }),
        // One file may have both.
        (false, _) => {}
    }
    let key_path = if key_path.is_empty() { cert_path } else { key_path };
    let chain = certificates(cert_setting, cert_path, &read(cert_setting, cert_path)?)?;
    let key = private_key(key_setting, key_path, &read(key_setting, key_path)?, pass_setting, pass)?;
    Ok(Some(Pair { chain, key, setting: key_setting, path: key_path.to_owned() }))
}

fn private_key(
    setting: &'static str,
    path: &str,
    text: &[u8],
    pass_setting: &'static str,
    pass: &str,
) -> Result<PrivateKeyDer<'static>, Error> {
    let wrong = |why: &str| Err(unusable(setting, path, why));
    let has = |words: &str| text.windows(words.len()).any(|window| window == words.as_bytes());
    if has("Proc-Type: 4,ENCRYPTED") {
        return wrong("it uses OpenSSL's old encryption; convert it with 'openssl pkcs8 -topk8'");
    }
    if !has(ENCRYPTED_LABEL) {
        return PrivateKeyDer::from_pem_slice(text).map_err(|error| unusable(setting, path, error));
    }
    if pass.is_empty() {
        return wrong(&format!("it is encrypted; set {pass_setting}"));
    }
    let text = String::from_utf8_lossy(text);
    let begin = text.find(&format!("-----BEGIN {ENCRYPTED_LABEL}")).unwrap_or(0);
    match decrypt(&text[begin..], pass) {
        Ok(key) => Ok(PrivatePkcs8KeyDer::from(key).into()),
        Err(error) => wrong(&format!("it cannot be decrypted with {pass_setting}: {error}")),
    }
}

/// Where authorities are added: for rustls, and as they are.
type Added<'a> = (&'a mut RootCertStore, &'a mut Vec<CertificateDer<'static>>);

fn add_file((roots, trusted): Added<'_>, path: &str) -> Result<(), Error> {
    const SETTING: &str = "tls-ca-cert-file";
    if path.is_empty() {
        return Ok(());
    }
    for certificate in certificates(SETTING, path, &read(SETTING, path)?)? {
        roots.add(certificate.clone()).map_err(|error| unusable(SETTING, path, error))?;
        trusted.push(certificate);
    }
    Ok(())
}

/// Adds the certificates in a folder. OpenSSL requires hashes as file names; here any name will do, and files
/// without certificates are ignored.
fn add_folder((roots, trusted): Added<'_>, path: &str) -> Result<(), Error> {
    const SETTING: &str = "tls-ca-cert-dir";
    if path.is_empty() {
        return Ok(());
    }
    let unreadable = |source| Error::Unreadable { setting: SETTING, path: path.to_owned(), source };
    let mut bytes_left = FOLDER_BYTES_MAX;
    for entry in fs::read_dir(Path::new(path)).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if !file.is_file() {
            continue;
        }
        let text = read(SETTING, &file.display().to_string())?;
        bytes_left = bytes_left
            .checked_sub(text.len())
            .ok_or_else(|| unusable(SETTING, path, format!("its files exceed {FOLDER_BYTES_MAX} bytes")))?;
        for certificate in CertificateDer::pem_slice_iter(&text).filter_map(Result::ok) {
            if roots.add(certificate.clone()).is_ok() {
                trusted.push(certificate);
            }
        }
    }
    if roots.is_empty() {
        return Err(unusable(SETTING, path, "no file in it contains a certificate (PEM)"));
    }
    Ok(())
}
