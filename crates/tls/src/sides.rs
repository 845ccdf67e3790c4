//! The configurations of both sides: for connections that are accepted, and for connections that are made.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ConfigBuilder, ServerConfig, SupportedProtocolVersion};

use crate::error::Error;
use crate::files::{Identity, Pair};
use crate::library;
use crate::options::{Authentication, Options};
use crate::resumption::Sessions;
use crate::suites::{suites, versions};
use crate::trust::{Clients, Servers};

type Versions = Vec<&'static SupportedProtocolVersion>;

fn provider(options: &Options) -> Result<(Arc<CryptoProvider>, Versions), Error> {
    let versions = versions(options)?;
    let cipher_suites = suites(options, &versions)?;
    Ok((Arc::new(CryptoProvider { cipher_suites, ..library::default_provider() }), versions))
}

/// The configuration for accepted connections.
pub fn server_config(options: &Options, identity: &Identity) -> Result<Arc<ServerConfig>, Error> {
    let (provider, versions) = provider(options)?;
    let pair = identity.server.as_ref().ok_or(Error::Missing { setting: "tls-cert-file", hint: "" })?;
    check_key(pair, &provider)?;
    let verifier = client_verifier(options.authentication, identity, &provider)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(pair.chain.clone(), pair.key.clone_key())?;
    config.ignore_client_order = options.prefer_server_ciphers;
    match options.caching {
        Some(caching) => {
            config.session_storage = Arc::new(Sessions::new(caching));
            // A client that wants more connections gets a ticket with each.
            config.send_tls13_tickets = 1;
        }
        None => {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
    }
    Ok(Arc::new(config))
}

/// Checks that the key fits the certificate. This names the file; rustls would only say that something is
/// wrong.
fn check_key(pair: &Pair, provider: &CryptoProvider) -> Result<(), Error> {
    let checked = CertifiedKey::from_der(pair.chain.clone(), pair.key.clone_key(), provider);
    checked.map(drop).map_err(|error| Error::Unusable {
        setting: pair.setting,
        path: pair.path.clone(),
        why: match error {
            rustls::Error::InconsistentKeys(_) => "the key does not match the certificate".to_owned(),
            error => error.to_string(),
        },
    })
}

fn client_verifier(
    authentication: Authentication,
    identity: &Identity,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let roots = identity.roots_for(authentication)?.clone();
    let builder = || WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), provider.clone());
    let builder = match authentication {
        Authentication::No => return Ok(WebPkiClientVerifier::no_client_auth()),
        Authentication::Optional => builder().allow_unauthenticated(),
        Authentication::Required => builder(),
    };
    let inner = builder.build();
    let inner =
        inner.map_err(|error| Error::Refused { setting: "tls-ca-cert-file", why: error.to_string() })?;
    Ok(Arc::new(Clients { inner, trusted: identity.trusted.clone() }))
}

/// The configuration for connections to servers that have a name, as in URLs: their certificates must be for that name. Any
/// certificate of the authority would do otherwise, a client's included.
pub fn named_client_config(options: &Options, identity: &Identity) -> Result<Arc<ClientConfig>, Error> {
    let (provider, versions) = provider(options)?;
    let roots = identity.roots_for(Authentication::Required)?.clone();
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)?
        .with_root_certificates(roots);
    as_client(builder, identity.client.as_ref(), &provider)
}

/// Adds the certificate with which we present ourselves, if there is one.
fn as_client(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    pair: Option<&Pair>,
    provider: &CryptoProvider,
) -> Result<Arc<ClientConfig>, Error> {
    let config = match pair {
        Some(pair) => {
            check_key(pair, provider)?;
            builder.with_client_auth_cert(pair.chain.clone(), pair.key.clone_key())?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// The configuration for connections to other servers of ours, which have no names.
pub fn client_config(options: &Options, identity: &Identity) -> Result<Arc<ClientConfig>, Error> {
    let (provider, versions) = provider(options)?;
    let roots = identity.roots_for(Authentication::Required)?.clone();
    let verifier = Arc::new(Servers { roots, trusted: identity.trusted.clone(), provider: provider.clone() });
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    as_client(builder, identity.client.as_ref().or(identity.server.as_ref()), &provider)
}
