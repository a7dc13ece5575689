use crate::v1;
use holdfast_core::Error;
use holdfast_core::space::SpaceKey;

impl From<&SpaceKey> for v1::Space {
    fn from(space: &SpaceKey) -> Self {
        Self {
            tenant: space.tenant().to_owned(),
            name: space.space().to_owned(),
            partition: u32::from(space.partition()),
        }
    }
}

impl TryFrom<v1::Space> for SpaceKey {
    type Error = Error;

    fn try_from(space: v1::Space) -> Result<Self, Error> {
        let partition = u8::try_from(space.partition)
            .map_err(|_| Error::invalid("partition", "a partition is a number from 0 to 255"))?;
        Self::from_parts(space.tenant, space.name, partition)
    }
}
