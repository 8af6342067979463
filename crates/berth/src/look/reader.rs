//! Reads kinds, each once for a whole screen and all at the same time.
//!
//! Lists are consistent reads: whoever applied a manifest sees it on the next screen. The server answers them from its cache
//! as soon as the cache has caught up, a few milliseconds; only a second list of the same kind within 100 ms, such as a next
//! page, waits for the rest of those. So there are no pages, and no kind is asked for twice. Older reads would be answered no
//! sooner: nearly all of the time goes into writing the objects out, some 0.1 ms for each.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow};
use api::key::ObjectKey;
use api::meta::{Versioned, View};
use http_body_util::BodyExt as _;
use kit::explain::{Extent, Unseen};
use kit::kinds::Kind;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::Status;
use kube::{Api, Client, Resource as _};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use super::cut::Cutter;
use super::served::Served;
use super::{Which, is_forbidden, missing, plural};

/// How often a list is asked for before the server's excuse is told.
const TRIES: u32 = 6;

/// A kind that can be read for a screen.
pub trait Shown: View + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static {}

impl<K: View + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static> Shown for K {}

/// What was read of one kind.
pub(super) struct Listed<K, P> {
    pub(super) kind: Option<Kind>,
    pub(super) items: Vec<K>,
    unseen: Option<Unseen<P>>,
}

impl<K, P> Listed<K, P> {
    pub(super) fn keep(self, unseen: &mut Vec<Unseen<P>>) -> Vec<K> {
        unseen.extend(self.unseen);
        self.items
    }
}

/// What was read of one kind, and what was not.
#[derive(Clone)]
pub struct Read<K> {
    /// The kind at the version that is served; absent when it is not.
    pub kind: Option<Kind>,
    /// The objects.
    pub items: Vec<K>,
    /// How much could not be read, and why.
    pub unseen: Option<(Extent, String)>,
}

/// The same before anybody asks of which type it is.
struct Heap {
    kind: Option<Kind>,
    basket: Option<Box<dyn Basket>>,
    unseen: Option<(Extent, String)>,
}

/// A kind as one type reads it, of the namespace that matters alone or of all.
type Wish = (TypeId, bool);
/// What was read; several may wait for the same.
type Found = Arc<OnceCell<Box<dyn Any + Send + Sync>>>;

/// Reads whole kinds, as far as the one who asks may, each once.
pub struct Reader<'a> {
    /// The server.
    pub client: &'a Client,
    /// The namespace that matters most.
    pub namespace: Option<&'a str>,
    served: OnceCell<Served>,
    found: Mutex<BTreeMap<Wish, Found>>,
}

impl<'a> Reader<'a> {
    /// Nothing is asked before the first question.
    pub fn new(client: &'a Client, namespace: Option<&'a str>) -> Self {
        Self { client, namespace, served: OnceCell::new(), found: Mutex::new(BTreeMap::new()) }
    }

    /// A reader for those who act on what is not there: whether a kind is served is asked for each by itself, because the
    /// document of all may be behind.
    pub fn sceptical(client: &'a Client) -> Self {
        let served = OnceCell::new_with(Some(Served::each(client)));
        Self { served, ..Self::new(client, None) }
    }

    /// The kind at the version that is served, if it is.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn kind<K: Shown>(&self) -> anyhow::Result<Option<Kind>> {
        let any = Kind::of::<K>();
        self.at(&any, &any.at(K::VERSIONS)).await
    }

    /// The first of these candidates that is served.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn at(&self, any: &Kind, candidates: &[Kind]) -> anyhow::Result<Option<Kind>> {
        self.first(candidates).await.with_context(|| format!("asking the server for {}", any.kind))
    }

    /// Whether the server knows a kind at this version.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn serves(&self, kind: &Kind) -> anyhow::Result<bool> {
        let found = self.first(std::slice::from_ref(kind)).await;
        Ok(found.with_context(|| format!("asking the server for {}", kind.kind))?.is_some())
    }

    /// The first of these versions of a kind that is served.
    pub(super) async fn first(&self, candidates: &[Kind]) -> Result<Option<Kind>, Box<kube::Error>> {
        let served = self.served.get_or_try_init(|| Served::ask(self.client)).await?;
        Ok(served.first(candidates).await?.cloned())
    }

    pub(super) async fn list<K: Shown, P>(&self, part: P) -> anyhow::Result<Listed<K, P>> {
        let Read { kind, items, unseen } = self.read().await?;
        Ok(Listed { kind, items, unseen: unseen.map(|(extent, why)| Unseen { part, extent, why }) })
    }

    /// Reads every object of a kind that this user may read: of all namespaces, or else of the one that matters.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn read<K: Shown>(&self) -> anyhow::Result<Read<K>> {
        self.once(false).await
    }

    /// Reads the objects of a kind in the namespace that matters; of all where none matters most.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn read_here<K: Shown>(&self) -> anyhow::Result<Read<K>> {
        self.once(K::NAMESPACED && self.namespace.is_some()).await
    }

    async fn once<K: Shown>(&self, here: bool) -> anyhow::Result<Read<K>> {
        let wish = (TypeId::of::<K>(), here);
        let found = Arc::clone(self.found.lock().unwrap_or_else(PoisonError::into_inner).entry(wish).or_default());
        let ask = async || {
            let asked = (Kind::of::<K>(), K::VERSIONS, K::NAMESPACED);
            let Heap { kind, basket, unseen } = self.ask(asked, here, || Box::new(Vec::<K>::new())).await?;
            let items = basket.map(unpacked).unwrap_or_default();
            let read: Box<dyn Any + Send + Sync> = Box::new(Read::<K> { kind, items, unseen });
            anyhow::Ok(read)
        };
        let read = found.get_or_try_init(ask).await?;
        read.downcast_ref::<Read<K>>().cloned().with_context(|| format!("no {} was read", Kind::of::<K>().kind))
    }

    async fn ask(
        &self,
        (any, versions, namespaced): (Kind, &[&str], bool),
        here: bool,
        basket: fn() -> Box<dyn Basket>,
    ) -> anyhow::Result<Heap> {
        let served = self.first(&any.at(versions)).await.with_context(|| format!("asking the server for {}", any.kind));
        let Some(kind) = served? else {
            let why = format!("the server does not know {} ({}), so there is none", any.kind, any.group);
            return Ok(Heap { kind: None, basket: None, unseen: Some((Extent::Absent, why)) });
        };
        let name = plural(&kind);
        let failed = |error: kube::Error| anyhow!(error).context(format!("listing {name}"));
        let found = |kind, basket, unseen| Ok(Heap { kind: Some(kind), basket: Some(basket), unseen });
        if !here {
            match listed(self.client, &kind, None, &ListParams::default(), basket()).await {
                Ok(basket) => return found(kind, basket, None),
                Err(error) if !is_forbidden(&error) => return Err(failed(error)),
                Err(_) => {}
            }
        }
        if let Some(namespace) = self.namespace.filter(|_| namespaced) {
            match listed(self.client, &kind, Some(namespace), &ListParams::default(), basket()).await {
                Ok(basket) => {
                    let why = format!("you may not list {name} in all namespaces: only those in {namespace} were read");
                    return found(kind, basket, (!here).then_some((Extent::Elsewhere, why)));
                }
                Err(error) if !is_forbidden(&error) => return Err(failed(error)),
                Err(_) => {}
            }
        }
        let why = format!("you may not list {name}: ask for that right, or look with another --context");
        Ok(Heap { kind: Some(kind), basket: None, unseen: Some((Extent::All, why)) })
    }

    /// The object of this name, read with all others of its kind in the namespace that matters.
    ///
    /// # Errors
    /// When it is not there or may not be read, the kind is not served, or the server does not answer.
    pub async fn named<K: Shown>(&self, namespace: &str, name: &str, command: &str) -> anyhow::Result<K> {
        let Some(kind) = self.kind::<K>().await? else {
            let what = Kind::of::<K>().kind;
            return Err(anyhow!("the server does not know {what}s; install Cluster API, or choose another --context"));
        };
        let (mut read, which): (Read<K>, _) = (self.read_here().await?, Which::One(namespace, name));
        self.complete(&which, &kind, &mut read.items, command).await?;
        let found = read.items.into_iter().find(|one| which.takes(&ObjectKey::of(one)));
        found.with_context(|| format!("the {} {namespace}/{name} was not read", kind.kind))
    }

    /// Adds the one object that is asked for, where no list showed it.
    pub(super) async fn complete<K: Shown>(
        &self,
        which: &Which<'_>,
        kind: &Kind,
        items: &mut Vec<K>,
        command: &str,
    ) -> anyhow::Result<()> {
        let Which::One(namespace, name) = which else { return Ok(()) };
        if items.iter().any(|item| which.takes(&ObjectKey::of(item))) {
            return Ok(());
        }
        let Some(found) = self.one(kind, namespace, name).await? else {
            // It may be in another namespace than was read.
            let everywhere: Read<K> = self.read().await?;
            return Err(missing(&everywhere.items, kind, &ObjectKey::namespaced(*namespace, *name), command));
        };
        items.push(found);
        Ok(())
    }

    /// Reads one object that no list showed.
    async fn one<K: Shown>(&self, kind: &Kind, namespace: &str, name: &str) -> anyhow::Result<Option<K>> {
        let api: Api<Versioned<K>> = Api::namespaced_with(self.client.clone(), namespace, &kind.resource());
        match api.get_opt(name).await {
            Ok(found) => Ok(found.map(|Versioned(object)| object)),
            Err(error) if is_forbidden(&error) => {
                let what = plural(kind);
                Err(anyhow!(
                    "you may not get {what} in the namespace {namespace}; see `kubectl auth can-i get {what} -n {namespace}`"
                ))
            }
            Err(error) => Err(anyhow!(error).context(format!("reading the {} {namespace}/{name}", kind.kind))),
        }
    }
}

/// Every object of a kind, in a namespace or all.
///
/// # Errors
/// When the server does not answer, or refuses.
pub async fn items<K>(
    client: &Client,
    kind: &Kind,
    namespace: Option<&str>,
    which: &ListParams,
) -> Result<Vec<K>, kube::Error>
where
    K: DeserializeOwned + Send + 'static,
{
    listed(client, kind, namespace, which, Box::new(Vec::<K>::new())).await.map(unpacked)
}

async fn listed(
    client: &Client,
    kind: &Kind,
    namespace: Option<&str>,
    which: &ListParams,
    basket: Box<dyn Basket>,
) -> Result<Box<dyn Basket>, kube::Error> {
    let path = kube::api::DynamicObject::url_path(&kind.resource(), namespace);
    let request = kube::core::Request::new(path).list(which).map_err(kube::Error::BuildRequest)?;
    // A task of its own: several kinds are then read on several processors.
    let mut task = JoinSet::new();
    task.spawn(patiently(client.clone(), request, basket));
    match task.join_next().await {
        Some(Ok(basket)) => basket,
        Some(Err(error)) => Err(kube::Error::Service(Box::new(error))),
        None => Err(kube::Error::Service("the list was not read".into())),
    }
}

/// What a basket holds.
fn unpacked<K: 'static>(basket: Box<dyn Basket>) -> Vec<K> {
    let basket: Box<dyn Any> = basket;
    basket.downcast::<Vec<K>>().map(|items| *items).unwrap_or_default()
}

/// Takes the objects of a list one by one. What waits for a server is compiled once for all kinds, so it does not know them.
trait Basket: Any + Send {
    /// Forgets what it took.
    fn empty(&mut self);
    /// Takes an object.
    fn take(&mut self, text: &str) -> Result<(), serde_json::Error>;
}

impl<K: DeserializeOwned + Send + 'static> Basket for Vec<K> {
    fn empty(&mut self) {
        self.clear();
    }

    fn take(&mut self, text: &str) -> Result<(), serde_json::Error> {
        self.push(serde_json::from_str(text)?);
        Ok(())
    }
}

/// Reads a list, some times if need be: a server that has too much to do, or has only just learned of the kind, says when to
/// ask again.
async fn patiently(
    client: Client,
    request: http::Request<Vec<u8>>,
    mut basket: Box<dyn Basket>,
) -> Result<Box<dyn Basket>, kube::Error> {
    let mut left = TRIES;
    loop {
        left -= 1;
        match received(client.clone(), request.clone(), &mut *basket).await {
            Err(kube::Error::Api(status)) if status.code == 429 && left > 0 => {
                let told = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                tokio::time::sleep(Duration::from_secs(told.clamp(1, 5).into())).await;
            }
            other => return other.map(|()| basket),
        }
    }
}

async fn received(client: Client, request: http::Request<Vec<u8>>, basket: &mut dyn Basket) -> Result<(), kube::Error> {
    let answer = client.send(request.map(Body::from)).await?;
    let code = answer.status();
    let mut body = answer.into_body();
    if !code.is_success() {
        let text = body.collect().await?.to_bytes();
        // What stands between here and the server answers in its own words.
        let said = |_| Status::failure(String::from_utf8_lossy(&text).trim(), "").with_code(code.as_u16());
        return Err(kube::Error::Api(serde_json::from_slice(&text).unwrap_or_else(said).boxed()));
    }
    basket.empty();
    let mut cutter = Cutter::default();
    while let Some(frame) = body.frame().await {
        let frame = frame?;
        let Some(piece) = frame.data_ref() else { continue };
        let keep = |text: &[u8]| {
            // Views are read from texts everywhere else, and reading them from bytes too would compile each once more.
            let text = std::str::from_utf8(text).map_err(|error| kube::Error::Service(Box::new(error)))?;
            basket.take(text).map_err(kube::Error::SerdeError)
        };
        cutter.feed(piece, keep)?;
    }
    if !cutter.is_over() {
        let early = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the answer is no list, or breaks off");
        return Err(kube::Error::Service(Box::new(early)));
    }
    Ok(())
}
