//! Connections between the processes of a cluster: nodes, routers and operators.
//!
//! With [`Security::tls`] both ends of every connection prove by certificate who they are, and what
//! they say is encrypted (TLS 1.3). With [`Security::plain`] neither holds; that is for
//! `holdfast dev` and for networks that are protected otherwise.
//!
//! Invariants:
//! 1. *A certificate names one [`Identity`]*: its role, and for a node the address that the cluster
//!    knows it by. Whoever dials a node gets that node or no connection ([`Security::channel`]).
//! 2. *A listener knows who calls before anything is answered* ([`Security::incoming`] puts a
//!    [`Peer`] into every request). Which role may call what is the listener's to decide.
//! 3. *Files that cannot be used are never taken*: what is in use stays in use, and the log and the
//!    metrics say why ([`Security::watch`]). Connections that exist go on.
//! 4. *Every connection is checked anew*: sessions are not resumed, so that no check of an earlier
//!    connection outlives a change of the files.

mod accept;
mod address;
mod dial;
mod explain;
mod files;
mod identity;
mod material;
mod metrics;
mod quiet;
mod reload;
mod security;
#[cfg(test)]
mod tests;

pub use accept::{Incoming, Peer, Stream};
pub use address::{AddressError, HostPort};
pub use dial::{ConnectError, DialError};
pub use explain::{explain, is_final};
pub use files::{Fault, Part, TlsFiles};
pub use identity::{Identity, IdentityError, Role};
pub use material::{Material, Wanted};
pub use quiet::Quiet;
pub use security::Security;
