//! A server that speaks the Query protocol and looks closely at what it is asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws::credentials::Source;
use aws::limits::Limits;
use aws::net::{Aws, Client, Meter, Options, Scope, Timing, Trust};
use aws::place::Endpoints;
use aws::port::Keys;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Method};
use kit::clock::Clock;
use kit::serve::{Options as Serving, Server, Tls};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What the server was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub form: BTreeMap<String, String>,
}

impl Asked {
    pub fn get(&self, name: &str) -> &str {
        self.form.get(name).map_or("", String::as_str)
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

pub struct Fake {
    pub url: String,
    log: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl Fake {
    /// Everything it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.log.lock().unwrap().clone()
    }
}

/// Serves the answers of `answer`, which is given the question and how many came before it.
pub async fn serve(answer: impl Fn(&Asked, usize) -> Response + Send + Sync + 'static) -> Fake {
    serve_with(None, answer).await
}

pub async fn serve_with(tls: Option<Tls>, answer: impl Fn(&Asked, usize) -> Response + Send + Sync + 'static) -> Fake {
    let log: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let (answer, seen) = (Arc::new(answer), log.clone());
    let router = Router::new().fallback(move |request: Request| {
        let (answer, seen) = (answer.clone(), seen.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let form = url::form_urlencoded::parse(&body).into_owned().collect();
            let asked = Asked { method: parts.method, path: parts.uri.path().to_owned(), headers: parts.headers, form };
            let before = {
                let mut log = seen.lock().unwrap();
                log.push(asked.clone());
                log.len() - 1
            };
            let response = answer(&asked, before);
            if response.headers().contains_key("x-test-silent") {
                std::future::pending::<()>().await;
            }
            response
        }
    });
    let server = Server::bind(Serving::new("test", "127.0.0.1:0".parse().unwrap())).await.unwrap();
    let (scheme, port) = (if tls.is_some() { "https" } else { "http" }, server.address().port());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { server.run(router, tls, CancellationToken::new()).await.unwrap() });
    Fake { url: format!("{scheme}://127.0.0.1:{port}"), log, _tasks: tasks }
}

pub fn answer(status: u16, body: impl Into<Body>) -> Response {
    Response::builder().status(status).header("x-amzn-requestid", "req-1").body(body.into()).unwrap()
}

/// Never answers.
pub fn silence() -> Response {
    Response::builder().header("x-test-silent", "1").body(Body::empty()).unwrap()
}

pub fn ok(operation: &str, inner: &str) -> Response {
    answer(
        200,
        format!(
            "<{operation}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r</requestId>{inner}</{operation}Response>"
        ),
    )
}

pub fn refused(status: u16, code: &str, message: &str) -> Response {
    answer(
        status,
        format!(
            "<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors><RequestID>req-1</RequestID></Response>"
        ),
    )
}

pub fn keys(id: &str, session: Option<&str>) -> Source {
    Source::Keys(Keys {
        id: id.to_owned(),
        secret: "canary-secret".to_owned().into(),
        session: session.map(|token| token.to_owned().into()),
    })
}

pub fn endpoints(ec2: &str, sts: &str) -> Endpoints {
    Endpoints::new().flag(format!("ec2={ec2}").parse().unwrap()).flag(format!("sts={sts}").parse().unwrap())
}

pub fn scope(source: Source, ec2: &str, sts: &str) -> Scope {
    Scope { region: "us-west-2".parse().unwrap(), source, endpoints: endpoints(ec2, sts), trust: Trust::System }
}

/// Like production, only with pauses too short to notice.
pub fn quick() -> Aws {
    aws(|_| {})
}

pub fn aws(change: impl FnOnce(&mut Timing)) -> Aws {
    aws_within(Limits::Unlimited, change)
}

pub fn aws_within(limits: Limits, change: impl FnOnce(&mut Timing)) -> Aws {
    let mut options = Options::new("berth/0.0.0-test");
    options.limits = limits;
    options.timing.pause = Duration::from_millis(1);
    options.timing.attempt = Duration::from_secs(10);
    change(&mut options.timing);
    Aws::new(options, Clock::system(), Meter::default())
}

pub fn client(fake: &Fake) -> Client {
    quick().client(&scope(keys("AKIDEXAMPLE", None), &fake.url, &fake.url)).unwrap()
}

pub fn bytes(size: usize) -> Bytes {
    Bytes::from(vec![b'x'; size])
}
