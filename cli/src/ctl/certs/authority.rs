use super::order::write;
use anyhow::{Context, Result, bail, ensure};
use holdfast_transport::Identity;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, X509Certificate, parse_x509_pem};

/// Certificates are valid from a while ago, since clocks differ.
const CLOCKS_DIFFER: Duration = Duration::hours(1);

/// The CA of a cluster: whom it gives a certificate to is let in.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    not_after: OffsetDateTime,
}

/// A certificate and its key, as PEM.
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    /// The file with its certificate.
    pub(super) fn certificate(out: &Path) -> PathBuf {
        out.join("ca.pem")
    }

    fn key(out: &Path) -> PathBuf {
        out.join("ca.key")
    }

    /// The one in this folder, if there is one.
    pub(super) fn open(out: &Path) -> Result<Option<Self>> {
        let (certificate, key) = (Self::certificate(out), Self::key(out));
        match (certificate.try_exists()?, key.try_exists()?) {
            (false, false) => return Ok(None),
            (true, true) => {}
            (has_certificate, _) => {
                let missing = if has_certificate { &key } else { &certificate };
                bail!(
                    "{} is missing: without it the CA in {} cannot issue certificates; bring it back, or choose \
                     another --out for a new CA",
                    missing.display(),
                    out.display()
                );
            }
        }
        let read = |file: &Path| {
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
        };
        let pem = read(&certificate)?;
        let pair = KeyPair::from_pem(&read(&key)?)
            .with_context(|| format!("{} holds no key that can be used", key.display()))?;
        let (_, block) = parse_x509_pem(pem.as_bytes())
            .map_err(|error| anyhow::anyhow!("{} holds no certificate: {error}", certificate.display()))?;
        let (_, parsed) = X509Certificate::from_der(&block.contents)
            .map_err(|error| anyhow::anyhow!("{} holds no certificate: {error}", certificate.display()))?;
        ensure!(
            parsed.public_key().raw == pair.subject_public_key_info(),
            "{} does not fit the first certificate in {}",
            key.display(),
            certificate.display()
        );
        let not_after = parsed.validity().not_after.to_datetime();
        ensure!(not_after > OffsetDateTime::now_utc(), "the CA in {} has expired", certificate.display());
        let issuer = Issuer::from_ca_cert_pem(&pem, pair)
            .with_context(|| format!("{} is not that of a CA", certificate.display()))?;
        Ok(Some(Self { issuer, not_after }))
    }

    /// A new one, on disk in this folder.
    pub(super) fn create(out: &Path, days: u32) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        // A name of its own: of two CAs in one bundle, each certificate names the one that issued it.
        let name = format!("Holdfast CA {:016x}", rand::random::<u64>());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let now = OffsetDateTime::now_utc();
        params.not_before = now - CLOCKS_DIFFER;
        params.not_after = now + Duration::days(days.into());
        let certificate = params.self_signed(&key)?;
        write(&Self::key(out), key.serialize_pem().as_bytes(), 0o600)?;
        write(&Self::certificate(out), certificate.pem().as_bytes(), 0o644)?;
        let not_after = params.not_after;
        Ok(Self { issuer: Issuer::new(params, key), not_after })
    }

    /// A certificate and a new key for somebody.
    pub(super) fn issue(&self, identity: &Identity, days: u32) -> Result<Issued> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("Holdfast {}", identity.role()));
        params.subject_alt_names.push(SanType::URI(identity.uri().as_str().try_into()?));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Identity::Node(address) = identity {
            let host = address.host();
            params.subject_alt_names.push(match host.parse::<IpAddr>() {
                Ok(ip) => SanType::IpAddress(ip),
                Err(_) => SanType::DnsName(host.as_str().try_into()?),
            });
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let now = OffsetDateTime::now_utc();
        params.not_before = now - CLOCKS_DIFFER;
        params.not_after = (now + Duration::days(days.into())).min(self.not_after);
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}
