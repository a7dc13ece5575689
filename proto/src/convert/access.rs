use crate::v1;
use holdfast_core::access::{Access, Rights};
use holdfast_core::{Error, ErrorCode};

impl From<Access> for v1::Access {
    fn from(access: Access) -> Self {
        Self { tenant: access.tenant, user: access.user, rights: u32::from(access.rights.0) }
    }
}

impl TryFrom<v1::Access> for Access {
    type Error = Error;

    fn try_from(access: v1::Access) -> Result<Self, Error> {
        let rights = u8::try_from(access.rights)
            .map_err(|_| Error::new(ErrorCode::InvalidArgument, "access.rights holds unknown bits"))?;
        Ok(Self { tenant: access.tenant, user: access.user, rights: Rights(rights) })
    }
}
