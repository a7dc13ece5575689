//! Who may call what: the one table, looked up before any service sees a call.

use futures::future::{Either, Ready, ready};
use holdfast_transport::{Identity, Peer, Quiet, Role, Security};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};
use tower::Layer;

/// The roles that may call a method; none for what is not listed.
fn callers(path: &str) -> &'static [Role] {
    let Some((service, method)) = path.trim_start_matches('/').split_once('/') else { return &[] };
    match (service, method) {
        ("holdfast.v1.Raft", _) => &[Role::Node],
        ("holdfast.v1.Founding", _) => &[Role::Operator],
        // What an operator must see to found a cluster; nothing that is a user's.
        ("holdfast.v1.Node", "ReadMeta" | "Topology") => &[Role::Router, Role::Operator],
        ("holdfast.v1.Node", _) => &[Role::Router],
        _ => &[],
    }
}

/// Puts the guard before the services of a listener.
#[derive(Clone)]
pub(crate) struct Guard {
    is_plain: bool,
    quiet: Arc<Quiet>,
}

impl Guard {
    /// Without TLS nobody can be told from anybody, and everybody may call.
    pub(crate) fn new(security: &Security) -> Self {
        Self { is_plain: security.is_plain(), quiet: Arc::default() }
    }

    fn check(&self, path: &str, peer: Option<&Peer>) -> Result<(), Status> {
        if self.is_plain {
            return Ok(());
        }
        let may = callers(path);
        let problem = match peer.and_then(|peer| peer.identity.as_deref()) {
            Some(Ok(identity)) if may.contains(&identity.role()) => return Ok(()),
            Some(Ok(identity)) => wrong_role(path, identity, may),
            Some(Err(error)) => format!("the certificate of the caller is of no use here: {error}"),
            None => "the call came without a certificate".to_owned(),
        };
        let from = peer.and_then(|peer| peer.address).map(|address| address.ip().to_canonical().to_string());
        let told = format!("a call from {} was refused: {problem}", from.unwrap_or_default());
        if let Some(left_out) = self.quiet.tell(&told) {
            tracing::warn!(left_out, "{told}");
        }
        Err(Status::permission_denied(problem))
    }
}

fn wrong_role(path: &str, identity: &Identity, may: &[Role]) -> String {
    let roles: Vec<&str> = may.iter().map(|role| role.name()).collect();
    let whom =
        if roles.is_empty() { "nobody".to_owned() } else { format!("the role {}", roles.join(" or ")) };
    format!("{path} is for {whom}, and the certificate of the caller names {identity}")
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { guard: self.clone(), inner }
    }
}

/// A service behind the guard.
#[derive(Clone)]
pub(crate) struct Guarded<S> {
    guard: Guard,
    inner: S,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response<Body>, Infallible>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.guard.check(request.uri().path(), request.extensions().get()) {
            Ok(()) => Either::Right(self.inner.call(request)),
            Err(status) => Either::Left(ready(Ok(status.into_http()))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use holdfast_transport::IdentityError;

    fn guard(is_plain: bool) -> Guard {
        Guard { is_plain, quiet: Arc::default() }
    }

    fn peer(identity: Option<Result<Identity, IdentityError>>) -> Peer {
        Peer { address: None, identity: identity.map(Arc::new) }
    }

    #[test]
    fn each_method_is_for_its_callers_alone() {
        let node = || Identity::Node("a:1".parse().unwrap());
        let router = || Identity::named(Role::Router, "r").unwrap();
        let operator = || Identity::named(Role::Operator, "o").unwrap();
        for (path, may) in [
            ("/holdfast.v1.Raft/Call", [true, false, false]),
            ("/holdfast.v1.Founding/Adopt", [false, false, true]),
            ("/holdfast.v1.Founding/Describe", [false, false, true]),
            ("/holdfast.v1.Node/Write", [false, true, false]),
            ("/holdfast.v1.Node/Recall", [false, true, false]),
            ("/holdfast.v1.Node/WhateverComes", [false, true, false]),
            ("/holdfast.v1.Node/ReadMeta", [false, true, true]),
            ("/holdfast.v1.Node/Topology", [false, true, true]),
            ("/holdfast.v1.Other/Call", [false; 3]),
            ("/", [false; 3]),
            ("", [false; 3]),
        ] {
            for (identity, may) in [node(), router(), operator()].into_iter().zip(may) {
                let shown = format!("{path} {identity}");
                let checked = guard(false).check(path, Some(&peer(Some(Ok(identity)))));
                assert_eq!(checked.is_ok(), may, "{shown}");
            }
            for nobody in [Some(peer(None)), Some(peer(Some(Err(IdentityError::Missing)))), None] {
                assert!(guard(false).check(path, nobody.as_ref()).is_err(), "{path}");
                assert!(guard(true).check(path, nobody.as_ref()).is_ok(), "{path}");
            }
        }
        let error =
            guard(false).check("/holdfast.v1.Raft/Call", Some(&peer(Some(Ok(router()))))).unwrap_err();
        let expected = "/holdfast.v1.Raft/Call is for the role node, and the certificate of the caller names the router \"r\"";
        assert_eq!((error.code(), error.message()), (tonic::Code::PermissionDenied, expected));
    }
}
