//! How feeds are told of what is there already.
//!
//! kube's watcher asks for it as the beginning of a watch. What is sent for that question is a plain list without pages: a
//! server writes one long list in half the time that it needs for the same objects as events, and in far less than it needs for
//! many pages. Its answer is cut into events while it comes, so that no more than one object of it is ever held.

mod split;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::header::{ACCEPT, CONTENT_LENGTH};
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use kube::runtime::watcher;
use tower::BoxError;

use split::Split;

/// A client for feeds, which may ask it for first lists. Call it inside a runtime.
pub(crate) fn client(inner: &Client) -> Client {
    let client = inner.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { answer(&client, request).await }
    });
    Client::new(service, inner.default_namespace()).with_valid_until(*inner.valid_until())
}

/// How kube's watcher is to ask.
pub(super) fn config() -> watcher::Config {
    watcher::Config::default().streaming_lists()
}

type Told = UnsyncBoxBody<Bytes, BoxError>;

async fn answer(client: &Client, mut request: Request<Body>) -> Result<Response<Told>, kube::Error> {
    let as_it_is = |body: Body| body.map_err(BoxError::from).boxed_unsync();
    let Some(list) = list_of(request.uri()) else { return Ok(client.send(request).await?.map(as_it_is)) };
    *request.uri_mut() = list;
    ask_for_lists(request.headers_mut());
    let answer = client.send(request).await?;
    if !answer.status().is_success() {
        return Ok(answer.map(as_it_is));
    }
    let (mut head, body) = answer.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    let events = events(body.into_data_stream().map(|chunk| chunk.map_err(BoxError::from)));
    Ok(Response::from_parts(head, StreamBody::new(events.map(|chunk| chunk.map(Frame::data))).boxed_unsync()))
}

/// The list in place of a watch that is to begin with what is there; `None` for anything else. It names no version, so it is as
/// new as the question, and what it does not show is gone.
fn list_of(uri: &Uri) -> Option<Uri> {
    let query = uri.query().filter(|query| query.split('&').any(|part| part == "sendInitialEvents=true"))?;
    let selects = |part: &&str| part.starts_with("labelSelector=") || part.starts_with("fieldSelector=");
    let kept: Vec<&str> = query.split('&').filter(selects).collect();
    format!("{}?{}", uri.path(), kept.join("&")).parse().ok()
}

/// Where only metadata is wanted, a list of metadata has a name of its own.
fn ask_for_lists(headers: &mut HeaderMap) {
    let Some(accept) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else { return };
    let lists = accept.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;");
    if let Ok(value) = HeaderValue::from_str(&lists) {
        headers.insert(ACCEPT, value);
    }
}

/// The events that a list consists of. One that ends too soon ends with an error.
fn events<S>(list: S) -> impl Stream<Item = Result<Bytes, BoxError>> + Send
where
    S: Stream<Item = Result<Bytes, BoxError>> + Send + Unpin,
{
    futures::stream::unfold(Some((list, Split::default())), |state| async {
        let (mut list, mut split) = state?;
        loop {
            let events = match list.next().await {
                Some(Ok(chunk)) => split.take(&chunk),
                Some(Err(error)) => return Some((Err(error), None)),
                None => return Some((split.end().map_err(BoxError::from), None)),
            };
            match events {
                Ok(events) if events.is_empty() => {}
                Ok(events) => return Some((Ok(events), Some((list, split)))),
                Err(error) => return Some((Err(error.into()), None)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_begins_with_what_is_there_is_asked_as_a_list_and_nothing_else_is_touched() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        let first = "/api/v1/pods?watch=true&timeoutSeconds=290&allowWatchBookmarks=true&sendInitialEvents=true\
            &resourceVersionMatch=NotOlderThan&labelSelector=a%3Db&fieldSelector=c%3Dd&resourceVersion=0";
        assert_eq!(list_of(&uri(first)), Some(uri("/api/v1/pods?labelSelector=a%3Db&fieldSelector=c%3Dd")));
        for other in ["/api/v1/pods", "/api/v1/pods?watch=true&resourceVersion=7", "/api/v1/pods?limit=100"] {
            assert_eq!(list_of(&uri(other)), None, "{other}");
        }
    }

    #[test]
    fn metadata_is_asked_for_as_a_list_of_metadata() {
        let mut headers = HeaderMap::new();
        ask_for_lists(&mut headers);
        assert!(headers.is_empty());
        headers
            .insert(ACCEPT, HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"));
        ask_for_lists(&mut headers);
        assert_eq!(headers[ACCEPT], "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    }
}
