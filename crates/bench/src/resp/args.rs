//! Command line of the load generator for servers.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use firn_engine::settings::parse_bytes;
use firn_engine::{Error, Result};

use super::{Keys, RespCommand};
use crate::args::{parse_positive, parse_rate, parse_seconds};
use crate::server::{PORT_DEFAULT, ServerAddress};

/// `bench resp`: loads a server.
#[derive(Clone, Debug, Args)]
pub struct RespArgs {
    /// Machine of the server
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: String,
    /// Port of the server
    #[arg(long, value_name = "PORT", default_value_t = PORT_DEFAULT)]
    pub port: u16,
    /// The server as an address, resp://host:port or resp://host:port/db
    #[arg(long, value_name = "URL", conflicts_with_all = ["host", "port"])]
    pub target: Option<ServerAddress>,
    /// Process of the server, if it is on this machine. Its processor time by request is told, user
    /// and system, all its threads, and what it does until it rests (at most 30 s)
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Compare servers instead: NAME=resp://host:port or NAME=resp://host:port,pid; the first is
    /// what the others are held against. They take turns, A B B A
    #[arg(long, value_name = "NAME=URL", num_args = 1.., conflicts_with_all = ["host", "port", "target", "pid"])]
    pub compare: Vec<Contender>,
    /// How often each command runs on each server; medians are told
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "3", requires = "compare")]
    pub repetitions: u64,
    /// Commands, measured one after another
    #[arg(long, value_name = "NAME,...", value_enum, value_delimiter = ',', default_value = "get,set")]
    pub commands: Vec<RespCommand>,
    /// Connections, of all threads together
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "50")]
    pub connections: u64,
    /// Requests outstanding on a connection. Without --rate they are sent at once, and the next
    /// when all are answered
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1")]
    pub pipeline: u64,
    /// Threads of this client, which share the connections
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1")]
    pub threads: u64,
    /// How many keys there are; of hashes and sorted sets, how many elements, 100 in each
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "100k")]
    pub keys: u64,
    /// Which of them are asked for
    #[arg(long, value_name = "NAME", value_enum, default_value = "uniform")]
    pub distribution: Keys,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "100")]
    pub value_bytes: u64,
    /// Write every key that the commands work on first, unmeasured
    #[arg(long)]
    pub load: bool,
    /// How long each command runs [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, conflicts_with = "requests")]
    pub seconds: Option<f64>,
    /// How many requests of each command instead
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    pub requests: Option<u64>,
    /// Requests a second, all threads together (open loop): each is due at its time whatever became
    /// of those before. Its latency counts from then, so that queueing shows. Without it a
    /// connection asks when it has its answers (closed loop)
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Go on when the server answers errors; they are counted either way
    #[arg(long)]
    pub allow_errors: bool,
    /// Seed of every random choice
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Write everything as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A server of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// Its name in the results.
    pub name: String,
    /// Where it is.
    pub address: ServerAddress,
    /// Its process, if it is on this machine.
    pub pid: Option<u32>,
}

impl Contender {
    /// # Errors
    /// `Invalid` where two servers have one name.
    pub(crate) fn check_names(contenders: &[Self]) -> Result<()> {
        let mut names: Vec<&str> = contenders.iter().map(|contender| contender.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(Error::invalid("--compare: two servers have the same name")),
            false => Ok(()),
        }
    }
}

impl FromStr for Contender {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            Error::invalid(format!("`{text}`: expected NAME=resp://host:port or NAME=resp://host:port,pid"))
        };
        let (name, rest) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(refused)?;
        let (address, pid) = rest.split_once(',').map_or((rest, None), |(address, pid)| (address, Some(pid)));
        let pid = pid.map(str::parse).transpose().map_err(|_| refused())?;
        Ok(Self { name: name.to_owned(), address: address.parse()?, pid })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Resp {
        #[command(flatten)]
        args: RespArgs,
    }

    fn parse(words: &[&str]) -> std::result::Result<RespArgs, String> {
        Resp::try_parse_from([&["resp"], words].concat())
            .map(|resp| resp.args)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn contenders_have_a_name_an_address_and_perhaps_a_process() {
        let found = parse(&["--compare", "a=resp://h:1,77", "b=resp://h", "--repetitions", "5"]).unwrap();
        assert_eq!((found.compare[0].name.as_str(), found.compare[0].pid), ("a", Some(77)));
        assert_eq!((found.compare[1].address.port, found.compare[1].pid), (PORT_DEFAULT, None));
        for text in ["resp://h:1", "=resp://h", "a=resp://h,x", "a=h:1"] {
            assert!(
                text.parse::<Contender>().unwrap_err().message().contains(text.trim_start_matches("a=")),
                "{text}"
            );
        }
    }

    #[test]
    fn what_contradicts_itself_or_is_nothing_is_refused_with_its_name() {
        for (words, named) in [
            (&["--seconds", "1", "--requests", "1"][..], "--requests"),
            (&["--target", "resp://h", "--port", "1"], "--port"),
            (&["--target", "h:1"], "resp://host:port"),
            (&["--compare", "a=resp://h", "--pid", "1"], "--pid"),
            (&["--repetitions", "2"], "--compare"),
            (&["--commands", "get,flushall"], "flushall"),
            (&["--distribution", "normal"], "normal"),
            (&["--pipeline", "0"], "at least 1"),
            (&["--rate", "0"], "at least 1"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(named), "{words:?}: {error}");
        }
        let found = parse(&["--commands", "get,ping", "--rate", "10k"]).unwrap();
        assert_eq!(found.commands, [RespCommand::Get, RespCommand::Ping]);
        assert_eq!(found.rate, Some(10_000.0));
    }
}
