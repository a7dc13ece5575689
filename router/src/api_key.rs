//! API keys: `hf_<id>_<secret>`. The id is public and finds the row; of the secret only the
//! SHA-256 is stored. It has 256 random bits, so no slow hash is needed to keep it from guessing.

use holdfast_core::access::{ApiKeyRow, Rights};
use holdfast_core::{Error, ErrorCode, Result};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const PREFIX: &str = "hf_";
const SECRET_BYTES: usize = 32;
const ID_BYTES: usize = 8;

/// A new API key: the text that the caller keeps, and the row that the cluster keeps. Times are in
/// microseconds since 1970; `created_us` and `revoked_us` of the row are set when it is applied.
/// `created_by` is left empty, as it is for the first key of a cluster.
pub fn new_api_key(
    tenant: &str,
    user: Option<&str>,
    rights: Rights,
    name: &str,
    expires_us: Option<i64>,
) -> (String, ApiKeyRow) {
    let key = ApiKey { id: hex(&rand::random::<[u8; ID_BYTES]>()), secret: rand::random() };
    let row = key.row(tenant, user, rights, name, expires_us);
    (key.text(), row)
}

/// The row of a key that was chosen elsewhere, for `holdfast dev --key`.
///
/// # Errors
/// [`ErrorCode::InvalidArgument`] if `text` does not have the form of a key.
pub fn api_key_row(
    text: &str,
    tenant: &str,
    user: Option<&str>,
    rights: Rights,
    name: &str,
    expires_us: Option<i64>,
) -> Result<ApiKeyRow> {
    let key = ApiKey::parse(text).ok_or_else(|| {
        let detail = "a key has the form hf_<id>_<secret>: an id of 1 to 32 letters and digits, and a secret of \
                      64 hexadecimal digits";
        Error::invalid("key", detail)
    })?;
    Ok(key.row(tenant, user, rights, name, expires_us))
}

/// A key as a caller presents it.
pub(crate) struct ApiKey {
    pub(crate) id: String,
    secret: [u8; SECRET_BYTES],
}

impl ApiKey {
    /// Reads the text of a key; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let id_is_plain = (1..=32).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric());
        if !id_is_plain || secret.len() != 2 * SECRET_BYTES {
            return None;
        }
        let mut bytes = [0; SECRET_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(secret.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self { id: id.to_owned(), secret: bytes })
    }

    fn text(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, hex(&self.secret))
    }

    fn row(
        &self,
        tenant: &str,
        user: Option<&str>,
        rights: Rights,
        name: &str,
        expires_us: Option<i64>,
    ) -> ApiKeyRow {
        ApiKeyRow {
            id: self.id.clone(),
            secret_sha256: Sha256::digest(self.secret).into(),
            tenant: tenant.to_owned(),
            user: user.map(str::to_owned),
            rights,
            name: name.to_owned(),
            created_us: 0,
            expires_us,
            revoked_us: None,
            created_by: None,
        }
    }

    /// Whether this is the key of `row`, valid at `now_us`. Takes the same time for every secret.
    pub(crate) fn opens(&self, row: &ApiKeyRow, now_us: i64) -> bool {
        let digest: [u8; 32] = Sha256::digest(self.secret).into();
        let same = bool::from(digest.ct_eq(&row.secret_sha256));
        same && row.revoked_us.is_none() && row.expires_us.is_none_or(|expires_us| now_us < expires_us)
    }
}

/// Never shows the secret.
impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiKey({})", self.id)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The one answer to every credential that does not hold: it tells nothing about why.
pub(crate) fn refused() -> Error {
    let detail = "the API key is unknown, expired or revoked; send Authorization: Bearer hf_<id>_<secret>";
    Error::new(ErrorCode::Unauthenticated, detail)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_key_opens_its_own_row_only() {
        let (text, row) = new_api_key("acme", Some("ann"), Rights::READ, "laptop", Some(1_000));
        let (other, _) = new_api_key("acme", None, Rights::ALL, "", None);
        let key = ApiKey::parse(&text).unwrap();
        assert!(key.opens(&row, 999));
        assert!(!key.opens(&row, 1_000), "expired");
        assert!(!key.opens(&ApiKeyRow { revoked_us: Some(5), ..row.clone() }, 6), "revoked");
        assert!(!ApiKey::parse(&other).unwrap().opens(&row, 0));
        assert!(!text.contains(&hex(&row.secret_sha256)));
        assert_eq!(format!("{key:?}"), format!("ApiKey({})", row.id));
        let again = api_key_row(&text, "acme", Some("ann"), Rights::READ, "laptop", Some(1_000)).unwrap();
        assert_eq!(again, row);
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let (text, _) = new_api_key("t", None, Rights::ALL, "", None);
        let secret = text.rsplit('_').next().unwrap();
        for bad in [
            String::new(),
            "hf_".into(),
            "hf__".into(),
            format!("hf__{secret}"),
            format!("sk_id_{secret}"),
            format!("hf_id_{}", &secret[1..]),
            format!("hf_id_{secret}0"),
            format!("hf_i d_{secret}"),
            format!("hf_{}_{secret}", "x".repeat(33)),
            format!("hf_id_{}", "+f".repeat(32)),
            format!("hf_id_{}", "é".repeat(32)),
        ] {
            assert!(ApiKey::parse(&bad).is_none(), "{bad}");
        }
        assert!(api_key_row("hf_x_y", "t", None, Rights::ALL, "", None).is_err());
    }
}
