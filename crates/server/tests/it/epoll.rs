//! By epoll.

use firn::EngineKind;
use firn_server::Network;

const NETWORK: Network = Network::Epoll;
const ENGINE: EngineKind = EngineKind::Tree;

#[path = "client.rs"]
mod client;
#[path = "connections.rs"]
mod connections;
#[path = "strings.rs"]
mod strings;
#[path = "pipelines.rs"]
mod pipelines;
#[path = "pressure.rs"]
mod pressure;
#[path = "databases.rs"]
mod databases;
#[path = "transactions.rs"]
mod transactions;
#[path = "pub_sub.rs"]
mod pub_sub;
#[path = "members.rs"]
mod members;
#[path = "waiting.rs"]
mod waiting;
#[path = "ordered.rs"]
mod ordered;
#[path = "access.rs"]
mod access;
#[path = "clients.rs"]
mod clients;
#[path = "limits.rs"]
mod limits;
#[path = "reference/mod.rs"]
mod reference;
#[path = "server/mod.rs"]
mod server;
#[path = "set_back.rs"]
mod set_back;
#[path = "scripts.rs"]
mod scripts;
#[path = "http.rs"]
mod http;
#[path = "blob_metrics.rs"]
mod blob_metrics;
#[path = "refused.rs"]
mod refused;
#[path = "faults/mod.rs"]
mod faults;
