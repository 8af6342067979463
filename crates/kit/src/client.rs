//! The Kubernetes client every part of Berth uses: our own back-off, deadlines and name, nothing hidden.

mod file;
mod meter;

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config, client::ClientBuilder};
use tower::timeout::TimeoutLayer;

pub use meter::{Meter, Metered};

/// How long the API server may take to answer with headers. Watch bodies are not affected.
const ANSWER: Duration = Duration::from_secs(15);

/// How long a connection may be silent while somebody waits for it.
const STALLED: Duration = Duration::from_secs(300);

/// Which cluster to talk to.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// A kubeconfig file; without one those that `KUBECONFIG` names or the user's default one, and only where none of them can
    /// be used the pod's own service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context of that kubeconfig; with it the service account is never used.
    pub context: Option<String>,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The named kubeconfig cannot be used.
    #[error("reading the kubeconfig {path}")]
    Kubeconfig {
        /// The file as the user named it.
        path: String,
        /// What is wrong with it.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// Nothing tells which cluster to talk to.
    #[error("finding a cluster: no --kubeconfig, not in a pod ({in_cluster}), and no default kubeconfig")]
    Infer {
        /// What a pod would have.
        in_cluster: Box<InClusterError>,
        /// What is wrong with the default kubeconfig.
        #[source]
        kubeconfig: Box<KubeconfigError>,
    },
    /// A stored kubeconfig reaches for programs or files of this machine.
    #[error("the kubeconfig {stored} has {field}, which is not followed")]
    Outside {
        /// Where it is stored.
        stored: String,
        /// The field.
        field: &'static str,
    },
    /// A kubeconfig names a proxy. Only its host is told: a password may stand before it.
    #[error("the kubeconfig names the proxy {proxy}, which is not used: API servers are called directly")]
    Proxy {
        /// The host of the proxy.
        proxy: String,
    },
    /// The configuration cannot be turned into a client.
    #[error("building the Kubernetes client")]
    Build(#[source] Box<kube::Error>),
}

/// Connects as `agent`, which appears in the server's audit log, and counts what is asked.
///
/// # Errors
/// When the configuration cannot be found, read or used.
pub async fn connect(access: &Access, agent: &str, meter: &Meter) -> Result<Client, Error> {
    build(config(access).await?, agent, Duration::from_secs(5), ANSWER, meter)
}

/// How long another cluster may take to be connected to, and to answer.
const FAR: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30));

/// Connects as `agent` to the cluster of a kubeconfig that is stored in a Secret. `stored` names it in errors.
///
/// # Errors
/// When it cannot be read or used, or asks to run a program or to read a file of this machine.
pub async fn connect_stored(text: &str, stored: &str, agent: &str) -> Result<Client, Error> {
    let file =
        file::parse(text).map_err(|source| Error::Kubeconfig { path: stored.to_owned(), source: Box::new(source) })?;
    if let Some(field) = outside(&file) {
        return Err(Error::Outside { stored: stored.to_owned(), field });
    }
    let config = configured(file, &KubeConfigOptions::default())
        .await
        .map_err(|source| Error::Kubeconfig { path: stored.to_owned(), source: Box::new(source) })?;
    // The metric tells of the cluster that Berth serves; this is another one.
    build(config, agent, FAR.0, FAR.1, &Meter::default())
}

/// The field of a kubeconfig that reaches outside of it.
fn outside(file: &Kubeconfig) -> Option<&'static str> {
    for named in &file.auth_infos {
        let Some(user) = &named.auth_info else { continue };
        let fields = [
            (user.exec.is_some(), "exec"),
            (user.auth_provider.is_some(), "auth-provider"),
            (user.token_file.is_some(), "tokenFile"),
            (user.client_certificate.is_some(), "client-certificate"),
            (user.client_key.is_some(), "client-key"),
        ];
        if let Some((_, field)) = fields.into_iter().find(|(given, _)| *given) {
            return Some(field);
        }
    }
    let file_of = |cluster: &kube::config::Cluster| cluster.certificate_authority.is_some();
    file.clusters.iter().filter_map(|named| named.cluster.as_ref()).any(file_of).then_some("certificate-authority")
}

fn build(mut config: Config, agent: &str, connect: Duration, answer: Duration, meter: &Meter) -> Result<Client, Error> {
    // kube would repeat 429, 503 and 504 by itself up to 15 times, POST included; repeating is the queue's business.
    config.default_retry = false;
    // kube refuses it too, and quotes it whole.
    if let Some(proxy) = &config.proxy_url {
        return Err(Error::Proxy { proxy: proxy.host().unwrap_or_default().to_owned() });
    }
    config.connect_timeout = Some(connect);
    // A body that stalls must not hold its reader for ever. Watches end by themselves after 290 s.
    config.read_timeout = Some(STALLED);
    config.reset_reader_on_write = true;
    if let Ok(value) = HeaderValue::from_str(agent) {
        config.headers.push((USER_AGENT, value));
    }
    let builder = ClientBuilder::try_from(config).map_err(|e| Error::Build(Box::new(e)))?;
    Ok(builder.with_layer(&TimeoutLayer::new(answer)).with_layer(meter).build())
}

/// Stands in a kubeconfig where it names no proxy.
const NO_PROXY: &str = "http://directly.invalid";

/// What a kubeconfig says, and nothing of what the environment says of proxies: where the file names none, kube would send
/// everything through that of `HTTPS_PROXY`, whatever `NO_PROXY` says, and has no part here that could. One that the file itself
/// names stays, and is refused.
async fn configured(mut file: Kubeconfig, options: &KubeConfigOptions) -> Result<Config, KubeconfigError> {
    for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        if cluster.proxy_url.as_ref().is_none_or(String::is_empty) {
            cluster.proxy_url = Some(NO_PROXY.to_owned());
        }
    }
    let mut config = Config::from_custom_kubeconfig(file, options).await?;
    config.proxy_url = config.proxy_url.filter(|url| *url != NO_PROXY);
    Ok(config)
}

async fn config(access: &Access) -> Result<Config, Error> {
    let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let named = |path: String| move |source| Error::Kubeconfig { path, source: Box::new(source) };
    if let Some(path) = &access.kubeconfig {
        let shown = path.display().to_string();
        let file = file::read(path).map_err(named(shown.clone()))?;
        return configured(file, &options).await.map_err(named(shown));
    }
    let default = async { configured(file::usual()?, &options).await }.await;
    if access.context.is_some() {
        return default.map_err(named("of the default location".to_owned()));
    }
    let mut config = default.or_else(|kubeconfig| {
        Config::incluster()
            .map_err(|in_cluster| Error::Infer { in_cluster: Box::new(in_cluster), kubeconfig: Box::new(kubeconfig) })
    })?;
    config.apply_debug_overrides();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stored_kubeconfig_runs_nothing_and_reads_no_file() {
        let of = |user: &str, cluster: &str| {
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
                 clusters: [{{name: c, cluster: {{server: \"https://10.0.0.5:6443\"{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
            )
        };
        for (text, field) in [
            (of("exec: {command: sh, apiVersion: v1}", ""), "exec"),
            (of("tokenFile: /etc/passwd", ""), "tokenFile"),
            (of("client-certificate: /x", ""), "client-certificate"),
            (of("token: t", ", certificate-authority: /x"), "certificate-authority"),
        ] {
            let error = connect_stored(&text, "ns/c-kubeconfig", "test").await.err().expect(field).to_string();
            assert!(error.contains(field) && error.contains("ns/c-kubeconfig"), "{error}");
        }
        assert!(connect_stored("{", "ns/c-kubeconfig", "test").await.is_err());
    }

    /// Variables of a process can only be set from outside, so this runs itself, once for each that there might be.
    #[tokio::test]
    async fn a_proxy_of_the_environment_is_not_for_api_servers() {
        let this = "client::tests::a_proxy_of_the_environment_is_not_for_api_servers";
        let own = "http://user:canary@own.example:3128/";
        let within = std::env::var_os("BERTH_TEST_DIR").map(PathBuf::from);
        let Some(dir) = within else {
            let dir = tempfile::tempdir().unwrap();
            for (name, proxy) in [("plain", String::new()), ("own", format!(", proxy-url: \"{own}\""))] {
                let text = format!(
                    "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
                     clusters: [{{name: c, cluster: {{server: \"https://10.0.0.5:6443\"{proxy}}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n"
                );
                std::fs::write(dir.path().join(name), text).unwrap();
            }
            for proxy in ["", "http://proxy.example:3128", own, "no URL"] {
                let mut again = std::process::Command::new(std::env::current_exe().unwrap());
                again.args(["--exact", this]).env("BERTH_TEST_DIR", dir.path()).env("HTTPS_PROXY", proxy);
                let output = again.env("KUBECONFIG", dir.path().join("plain")).output().unwrap();
                let told = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success() && told.contains("1 passed"), "{proxy:?}: {told}");
            }
            return;
        };
        let file = |name: &str| Access { kubeconfig: Some(dir.join(name)), context: None };
        let context = Access { kubeconfig: None, context: Some("c".to_owned()) };
        for access in [file("plain"), context, Access::default()] {
            let found = config(&access).await.unwrap();
            assert_eq!((found.cluster_url.host(), found.proxy_url), (Some("10.0.0.5"), None), "{access:?}");
        }
        assert_eq!(config(&file("own")).await.unwrap().proxy_url.unwrap(), own);
        let stored = async |name: &str| {
            let text = std::fs::read_to_string(dir.join(name)).unwrap();
            connect_stored(&text, "ns/c-kubeconfig", "test")
                .await
                .map(drop)
                .map_err(|error| crate::class::chain(&error))
        };
        assert_eq!(stored("plain").await, Ok(()));
        let refused = stored("own").await.unwrap_err();
        assert!(refused.contains("own.example") && !refused.contains("canary"), "{refused}");
    }

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named() {
        let access = Access { kubeconfig: Some("no/such/file".into()), context: None };
        let error = connect(&access, "test", &Meter::default()).await.err().expect("no client without a file");
        assert!(error.to_string().contains("no/such/file"), "{error}");
    }
}
