//! Connections: how many, and how long they may stay silent at first.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use futures::FutureExt;
use futures::future::BoxFuture;
use prometheus_client::metrics::counter::Counter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tower::Service;

/// Refuses connections beyond a number and gives the others a slot for as long as they live.
#[derive(Clone)]
pub(super) struct Bounded<A> {
    inner: A,
    slots: Arc<Semaphore>,
    patience: Duration,
    refused: Counter,
    stop: CancellationToken,
}

impl<A> Bounded<A> {
    pub(super) fn new(
        inner: A,
        slots: Arc<Semaphore>,
        patience: Duration,
        refused: Counter,
        stop: CancellationToken,
    ) -> Self {
        Self { inner, slots, patience, refused, stop }
    }
}

impl<A, S> Accept<TcpStream, S> for Bounded<A>
where
    A: Accept<TcpStream, S>,
    A::Future: Send + 'static,
    A::Stream: Send + 'static,
    A::Service: Send + 'static,
{
    type Stream = Patient<A::Stream>;
    type Service = Held<A::Service>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        // Waiting for a slot would only pile up sockets: who is one too many learns it now and tries elsewhere.
        let Ok(slot) = self.slots.clone().try_acquire_owned() else {
            self.refused.inc();
            return futures::future::err(io::Error::other("too many connections")).boxed();
        };
        let accepted = self.inner.accept(stream, service);
        let (patience, stop) = (self.patience, self.stop.clone());
        async move {
            // A connection that has not finished its handshake has sent nothing, so a drain need not wait for it.
            let (stream, service) = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(io::ErrorKind::ConnectionAborted.into()),
                accepted = accepted => accepted?,
            };
            let limit = Box::pin(tokio::time::sleep(patience));
            Ok((Patient { inner: stream, wanted: PREFACE, limit }, Held { inner: service, _slot: Arc::new(slot) }))
        }
        .boxed()
    }
}

/// A service that keeps its connection's slot.
#[derive(Clone)]
pub(super) struct Held<S> {
    inner: S,
    _slot: Arc<OwnedSemaphorePermit>,
}

impl<S: Service<R>, R> Service<R> for Held<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.inner.call(request)
    }
}

/// hyper looks at this many bytes to tell HTTP/2 from HTTP/1, and waits for them without a limit of its own.
const PREFACE: usize = 24;

/// A stream whose first bytes must come in time.
pub(super) struct Patient<S> {
    inner: S,
    wanted: usize,
    limit: Pin<Box<Sleep>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buf);
        if self.wanted == 0 {
            return read;
        }
        if read.is_pending() && self.limit.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.wanted = self.wanted.saturating_sub(buf.filled().len().saturating_sub(before));
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
