//! Through a proxy.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use cloudstack::net::Options;
use cloudstack::port::CloudStack;
use futures::FutureExt;
use futures::future::BoxFuture;
use kit::http::{Proxies, Resolve};
use sim::cloudstack::start;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::{client_with, secret};
use crate::wire::pair;

/// Every name has this address, which is not of this machine: those are never called through a proxy.
const ADDRESS: &str = "198.51.100.7";

struct Everywhere;

impl Resolve for Everywhere {
    fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        async { Ok(vec![ADDRESS.parse().unwrap()]) }.boxed()
    }
}

/// A proxy whose every tunnel ends at one server: its address, what it was asked, and what keeps it running.
async fn proxy(end: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, asked, mut task) =
        (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default(), JoinSet::new());
    let seen = asked.clone();
    task.spawn(async move {
        let mut tunnels = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let seen = seen.clone();
            tunnels.spawn(async move {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap() > 0 {
                    head.push(byte[0]);
                }
                seen.lock().unwrap().push(String::from_utf8(head).unwrap());
                stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
                let mut end = TcpStream::connect(end).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut end).await;
            });
        }
    });
    (address, asked, task)
}

#[tokio::test]
async fn a_signed_call_goes_through_a_tunnel_to_the_address_that_was_checked() {
    for secure in [false, true] {
        let (tls, pem) = pair("acs.example");
        let world = sim::cloudstack::Options { tls: secure.then_some(tls), ..Default::default() };
        let sim = start(world).await.unwrap();
        let (scheme, rest) = sim.endpoint.split_once("://").unwrap();
        let end = rest.strip_suffix("/client/api").unwrap().parse().unwrap();
        let (address, asked, _task) = proxy(end).await;
        let mut options = Options::new("berth/0");
        let variable = if secure { "HTTPS_PROXY" } else { "HTTP_PROXY" };
        let held = |name: &str| (name == variable).then(|| format!("http://{address}"));
        options.proxies = Arc::new(Proxies::by(held).unwrap());
        options.resolver = Arc::new(Everywhere);
        let url = format!("{scheme}://acs.example:8443/client/api");
        let mut data = secret(&url, &sim.api_key, &sim.secret_key);
        if secure {
            data.insert("ca-cert".to_owned(), pem.into_bytes());
        }
        let client = client_with(options, &data);
        assert_eq!(client.list_zones(None).await.unwrap().len(), 3);
        assert_eq!(sim.calls("listZones"), 1);
        let [asked] = std::mem::take(&mut *asked.lock().unwrap()).try_into().unwrap();
        assert!(asked.starts_with(&format!("CONNECT {ADDRESS}:8443 HTTP/1.1\r\n")), "{asked}");
        assert!(!asked.contains("acs.example"), "{asked}");
    }
}
