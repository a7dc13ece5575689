use crate::v1;
use holdfast_core::Error;
use holdfast_core::space::Shard;
use holdfast_core::token::Seen;

impl From<Seen> for v1::Seen {
    fn from(seen: Seen) -> Self {
        Self { shard: u32::from(seen.shard.0), incarnation: seen.incarnation, index: seen.index }
    }
}

impl TryFrom<v1::Seen> for Seen {
    type Error = Error;

    fn try_from(seen: v1::Seen) -> Result<Self, Error> {
        let shard =
            u16::try_from(seen.shard).map_err(|_| Error::invalid("shard", "there is no such shard"))?;
        Ok(Self { shard: Shard(shard), incarnation: seen.incarnation, index: seen.index })
    }
}
