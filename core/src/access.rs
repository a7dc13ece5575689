//! Who may do what: tenants, API keys and the access that a checked credential gives.

use crate::codec::stored;
use crate::space::SpaceKey;
use crate::{Error, ErrorCode, Result};
use serde::{Deserialize, Serialize};

/// What a credential allows, as a set of bits. Stored: the bits never change their meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights(pub u8);

impl Rights {
    /// Recall, get, list.
    pub const READ: Self = Self(1);
    /// Add, change, delete, give feedback.
    pub const WRITE: Self = Self(2);
    /// Manage the keys and settings of the tenant.
    pub const ADMIN: Self = Self(4);
    /// Manage the cluster: tenants, nodes, any key.
    pub const CLUSTER: Self = Self(8);
    /// Everything.
    pub const ALL: Self = Self(15);

    const NAMES: [(Self, &'static str); 4] =
        [(Self::READ, "read"), (Self::WRITE, "write"), (Self::ADMIN, "admin"), (Self::CLUSTER, "cluster")];

    /// Whether all of `other` is allowed.
    pub const fn allows(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The wire names of the set.
    pub fn names(self) -> Vec<&'static str> {
        Self::NAMES.into_iter().filter(|(right, _)| self.allows(*right)).map(|(_, name)| name).collect()
    }

    /// Reads one wire name.
    pub fn from_wire(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(_, known)| *known == name).map(|(right, _)| right)
    }
}

/// What a checked credential may do. Routers make it from the credential alone, never from a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The tenant of the credential.
    pub tenant: String,
    /// The only user that the credential may name, if it is bound to one.
    pub user: Option<String>,
    /// What it allows.
    pub rights: Rights,
}

impl Access {
    /// Checks that this credential may do `needed` in `space`. The error names nothing that the
    /// caller did not say itself.
    ///
    /// # Errors
    /// [`ErrorCode::PermissionDenied`] with the right or the wall that was missing.
    pub fn check(&self, space: &SpaceKey, needed: Rights) -> Result<()> {
        let denied = |detail: &str| Err(Error::new(ErrorCode::PermissionDenied, detail));
        if space.tenant() != self.tenant {
            return denied("this credential belongs to another tenant");
        }
        if let Some(user) = &self.user
            && space.user_id() != Some(user)
        {
            let reads = Rights::READ.allows(needed);
            return match space.collection() {
                // What a tenant shares is shared with its users.
                Some(_) if reads => self.require(needed),
                Some(_) => denied(
                    "this credential is bound to one user: it may read the shared collections of its tenant, \
                     and change none",
                ),
                None => denied("this credential is bound to one user and may not name another space"),
            };
        }
        self.require(needed)
    }

    /// Checks that this credential has a right at all.
    ///
    /// # Errors
    /// [`ErrorCode::PermissionDenied`] that names the rights that are missing.
    pub fn require(&self, needed: Rights) -> Result<()> {
        if self.rights.allows(needed) {
            return Ok(());
        }
        let detail = format!("this credential lacks the right {}", needed.names().join(" and "));
        Err(Error::new(ErrorCode::PermissionDenied, detail))
    }
}

/// The identity and shape of the cluster, written once by its initialisation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRow {
    /// Chosen at random by the initialisation; checked on every connection between nodes.
    pub cluster_id: u128,
    /// Number of shards, 1 to 256; fixed for the life of the cluster.
    pub shards: u16,
    /// When it was initialised, in log time.
    pub created_us: i64,
}

/// A customer of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantRow {
    /// The id, part of every key of the tenant's rows.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// When it was created, in log time.
    pub created_us: i64,
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyRow {
    /// The public part, which stands in the key.
    pub id: String,
    /// SHA-256 of the 256-bit secret. The secret has full entropy, so no slow hash is needed.
    pub secret_sha256: [u8; 32],
    /// The tenant it belongs to.
    pub tenant: String,
    /// The only user it may name, if it is bound to one.
    pub user: Option<String>,
    /// What it allows.
    pub rights: Rights,
    /// A name for people.
    pub name: String,
    /// When it was created, in log time.
    pub created_us: i64,
    /// When it stops working.
    pub expires_us: Option<i64>,
    /// When it was revoked, in log time.
    pub revoked_us: Option<i64>,
    /// The public id of the key that made it; `None` for the cluster's first.
    pub created_by: Option<String>,
}

stored!(ClusterRow, TenantRow, ApiKeyRow);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_stops_at_the_wall() {
        let space = SpaceKey::user("acme", "ann").expect("valid");
        let access = |tenant: &str, user: Option<&str>, rights| Access {
            tenant: tenant.into(),
            user: user.map(Into::into),
            rights,
        };
        assert!(access("acme", None, Rights::READ).check(&space, Rights::READ).is_ok());
        assert!(access("acme", Some("ann"), Rights::ALL).check(&space, Rights::WRITE).is_ok());
        for denied in [
            access("acme-corp", None, Rights::ALL),
            access("acm", None, Rights::ALL),
            access("acme", Some("anna"), Rights::ALL),
            access("acme", None, Rights::READ),
        ] {
            let error = denied.check(&space, Rights::WRITE).expect_err("must be refused");
            assert_eq!(error.code, ErrorCode::PermissionDenied);
        }
        let shared = SpaceKey::shared("acme", "ann", 0).expect("valid");
        // A user reads what its tenant shares, and changes nothing of it; no other tenant does either.
        assert!(access("acme", Some("ann"), Rights::READ).check(&shared, Rights::READ).is_ok());
        for (access, needed) in [
            (access("acme", Some("ann"), Rights::ALL), Rights::WRITE),
            (access("acme", Some("ann"), Rights::ALL), Rights::READ.with(Rights::WRITE)),
            (access("acme", Some("ann"), Rights::WRITE), Rights::READ),
            (access("acme-corp", Some("ann"), Rights::ALL), Rights::READ),
            (access("acme-corp", None, Rights::ALL), Rights::READ),
        ] {
            let error = access.check(&shared, needed).expect_err("must be refused");
            assert_eq!(error.code, ErrorCode::PermissionDenied);
        }
    }
}
