//! What went wrong, in words that say what to do.

use crate::dial::ConnectError;
use rustls::{AlertDescription, CertificateError};
use std::error::Error as StdError;
use std::io;

/// Why a call failed, with what lies beneath: "transport error" alone helps nobody.
pub fn explain(status: &tonic::Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(connect) = error.downcast_ref::<ConnectError>() {
            return connect.to_string();
        }
        let detail = error.to_string();
        if !detail.is_empty() && !text.contains(&detail) {
            text = format!("{text}: {detail}");
        }
        cause = error.source();
    }
    text
}

/// Whether a call failed because one side does not believe the other or may not call it: asking
/// again mends nothing.
pub fn is_final(status: &tonic::Status) -> bool {
    if status.code() == tonic::Code::PermissionDenied {
        return true;
    }
    let mut cause = status.source();
    while let Some(error) = cause {
        match error.downcast_ref::<ConnectError>() {
            Some(ConnectError::Tcp(..)) => return false,
            Some(_) => return true,
            None => {}
        }
        cause = error.source();
    }
    // What the transport heard of the other side, it tells as text alone.
    let text = explain(status);
    text.contains(REFUSED_US) || text.contains(WANTS_TLS)
}

/// How an alert begins that says so.
const REFUSED_US: &str = "the other side refused the certificate of this process";
/// What a caller without TLS is told.
pub(crate) const WANTS_TLS: &str =
    "this node speaks TLS only: set [tls] of the caller to certificates of the cluster's CA";

/// Why a certificate is not believed. `authorities`: where those are that are believed.
pub(crate) fn certificate_error(error: &rustls::Error, authorities: &str) -> String {
    let rustls::Error::InvalidCertificate(error) = error else { return error.to_string() };
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired; renew it (or the clock of this machine is wrong)".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet; is the clock of this machine right?".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("the certificate was not issued by a CA {authorities}")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is not issued for this purpose: nodes need the extended key usages serverAuth and \
             clientAuth, routers and operators clientAuth"
                .to_owned()
        }
        other => format!("the certificate is not valid: {other}"),
    }
}

/// What the other side meant by an alert.
pub(crate) fn alert(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "it was not issued by a CA that the other side believes (its tls.ca)"
        }
        AlertDescription::CertificateExpired => "it has expired, by the clock of the other side",
        AlertDescription::CertificateRequired => "none was shown",
        AlertDescription::UnsupportedCertificate | AlertDescription::BadCertificate => {
            "it is not valid for this purpose"
        }
        other => return format!("the other side broke off the TLS handshake ({other:?})"),
    };
    format!("{REFUSED_US}: {why}")
}

/// The TLS error inside of an error of a stream.
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Why a handshake failed.
pub(crate) fn handshake(error: &io::Error) -> String {
    match tls_error(error) {
        Some(error @ rustls::Error::InvalidCertificate(_)) => certificate_error(error, "of tls.ca"),
        Some(rustls::Error::AlertReceived(received)) => alert(*received),
        Some(rustls::Error::NoCertificatesPresented) => "it showed no certificate".to_owned(),
        Some(rustls::Error::InvalidMessage(_)) => {
            "it does not speak TLS; its tls.mode is off, or this is another program".to_owned()
        }
        Some(error) => error.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "the connection ended during the TLS handshake".to_owned()
        }
        None => error.to_string(),
    }
}
