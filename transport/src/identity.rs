use crate::address::HostPort;
use rustls::pki_types::CertificateDer;
use std::fmt;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// What a process is to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Keeps data.
    Node,
    /// Serves clients.
    Router,
    /// Founds the cluster and looks at it.
    Operator,
}

impl Role {
    const ALL: [Self; 3] = [Self::Node, Self::Router, Self::Operator];

    /// Its name in certificates, messages and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Router => "router",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who a process is, as its certificate says: a URI among the subject's alternative names.
///
/// - `holdfast-node://host:port`, the address that the cluster knows the node by;
/// - `holdfast-router://name` and `holdfast-operator://name`, where the name is for people.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The node that the cluster knows by this address.
    Node(HostPort),
    /// A router of this name.
    Router(String),
    /// An operator of this name.
    Operator(String),
}

/// Why a certificate names nobody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// It is no certificate.
    #[error("it cannot be read as an X.509 certificate: {0}")]
    Unreadable(String),
    /// No name of it is of Holdfast.
    #[error(
        "it names no role in a Holdfast cluster: it needs the alternative name (URI) \
         holdfast-node://host:port, holdfast-router://name or holdfast-operator://name"
    )]
    Missing,
    /// It has more than one name of Holdfast.
    #[error("it names several roles or nodes of a Holdfast cluster, where one certificate names one")]
    Several,
    /// The name is malformed.
    #[error("its alternative name {0:?} is malformed")]
    Malformed(String),
}

impl Identity {
    /// Its role.
    pub fn role(&self) -> Role {
        match self {
            Self::Node(_) => Role::Node,
            Self::Router(_) => Role::Router,
            Self::Operator(_) => Role::Operator,
        }
    }

    /// As certificates carry it.
    pub fn uri(&self) -> String {
        match self {
            Self::Node(address) => format!("holdfast-node://{address}"),
            Self::Router(name) => format!("holdfast-router://{name}"),
            Self::Operator(name) => format!("holdfast-operator://{name}"),
        }
    }

    /// A router or operator of this name: 1 to 100 letters, digits, dots and hyphens. `None` if the
    /// name is none, or the role has no such names.
    pub fn named(role: Role, name: &str) -> Option<Self> {
        let fits = (1..=100).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
        match role {
            _ if !fits => None,
            Role::Node => None,
            Role::Router => Some(Self::Router(name.to_owned())),
            Role::Operator => Some(Self::Operator(name.to_owned())),
        }
    }

    /// Whom a certificate names. That it was issued by the right CA is checked elsewhere.
    ///
    /// # Errors
    /// [`IdentityError`] if it names nobody, or more than one.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        let (_, certificate) = X509Certificate::from_der(certificate)
            .map_err(|error| IdentityError::Unreadable(error.to_string()))?;
        let names = certificate
            .subject_alternative_name()
            .map_err(|error| IdentityError::Unreadable(error.to_string()))?;
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let uris = names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => parse(uri),
            _ => None,
        });
        let mut found = None;
        for identity in uris {
            let identity = identity?;
            match found {
                Some(other) if other != identity => return Err(IdentityError::Several),
                _ => found = Some(identity),
            }
        }
        found.ok_or(IdentityError::Missing)
    }
}

/// `None` if the URI is not one of ours.
fn parse(uri: &str) -> Option<Result<Identity, IdentityError>> {
    let rest = uri.strip_prefix("holdfast-")?;
    let malformed = || IdentityError::Malformed(uri.chars().take(300).collect());
    let identity = || {
        let (scheme, name) = rest.split_once("://")?;
        match Role::ALL.into_iter().find(|role| role.name() == scheme)? {
            Role::Node => name.parse().ok().map(Identity::Node),
            role => Identity::named(role, name),
        }
    };
    Some(identity().ok_or_else(malformed))
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(address) => write!(f, "the node {address}"),
            Self::Router(name) => write!(f, "the router {name:?}"),
            Self::Operator(name) => write!(f, "the operator {name:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_identity_is_read_from_what_it_is_written_as() {
        let node = |text: &str| Identity::Node(text.parse().unwrap());
        for identity in [
            node("node-0.example:7800"),
            node("[2001:db8::1]:1"),
            Identity::named(Role::Router, "eu-1.router").unwrap(),
            Identity::named(Role::Operator, "ann").unwrap(),
        ] {
            assert_eq!(parse(&identity.uri()), Some(Ok(identity)));
        }
        assert_eq!(parse("holdfast-node://Node-0:07800"), Some(Ok(node("node-0:7800"))));
    }

    #[test]
    fn other_uris_are_ignored_and_malformed_ones_are_not() {
        for other in ["spiffe://example/router", "https://a", ""] {
            assert_eq!(parse(other), None);
        }
        for malformed in [
            "holdfast-node://",
            "holdfast-node://a",
            "holdfast-node:a:1",
            "holdfast-router://",
            "holdfast-router://a/b",
            "holdfast-admin://a",
            "holdfast-",
        ] {
            assert!(matches!(parse(malformed), Some(Err(IdentityError::Malformed(_)))), "{malformed}");
        }
        assert_eq!(Identity::named(Role::Node, "a"), None);
        assert_eq!(Identity::named(Role::Router, "路由"), None);
        assert_eq!(Identity::named(Role::Router, &"a".repeat(101)), None);
    }
}
