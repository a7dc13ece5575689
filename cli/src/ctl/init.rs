//! `holdfast ctl init`.

use super::TENANT;
use crate::client::print;
use crate::config::{Role, SourceArgs};
use anyhow::{Context, Result, bail};
use clap::Args;
use holdfast_bench::client::ClientError;
use holdfast_core::access::{ApiKeyRow, Rights, TenantRow};
use holdfast_core::limits;
use holdfast_node::founding::{FoundError, Founded, Founding, found};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the first key in the list of keys.
const KEY_NAME: &str = "first key";

/// Arguments of `holdfast ctl init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    sources: SourceArgs,
    /// Number of shards, instead of cluster.shards; never changes later
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
    /// The first tenant
    #[arg(long, value_name = "ID", default_value = TENANT)]
    tenant: String,
    /// File with the first API key, which has all rights; made if it is missing. Without it a new key
    /// is printed
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Exit with 0 if the cluster was founded before
    #[arg(long)]
    if_needed: bool,
    /// Longest time to wait for the nodes, in seconds
    #[arg(long, value_name = "S", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

/// Founds the cluster.
pub(super) async fn run(args: InitArgs) -> Result<()> {
    // A tenant that no call could name would make a cluster that nobody can use.
    limits::check_id("tenant", &args.tenant).map_err(|error| ClientError::Usage(error.detail))?;
    let config = args.sources.load(Role::Operator)?;
    let (moves, security) = (config.cluster.moves(), config.security(Role::Operator)?);
    let row = |key: &str| {
        holdfast_router::api_key_row(key, &args.tenant, None, Rights::ALL, KEY_NAME, None)
            .map_err(|error| anyhow::Error::from(ClientError::Usage(format!("the key: {error}"))))
    };
    let (key, row) = first_key(args.key_file.as_deref(), &args.tenant, row)?;
    let founding = Founding {
        seeds: config.cluster.seeds,
        shards: args.shards.unwrap_or(config.cluster.shards),
        tenant: TenantRow { id: args.tenant.clone(), name: args.tenant.clone(), created_us: 0 },
        key: row,
        moves,
        security,
        timeout: Duration::from_secs(args.timeout),
    };
    if args.key_file.is_none() {
        // Before the cluster knows it: a call that is cut off must not leave a key that nobody has.
        print(&format!("key={key}\n"))?;
    }
    let founded = match found(&founding).await {
        Ok(founded) => founded,
        Err(FoundError::Arguments(detail)) => return Err(ClientError::Usage(detail).into()),
        Err(error) => return Err(error.into()),
    };
    report(&args, &founded)
}

fn report(args: &InitArgs, founded: &Founded) -> Result<()> {
    let Founded { cluster_id, members, with_this_key, by_this_call } = founded;
    if *by_this_call && *with_this_key {
        let nodes: Vec<String> = members.iter().map(|(id, address)| format!("{id}={address}")).collect();
        print(&format!("founded cluster={cluster_id} nodes={}\n", nodes.join(",")))?;
        return Ok(());
    }
    let whose = if *with_this_key {
        "this key is valid there"
    } else {
        "it has another first key, and the one given here is not valid there"
    };
    if args.if_needed {
        return Ok(print(&format!("cluster {cluster_id} was founded before; {whose}\n"))?);
    }
    bail!("already_exists: cluster {cluster_id} was founded before, and nothing was changed; {whose}")
}

/// The key in the file, or a new one, which is in the file before the cluster knows it: a founding
/// that is cut off must not leave a cluster whose key nobody has. Of two calls that make the file
/// at once, the second takes the key of the first.
fn first_key(
    file: Option<&Path>,
    tenant: &str,
    row: impl Fn(&str) -> Result<ApiKeyRow>,
) -> Result<(String, ApiKeyRow)> {
    let new = || holdfast_router::new_api_key(tenant, None, Rights::ALL, KEY_NAME, None);
    let Some(file) = file else { return Ok(new()) };
    if !file.exists() {
        let (key, row) = new();
        if write_new(file, &key).with_context(|| format!("cannot write the key to {}", file.display()))? {
            return Ok((key, row));
        }
    }
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the key in {}", file.display()))?;
    let key = text.trim().to_owned();
    let row = row(&key).with_context(|| format!("{} holds no key", file.display()))?;
    Ok((key, row))
}

/// Makes the file, whole and on disk, for its owner alone. False: somebody else was faster, and
/// nothing was changed.
fn write_new(file: &Path, key: &str) -> io::Result<bool> {
    let folder = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(temporary, "{key}")?;
    temporary.as_file().sync_all()?;
    match temporary.persist_noclobber(file) {
        Ok(_) => {}
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error.error),
    }
    File::open(folder)?.sync_all()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn calls_at_once_take_one_key() {
        let row = |key: &str| Ok(holdfast_router::api_key_row(key, "t", None, Rights::ALL, KEY_NAME, None)?);
        for _ in 0..50 {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("钥匙.key");
            let call = || first_key(Some(&file), "t", row).unwrap().0;
            let keys = std::thread::scope(|scope| {
                let calls: Vec<_> = (0..4).map(|_| scope.spawn(call)).collect();
                calls.into_iter().map(|call| call.join().unwrap()).collect::<Vec<_>>()
            });
            let held = std::fs::read_to_string(&file).unwrap();
            assert!(keys.iter().all(|key| key == held.trim()), "{keys:?} {held}");
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
        }
    }
}
