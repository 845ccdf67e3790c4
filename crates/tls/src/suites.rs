//! Versions and cipher suites by their OpenSSL names, as far as rustls has them.

use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};

use crate::error::Error;
use crate::library::cipher_suite;
use crate::options::Options;

const PROTOCOLS: &str = "tls-protocols";
const CIPHERS: &str = "tls-ciphers";
const CIPHERSUITES: &str = "tls-ciphersuites";

/// Suites of TLS 1.2, by OpenSSL's names.
const NAMES_12: &[(&str, SupportedCipherSuite)] = &[
    ("ECDHE-ECDSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];
/// Suites of TLS 1.3.
const NAMES_13: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
];
/// Words in OpenSSL's lists for groups that contain all suites of rustls.
const ALL_WORDS: &[&str] = &["DEFAULT", "ALL", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2"];
/// Words for groups that contain no suite of rustls. Excluding them changes nothing.
const NONE_WORDS: &[&str] = &[
    "aNULL",
    "eNULL",
    "NULL",
    "COMPLEMENTOFDEFAULT",
    "COMPLEMENTOFALL",
    "MEDIUM",
    "LOW",
    "EXP",
    "EXPORT",
    "MD5",
    "SHA1",
    "SHA",
    "RC4",
    "RC2",
    "DES",
    "3DES",
    "IDEA",
    "SEED",
    "CAMELLIA",
    "ARIA",
    "PSK",
    "kPSK",
    "SRP",
    "DSS",
    "aDSS",
    "kRSA",
    "RSA+AES",
    "DH",
    "DHE",
    "EDH",
    "kDHE",
    "kEDH",
    "ADH",
    "AECDH",
    "AES128-SHA",
    "AES256-SHA",
    "AESCCM",
    "AESCCM8",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
    "GOST",
    "kGOST",
];

fn refused<T>(setting: &'static str, why: String) -> Result<T, Error> {
    Err(Error::Refused { setting, why })
}

/// The names in a list of suites, for an error.
fn names(suites: &[(&str, SupportedCipherSuite)]) -> String {
    suites.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(":")
}

/// The versions in `tls-protocols`; both if it is empty.
pub(crate) fn versions(options: &Options) -> Result<Vec<&'static SupportedProtocolVersion>, Error> {
    let mut versions = Vec::new();
    for word in options.protocols.split_whitespace() {
        versions.push(match word.to_ascii_lowercase().as_str() {
            "tlsv1.3" => &TLS13,
            "tlsv1.2" => &TLS12,
            "tlsv1" | "tlsv1.1" => {
                return refused(
                    PROTOCOLS,
                    format!("{word} is insecure and not offered; use 'TLSv1.2 TLSv1.3'"),
                );
            }
            _ => return refused(PROTOCOLS, format!("'{word}' is not a version; use 'TLSv1.2 TLSv1.3'")),
        });
    }
    if versions.is_empty() {
        versions = vec![&TLS13, &TLS12];
    }
    Ok(versions)
}

/// The suites in `tls-ciphersuites` and `tls-ciphers` that these versions have, in this order; all if they
/// are empty.
pub(crate) fn suites(
    options: &Options,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<Vec<SupportedCipherSuite>, Error> {
    let mut suites = suites_13(&options.ciphersuites)?;
    suites.extend(suites_12(&options.ciphers)?);
    let serves = |version: ProtocolVersion| versions.iter().any(|known| known.version == version);
    suites.retain(|suite| serves(suite.version().version));
    if suites.is_empty() {
        return refused(CIPHERS, "no suite is left for tls-protocols".to_owned());
    }
    Ok(suites)
}

fn suites_13(list: &str) -> Result<Vec<SupportedCipherSuite>, Error> {
    if list.is_empty() {
        return Ok(NAMES_13.iter().map(|(_, suite)| *suite).collect());
    }
    let find = |name: &str| match NAMES_13.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        Some((_, suite)) => Ok(*suite),
        None => {
            refused(CIPHERSUITES, format!("'{name}' is not offered; use one or more of {}", names(NAMES_13)))
        }
    };
    list.split(':').map(find).collect()
}

/// Parses OpenSSL's list: names, groups, and exclusions with `!` or `-`.
fn suites_12(list: &str) -> Result<Vec<SupportedCipherSuite>, Error> {
    let all: Vec<_> = NAMES_12.iter().map(|(_, suite)| *suite).collect();
    if list.is_empty() {
        return Ok(all);
    }
    let mut suites: Vec<SupportedCipherSuite> = Vec::new();
    let mut excluded: Vec<SupportedCipherSuite> = Vec::new();
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        let find = |name: &str| NAMES_12.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        if let Some(name) = word.strip_prefix(['!', '-']) {
            match find(name) {
                Some((_, suite)) => excluded.push(*suite),
                None if NONE_WORDS.contains(&name) => {}
                None => return unknown(word),
            }
        } else if ALL_WORDS.contains(&word) {
            suites.extend(&all);
        } else if let Some((_, suite)) = find(word) {
            suites.push(*suite);
        } else if !matches!(word, "@STRENGTH" | "@SECLEVEL=1" | "@SECLEVEL=2") {
            return unknown(word);
        }
    }
    suites.retain(|suite| !excluded.contains(suite));
    Ok(suites)
}

fn unknown<T>(word: &str) -> Result<T, Error> {
    refused(CIPHERS, format!("'{word}' is not offered; use DEFAULT, or one or more of {}", names(NAMES_12)))
}

#[cfg(test)]
mod tests {
    use crate::library::ALL_CIPHER_SUITES;

    use super::*;

    /// Checks the number of suites, and the first; or the error.
    #[track_caller]
    fn check(options: Options, expected: Result<(usize, &str), &str>) {
        let outcome = versions(&options).and_then(|versions| suites(&options, &versions));
        let named = NAMES_12.iter().chain(NAMES_13);
        match (outcome, expected) {
            (Ok(suites), Ok((count, first))) => {
                let name = named.clone().find(|(_, suite)| *suite == suites[0]).map(|(name, _)| *name);
                assert_eq!((suites.len(), name), (count, Some(first)), "{options:?}");
            }
            (Err(error), Err(why)) => assert_eq!(error.to_string(), why),
            (outcome, _) => panic!("{options:?}: {outcome:?}"),
        }
    }

    fn ciphers(ciphers: &str) -> Options {
        Options { ciphers: ciphers.to_owned(), protocols: "TLSv1.2".to_owned(), ..Options::default() }
    }

    fn ciphersuites(ciphersuites: &str) -> Options {
        Options {
            ciphersuites: ciphersuites.to_owned(),
            protocols: "tlsv1.3".to_owned(),
            ..Options::default()
        }
    }

    #[test]
    fn every_suite_has_its_name() {
        for suite in ALL_CIPHER_SUITES {
            assert!(NAMES_12.iter().chain(NAMES_13).any(|(_, known)| known == suite), "{suite:?}");
        }
        check(Options::default(), Ok((9, "TLS_AES_256_GCM_SHA384")));
    }

    #[test]
    fn suites_are_asked_for_by_the_names_of_openssl() {
        check(ciphers(""), Ok((6, "ECDHE-ECDSA-AES256-GCM-SHA384")));
        check(ciphers("DEFAULT:!MEDIUM"), Ok((6, "ECDHE-ECDSA-AES256-GCM-SHA384")));
        check(
            ciphers("HIGH:!aNULL:!ECDHE-ECDSA-AES256-GCM-SHA384"),
            Ok((5, "ECDHE-ECDSA-AES128-GCM-SHA256")),
        );
        check(ciphers("ECDHE-RSA-CHACHA20-POLY1305"), Ok((1, "ECDHE-RSA-CHACHA20-POLY1305")));
        check(ciphersuites("TLS_AES_128_GCM_SHA256"), Ok((1, "TLS_AES_128_GCM_SHA256")));
    }

    #[test]
    fn what_is_not_offered_is_refused_with_what_to_write() {
        let of_12 = format!("use DEFAULT, or one or more of {}", names(NAMES_12));
        check(ciphers("AES256-SHA"), Err(&format!("tls-ciphers: 'AES256-SHA' is not offered; {of_12}")));
        check(ciphers("DEFAULT:!AESGCM"), Err(&format!("tls-ciphers: '!AESGCM' is not offered; {of_12}")));
        check(
            ciphers("DEFAULT:!ECDHE-RSA-AES128-GCM-SHA256:x"),
            Err(&format!("tls-ciphers: 'x' is not offered; {of_12}")),
        );
        check(
            ciphersuites("TLS_AES_128_CCM_SHA256"),
            Err("tls-ciphersuites: 'TLS_AES_128_CCM_SHA256' is not offered; use one or more of \
                 TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"),
        );
        let old = Options { protocols: "TLSv1.1 TLSv1.2".to_owned(), ..Options::default() };
        check(old, Err("tls-protocols: TLSv1.1 is insecure and not offered; use 'TLSv1.2 TLSv1.3'"));
        let none = Options { protocols: "SSLv3".to_owned(), ..Options::default() };
        check(none, Err("tls-protocols: 'SSLv3' is not a version; use 'TLSv1.2 TLSv1.3'"));
        check(
            ciphers("!ECDHE-RSA-AES128-GCM-SHA256"),
            Err("tls-ciphers: no suite is left for tls-protocols"),
        );
    }
}
