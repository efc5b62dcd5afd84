//! By io_uring: what concerns sockets.

use firn::EngineKind;
use firn_server::Network;

const NETWORK: Network = Network::Ring;
const ENGINE: EngineKind = EngineKind::Tree;

#[expect(dead_code, reason = "used by tests that do not concern sockets")]
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
#[path = "transactions.rs"]
mod transactions;
#[path = "pub_sub.rs"]
mod pub_sub;
#[path = "waiting.rs"]
mod waiting;
#[path = "access.rs"]
mod access;
#[path = "clients.rs"]
mod clients;
#[path = "limits.rs"]
mod limits;
#[path = "scripts.rs"]
mod scripts;
#[path = "refused.rs"]
mod refused;
