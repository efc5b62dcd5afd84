//! On the engine without order: what it can hold answers as on the other one.

use firn::EngineKind;
use firn_server::Network;

const NETWORK: Network = Network::Epoll;
const ENGINE: EngineKind = EngineKind::Hash;

#[expect(dead_code, reason = "used by tests of what needs order")]
#[path = "client.rs"]
mod client;
#[path = "strings.rs"]
mod strings;
#[path = "pipelines.rs"]
mod pipelines;
#[path = "databases.rs"]
mod databases;
#[path = "transactions.rs"]
mod transactions;
#[path = "pub_sub.rs"]
mod pub_sub;
#[path = "scripts.rs"]
mod scripts;
#[path = "by_hash.rs"]
mod by_hash;
