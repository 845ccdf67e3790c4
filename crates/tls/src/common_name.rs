//! The common name in a certificate, which rustls checks but does not show.
//!
//! Reads as much of the DER (X.690) of a certificate (RFC 5280, section 4.1) as leads to its subject:
//!
//! ```text
//! Certificate: SEQUENCE
//!   tbsCertificate: SEQUENCE
//!     version [0] (may be absent) · serialNumber · signature · issuer · validity
//!     subject: SEQUENCE OF (SET OF (SEQUENCE { type: OBJECT IDENTIFIER, value: a string }))
//! ```
//!
//! Anything that does not have this form has no common name. Nothing is checked beyond that: rustls has accepted the
//! certificate before its name is asked for.

use rustls::pki_types::CertificateDer;

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
/// 2.5.4.3, `id-at-commonName`.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The first common name of the subject of a certificate.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let mut certificate = take(&mut certificate.as_ref(), SEQUENCE)?;
    let mut fields = take(&mut certificate, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        take(&mut fields, VERSION)?;
    }
    take(&mut fields, INTEGER)?;
    for _signature_issuer_validity in 0..3 {
        take(&mut fields, SEQUENCE)?;
    }
    let mut subject = take(&mut fields, SEQUENCE)?;
    while !subject.is_empty() {
        let mut attributes = take(&mut subject, SET)?;
        while !attributes.is_empty() {
            let mut attribute = take(&mut attributes, SEQUENCE)?;
            if take(&mut attribute, OBJECT_IDENTIFIER)? == COMMON_NAME {
                return text(attribute);
            }
        }
    }
    None
}

/// Takes the element at the beginning of `input`, which must have this tag. Returns its contents.
fn take<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (&[found, first], mut rest) = input.split_first_chunk()?;
    if found != tag {
        return None;
    }
    let length = match first {
        0..=0x7f => usize::from(first),
        // The bytes that the length takes; 0x80 would be an unknown length, which DER does not have.
        0x81..=0x84 => {
            let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
            rest = after;
            bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
        }
        _ => return None,
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some(contents)
}

/// The string that an attribute's value is.
fn text(mut value: &[u8]) -> Option<String> {
    let tag = *value.first()?;
    let bytes = take(&mut value, tag)?;
    match tag {
        UTF8_STRING => String::from_utf8(bytes.to_vec()).ok(),
        PRINTABLE_STRING | TELETEX_STRING if bytes.is_ascii() => String::from_utf8(bytes.to_vec()).ok(),
        BMP_STRING => {
            let (units, []) = bytes.as_chunks() else { return None };
            String::from_utf16(&units.iter().copied().map(u16::from_be_bytes).collect::<Vec<_>>()).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};
    use x509_cert::Certificate;
    use x509_cert::der::Decode;

    use super::*;

    /// A certificate with these attributes in its subject.
    fn certificate(subject: &[(DnType, DnValue)]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().clone()
    }

    fn check(subject: &[(DnType, DnValue)], expected: Option<&str>) {
        assert_eq!(common_name(&certificate(subject)).as_deref(), expected);
    }

    #[test]
    fn the_name_is_found_in_each_kind_of_string() {
        let organization = (DnType::OrganizationName, DnValue::Utf8String("Örg".repeat(60)));
        check(&[], None);
        check(&[organization.clone()], None);
        check(&[(DnType::CommonName, DnValue::Utf8String("wörker".into()))], Some("wörker"));
        let printable = DnValue::PrintableString("worker 1".try_into().expect("printable"));
        check(&[organization.clone(), (DnType::CommonName, printable)], Some("worker 1"));
        let wide = DnValue::BmpString("wörker".try_into().expect("two bytes each"));
        check(&[organization, (DnType::CommonName, wide)], Some("wörker"));
    }

    proptest! {
        /// What another reader finds in a damaged certificate is found here, too, and nothing makes this one panic.
        #[test]
        fn a_damaged_certificate_has_the_name_that_another_reader_finds(
            changes in proptest::collection::vec((0_usize..200, any::<u8>()), 0..4),
            cut in 0_usize..600,
        ) {
            let mut bytes = certificate(&[(DnType::CommonName, DnValue::Utf8String("worker".into()))]).to_vec();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            bytes.truncate(bytes.len() - cut.saturating_sub(300).min(bytes.len()));
            let found = common_name(&CertificateDer::from(bytes.as_slice()));
            let theirs = Certificate::from_der(&bytes)
                .ok()
                .and_then(|read| Some(read.tbs_certificate().subject().common_name().ok()??.value().into_owned()));
            if theirs.is_some() {
                prop_assert_eq!(found, theirs);
            }
        }
    }
}
