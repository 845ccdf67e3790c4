//! Private keys that are encrypted with a password (PKCS #8), which rustls does not read.
//!
//! A build with `--cfg quick` does not decrypt them, because decryption needs twenty crates.

/// Decrypts the key that `pem` begins with. Returns its DER, or why it cannot be decrypted.
#[cfg(not(quick))]
pub(crate) fn decrypt(pem: &str, pass: &str) -> Result<Vec<u8>, String> {
    use pkcs8::EncryptedPrivateKeyInfoRef;
    use pkcs8::der::Document;

    let (_, document) = Document::from_pem(pem).map_err(|error| error.to_string())?;
    let key = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).and_then(|info| info.decrypt(pass));
    key.map(|key| key.as_bytes().to_vec()).map_err(|error| error.to_string())
}

/// Refuses.
#[cfg(quick)]
pub(crate) fn decrypt(_pem: &str, _pass: &str) -> Result<Vec<u8>, String> {
    Err("'make run' builds a server that reads no encrypted keys; 'make programs' builds one that does"
        .to_owned())
}
