//! Whose memories they are: tenants, spaces, partitions, and the slots they hash to.

use crate::limits::check_id;
use crate::sabotage::{Fault, is};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// Number of hash slots of a cluster. Part of the storage format: it never changes.
pub const SLOTS: u16 = 4096;
/// Most shards a cluster may have.
pub const SHARDS_MAX: u16 = 256;

const USER: &str = "user:";
const SHARED: &str = "shared:";
/// Stands between the name of a collection and its incarnation. Names hold no control characters.
const INCARNATION: char = '\u{1f}';

/// One of the [`SLOTS`] equal parts of the hash range; the unit that moves between shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slot(pub u16);

/// A Raft group that owns slots, numbered from 1; group 0 is the meta group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard(pub u16);

impl Shard {
    /// The group that keeps the cluster's own data: tenants, keys, settings.
    pub const META: Self = Self(0);
}

impl Slot {
    /// The shard that owns this slot when a cluster of `shards` shards starts: `1 + (slot mod n)`.
    /// `shards` is at least 1.
    pub fn initial_shard(self, shards: u16) -> Shard {
        Shard(1 + self.0 % shards.max(1))
    }
}

/// One partition of one space of one tenant: the unit of isolation, indexing and placement.
/// It is the prefix of every key stored for it.
///
/// Made only by [`SpaceKey::user`], [`SpaceKey::shared`] and [`SpaceKey::check`]ed decoding, so
/// that names are whole segments without control characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpaceKey {
    tenant: String,
    space: String,
    partition: u8,
}

impl SpaceKey {
    /// The space of one user (`user:<id>`), which has the single partition 0.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] if a name is empty, too long or has control characters.
    pub fn user(tenant: &str, user: &str) -> Result<Self> {
        check_id("tenant", tenant)?;
        check_id("user", user)?;
        Ok(Self { tenant: tenant.into(), space: format!("{USER}{user}"), partition: 0 })
    }

    /// One partition of a shared collection (`shared:<name>`).
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] if a name is empty, too long or has control characters.
    pub fn shared(tenant: &str, name: &str, partition: u8) -> Result<Self> {
        check_id("tenant", tenant)?;
        check_id("collection", name)?;
        Ok(Self { tenant: tenant.into(), space: format!("{SHARED}{name}"), partition })
    }

    /// One partition of one incarnation of a shared collection: two collections that had one name, one after
    /// the other, share no key.
    ///
    /// # Errors
    /// As [`SpaceKey::shared`].
    pub fn incarnation(tenant: &str, name: &str, incarnation: u64, partition: u8) -> Result<Self> {
        let key = Self::shared(tenant, name, partition)?;
        Ok(Self { space: format!("{}{INCARNATION}{incarnation}", key.space), ..key })
    }

    /// A key from its parts as they came over the wire.
    ///
    /// # Errors
    /// As [`SpaceKey::check`].
    pub fn from_parts(tenant: String, space: String, partition: u8) -> Result<Self> {
        let key = Self { tenant, space, partition };
        key.check()?;
        Ok(key)
    }

    /// Checks a key that came over the wire or out of a log.
    ///
    /// # Errors
    /// [`crate::ErrorCode::InvalidArgument`] if it could not have been made by the constructors.
    pub fn check(&self) -> Result<()> {
        check_id("tenant", &self.tenant)?;
        let (field, name) = match (self.space.strip_prefix(USER), self.space.strip_prefix(SHARED)) {
            (Some(user), None) => ("user", user),
            (None, Some(name)) => ("collection", checked_incarnation(name)?),
            _ => return Err(Error::invalid("space", "a space is named user:<id> or shared:<name>")),
        };
        check_id(field, name)?;
        if field == "user" && self.partition != 0 {
            return Err(Error::invalid("partition", "a user's space has the single partition 0"));
        }
        Ok(())
    }

    /// The tenant that owns the space.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The name of the space with its kind, `user:<id>` or `shared:<name>`.
    pub fn space(&self) -> &str {
        &self.space
    }

    /// The user of a user space, `None` for a shared collection.
    pub fn user_id(&self) -> Option<&str> {
        self.space.strip_prefix(USER)
    }

    /// The name of a shared collection, `None` for the space of a user.
    pub fn collection(&self) -> Option<&str> {
        self.label().strip_prefix(SHARED)
    }

    /// The name of the space as callers know it: without the incarnation of a collection.
    pub fn label(&self) -> &str {
        Self::label_of(&self.space)
    }

    /// The same for the name of a space.
    pub fn label_of(space: &str) -> &str {
        space.split(INCARNATION).next().unwrap_or(space)
    }

    /// The number of the partition.
    pub fn partition(&self) -> u8 {
        self.partition
    }

    /// `tenant \0 space \0 partition`: what is hashed, and what follows the slot in every key.
    /// Names hold no `\0`, so no name can be a prefix of another one's key.
    pub fn path(&self) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.tenant.len() + self.space.len() + 3);
        let tenant = if is(Fault::NoTenantPrefix) { "any" } else { &self.tenant };
        path.extend_from_slice(tenant.as_bytes());
        path.push(0);
        path.extend_from_slice(self.space.as_bytes());
        path.push(0);
        path.push(self.partition);
        path
    }

    /// Reads a [`SpaceKey::path`] at the front of `bytes` and says how long it was.
    pub fn parse_path(bytes: &[u8]) -> Option<(Self, usize)> {
        let tenant_end = bytes.iter().position(|b| *b == 0)?;
        let space_end = tenant_end + 1 + bytes[tenant_end + 1..].iter().position(|b| *b == 0)?;
        let partition = *bytes.get(space_end + 1)?;
        let text = |range: &[u8]| std::str::from_utf8(range).ok().map(str::to_owned);
        let key = Self {
            tenant: text(&bytes[..tenant_end])?,
            space: text(&bytes[tenant_end + 1..space_end])?,
            partition,
        };
        key.check().ok()?;
        Some((key, space_end + 2))
    }

    /// The slot of this partition: xxh3 of its path, modulo [`SLOTS`].
    pub fn slot(&self) -> Slot {
        // The remainder is below 4,096 and so fits.
        #[allow(clippy::cast_possible_truncation)]
        Slot((xxh3_64(&self.path()) % u64::from(SLOTS)) as u16)
    }
}

/// The name of a collection, if what stands behind it is an incarnation as it is written.
fn checked_incarnation(name: &str) -> Result<&str> {
    let Some((name, incarnation)) = name.split_once(INCARNATION) else { return Ok(name) };
    let is_written_so = |number: u64| number.to_string() == incarnation;
    if incarnation.parse().is_ok_and(is_written_so) {
        return Ok(name);
    }
    Err(Error::invalid("space", "the incarnation of a collection is a number"))
}

impl fmt::Display for SpaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tenant, self.space, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_frozen() {
        // Part of the storage format: if these change, every stored row is in the wrong place.
        let slot = |t, u| SpaceKey::user(t, u).map(|k| k.slot().0);
        assert_eq!(slot("acme", "ann"), Ok(793));
        assert_eq!(slot("acme", "李雷"), Ok(737));
        assert_eq!(SpaceKey::shared("acme", "products", 3).map(|k| k.slot().0), Ok(2272));
    }

    #[test]
    fn similar_names_never_share_a_prefix() {
        let a = SpaceKey::user("acme", "a").map(|k| k.path());
        let b = SpaceKey::user("acme", "a-corp").map(|k| k.path());
        let c = SpaceKey::user("acme-corp", "a").map(|k| k.path());
        let (Ok(a), Ok(b), Ok(c)) = (a, b, c) else { panic!("valid names") };
        for (x, y) in [(&a, &b), (&a, &c), (&b, &c)] {
            assert!(!x.starts_with(y) && !y.starts_with(x));
        }
    }

    #[test]
    fn incarnations_of_a_name_are_spaces_of_their_own() {
        let key = |incarnation| SpaceKey::incarnation("t", "kb", incarnation, 3).expect("valid");
        assert_eq!((key(7).collection(), key(7).label()), (Some("kb"), "shared:kb"));
        assert_ne!(key(7).path(), key(71).path());
        assert!(!key(71).path().starts_with(&key(7).path()));
        assert_eq!(SpaceKey::parse_path(&key(7).path()).map(|(key, _)| key), Some(key(7)));
        for bad in [
            "shared:kb\u{1f}",
            "shared:kb\u{1f}07",
            "shared:kb\u{1f}x",
            "shared:kb\u{1f}1\u{1f}2",
            "shared:\u{1f}1",
        ] {
            assert!(SpaceKey::from_parts("t".into(), bad.into(), 0).is_err(), "{bad:?}");
        }
        assert!(SpaceKey::from_parts("t".into(), "user:kb\u{1f}1".into(), 0).is_err());
    }

    #[test]
    fn a_path_reads_back() {
        for key in [SpaceKey::user("t", "用户"), SpaceKey::shared("t", "kb", 63)] {
            let key = key.expect("valid");
            let mut bytes = key.path();
            let length = bytes.len();
            bytes.extend_from_slice(b"rest");
            assert_eq!(SpaceKey::parse_path(&bytes), Some((key, length)));
        }
        assert_eq!(SpaceKey::parse_path(b"t\0other:x\0\0"), None);
        assert_eq!(SpaceKey::parse_path(b"t\0user"), None);
    }

    #[test]
    fn names_are_checked() {
        assert!(SpaceKey::user("", "u").is_err());
        assert!(SpaceKey::user("t", "a\0b").is_err());
        assert!(SpaceKey::shared("t", &"x".repeat(257), 0).is_err());
    }

    #[test]
    fn slots_spread_over_shards_from_one() {
        assert_eq!(Slot(0).initial_shard(8), Shard(1));
        assert_eq!(Slot(7).initial_shard(8), Shard(8));
        assert_eq!(Slot(8).initial_shard(8), Shard(1));
        assert_eq!(Slot(9).initial_shard(0), Shard(1));
    }
}
