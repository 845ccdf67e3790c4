//! Where etcd is, and as whom we speak to it.

use std::fmt;
use std::sync::Arc;

use tls::Identity;
use tokio_rustls::rustls::ClientConfig;

use crate::error::Error;
use crate::ids::ClusterName;

/// The most members that are named. etcd recommends seven at most.
pub const ENDPOINTS_MAX: usize = 16;
/// The revisions that are kept unless it is set otherwise. Nothing here reads an old one; other users of etcd may.
const REVISIONS_KEPT: u64 = 10_000;
/// The longest URL.
const URL_BYTES_MAX: usize = 512;
/// The port that etcd opens for clients.
const PORT: u16 = 2379;

/// The settings that TLS knows, and those from which its files come here.
const SETTINGS: [(&str, &str); 3] = [
    ("tls-ca-cert-file", "cluster-etcd-ca-file"),
    ("tls-client-cert-file", "cluster-etcd-cert-file"),
    ("tls-client-key-file", "cluster-etcd-key-file"),
];

/// See the head of this file. An empty text means: not set.
#[derive(Clone)]
pub struct EtcdOptions {
    /// `cluster-etcd`: URLs of members.
    pub endpoints: Vec<String>,
    /// `cluster-name`.
    pub cluster: ClusterName,
    /// `cluster-etcd-user`.
    pub user: String,
    /// The content of `cluster-etcd-password-file`.
    pub password: String,
    /// `cluster-etcd-ca-file`: the authorities of etcd's certificates. `https` needs it.
    pub ca_file: String,
    /// `cluster-etcd-cert-file`: the certificate by which etcd knows us.
    pub cert_file: String,
    /// `cluster-etcd-key-file`: the key of that certificate.
    pub key_file: String,
    /// How many of etcd's revisions are kept, those of its other users included; `None`: nothing is removed. etcd keeps all of
    /// them unless it is told otherwise, until its space is exhausted.
    pub revisions_kept: Option<u64>,
}

impl EtcdOptions {
    /// A cluster at these URLs, without a user.
    pub fn new(endpoints: Vec<String>, cluster: ClusterName) -> EtcdOptions {
        EtcdOptions {
            endpoints,
            cluster,
            user: String::new(),
            password: String::new(),
            ca_file: String::new(),
            cert_file: String::new(),
            key_file: String::new(),
            revisions_kept: Some(REVISIONS_KEPT),
        }
    }

    /// The addresses of the members.
    pub(crate) fn addresses(&self) -> Result<Vec<Address>, Error> {
        let count = self.endpoints.len();
        if !(1..=ENDPOINTS_MAX).contains(&count) {
            return Err(Error::Settings(format!(
                "cluster-etcd names {count} members, not 1 to {ENDPOINTS_MAX}"
            )));
        }
        self.endpoints.iter().map(|url| Address::parse(url)).collect()
    }

    /// The configuration of TLS, if a member is reached by it.
    pub(crate) fn tls(&self, addresses: &[Address]) -> Result<Option<Arc<ClientConfig>>, Error> {
        if !addresses.iter().any(|address| address.is_secured) {
            return Ok(None);
        }
        if self.ca_file.is_empty() {
            let why = "cluster-etcd has URLs with https, which need cluster-etcd-ca-file: the authorities of etcd's certificates";
            return Err(Error::Settings(why.to_owned()));
        }
        let files = tls::Options {
            ca_cert_file: self.ca_file.clone(),
            client_cert_file: self.cert_file.clone(),
            client_key_file: self.key_file.clone(),
            ..tls::Options::default()
        };
        // Errors name the settings of the server's own certificates.
        let settings = |error: tls::Error| {
            let why = SETTINGS.iter().fold(error.to_string(), |why, (old, new)| why.replace(old, new));
            Error::Settings(format!("TLS to etcd: {why}"))
        };
        let identity = Identity::read(&files).map_err(settings)?;
        tls::named_client_config(&files, &identity).map(Some).map_err(settings)
    }
}

impl fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("endpoints", &self.endpoints)
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// Where a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) is_secured: bool,
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Reads `http://host[:port]` or `https://host[:port]`.
    fn parse(url: &str) -> Result<Address, Error> {
        let wrong = || {
            let shown = crate::shorten(url, URL_BYTES_MAX);
            Error::Settings(format!("cluster-etcd: '{shown}' is no URL like https://etcd-1.example.com:2379"))
        };
        let (is_secured, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(wrong()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                let port =
                    if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(wrong)?) };
                (host, port)
            }
            None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        if host.is_empty() || url.len() > URL_BYTES_MAX || !host.chars().all(is_host) {
            return Err(wrong());
        }
        let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| wrong()))?;
        Ok(Address { is_secured, host: host.to_owned(), port })
    }
}

/// As in a URL.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { host, port, .. } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_host_and_a_port() {
        let parsed = |url| Address::parse(url).map(|address| (address.is_secured, address.to_string())).ok();
        assert_eq!(parsed("http://a"), Some((false, "a:2379".to_owned())));
        assert_eq!(
            parsed("https://etcd-1.example.com:4001/"),
            Some((true, "etcd-1.example.com:4001".to_owned()))
        );
        assert_eq!(parsed("https://[::1]:1"), Some((true, "[::1]:1".to_owned())));
        assert_eq!(parsed("http://[::1]"), Some((false, "[::1]:2379".to_owned())));
        for bad in [
            "",
            "a:1",
            "ftp://a",
            "http://",
            "http://a:x",
            "http://a:70000",
            "http://u@a",
            "http://a/v3",
            "http://[::1",
            "http://a b",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let options = |urls: &[&str]| {
            EtcdOptions::new(urls.iter().map(|url| (*url).to_owned()).collect(), "c".parse().unwrap())
        };
        assert!(options(&[]).addresses().is_err());
        let secured = options(&["https://a"]);
        let error = secured.tls(&secured.addresses().unwrap()).unwrap_err();
        assert!(error.to_string().contains("cluster-etcd-ca-file"), "{error}");
        let secret = EtcdOptions { password: "secret".to_owned(), ..secured };
        assert!(!format!("{secret:?}").contains("secret"));
    }
}
