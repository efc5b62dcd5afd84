//! A server that speaks RESP, over the network: a record is a string under its key.

use std::collections::VecDeque;

use firn_engine::{Error, ErrorKind, Result};
use firn_protocol::resp::Value;

use super::{Client, Counters, OpenOptions, Settings, Target, TargetFactory, Visit};
use crate::server::{Dialog, ServerAddress};

/// Reaches one server. What it holds is left as it is found.
#[derive(Clone, Debug)]
pub struct RespFactory {
    name: String,
    address: ServerAddress,
    connections: Option<usize>,
    pipeline: usize,
}

impl RespFactory {
    /// The server at `address`, over `connections` of all threads together (`None` = one a thread).
    /// A load sends `pipeline` records on a connection before it reads an answer; every other
    /// operation waits for its own.
    pub fn new(address: ServerAddress, connections: Option<usize>, pipeline: usize) -> Self {
        Self { name: address.to_string(), address, connections, pipeline: pipeline.max(1) }
    }
}

impl TargetFactory for RespFactory {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_server(&self) -> bool {
        true
    }

    fn open(&self, options: &OpenOptions) -> Result<Box<dyn Target>> {
        let threads = options.threads.max(1);
        let connections = self.connections.unwrap_or(threads);
        if connections < threads || !connections.is_multiple_of(threads) {
            return Err(Error::invalid(format!(
                "--connections {connections}: expected a multiple of the {threads} threads, which share them"
            )));
        }
        let mut settings = Settings::from([
            ("target".to_owned(), self.name.clone()),
            ("connections".to_owned(), connections.to_string()),
            ("pipeline_of_load".to_owned(), self.pipeline.to_string()),
        ]);
        settings.extend(about(&mut Dialog::open(&self.address)?)?);
        Ok(Box::new(RespTarget {
            factory: self.clone(),
            connections_per_client: connections / threads,
            settings,
        }))
    }
}

/// What the server tells of itself, where it does.
fn about(dialog: &mut Dialog) -> Result<Settings> {
    let text = match dialog.call(&[b"INFO", b"server"])? {
        Value::Bulk(text) | Value::Verbatim(text) => String::from_utf8_lossy(&text).into_owned(),
        _ => return Ok(Settings::new()),
    };
    let fields = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    let is_shown = |name: &str| name.ends_with("_version") || name == "process_id";
    Ok(fields
        .filter(|(name, _)| is_shown(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

struct RespTarget {
    factory: RespFactory,
    connections_per_client: usize,
    settings: Settings,
}

impl Target for RespTarget {
    fn name(&self) -> &str {
        &self.factory.name
    }

    fn settings(&self) -> Settings {
        self.settings.clone()
    }

    fn is_server(&self) -> bool {
        true
    }

    fn client(&self) -> Result<Box<dyn Client>> {
        let open = |_| Dialog::open(&self.factory.address);
        let dialogs = (0..self.connections_per_client).map(open).collect::<Result<_>>()?;
        Ok(Box::new(RespClient { dialogs, loading: 0, pipeline: self.factory.pipeline }))
    }

    /// A server writes behind when it likes: there is nothing to wait for.
    fn drain(&self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// One thread's connections, used in turn.
struct RespClient {
    /// The next to be used is in front.
    dialogs: VecDeque<Dialog>,
    /// Records of a load, asked on the connection in front and not answered.
    loading: usize,
    pipeline: usize,
}

impl RespClient {
    /// Calls on the connection whose turn it is.
    fn call(&mut self, arguments: &[&[u8]]) -> Result<Value> {
        if self.loading > 0 {
            self.finish()?;
        }
        let answer = self.front()?.call(arguments)?;
        self.dialogs.rotate_left(1);
        match answer {
            Value::Error(text) => Err(refused(arguments, &text)),
            answer => Ok(answer),
        }
    }

    fn front(&mut self) -> Result<&mut Dialog> {
        self.dialogs.front_mut().ok_or_else(|| Error::bug("a client without connections"))
    }
}

impl Client for RespClient {
    fn read(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        match self.call(&[b"GET", key])? {
            Value::Bulk(bytes) => {
                *value = bytes;
                Ok(true)
            }
            Value::Null => Ok(false),
            other => Err(unexpected("GET", &other)),
        }
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        stored(&self.call(&[b"SET", key, value])?)
    }

    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.front()?.ask(&[b"SET", key, value]);
        self.loading += 1;
        if self.loading < self.pipeline { Ok(()) } else { self.finish() }
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        match self.call(&[b"DEL", key])? {
            Value::Integer(_) => Ok(()),
            other => Err(unexpected("DEL", &other)),
        }
    }

    fn scan(&mut self, _start: &[u8], _count: usize, _visit: &mut Visit<'_>) -> Result<usize> {
        Err(Error::invalid("a server that speaks RESP has no scans over strings in the order of their keys"))
    }

    fn finish(&mut self) -> Result<()> {
        let loading = std::mem::take(&mut self.loading);
        let dialog = self.front()?;
        dialog.send()?;
        for _ in 0..loading {
            match dialog.answer()? {
                Value::Error(text) => return Err(refused(&[b"SET"], &text)),
                answer => stored(&answer)?,
            }
        }
        self.dialogs.rotate_left(1);
        Ok(())
    }
}

fn stored(answer: &Value) -> Result<()> {
    match answer {
        Value::Simple(text) if text == "OK" => Ok(()),
        other => Err(unexpected("SET", other)),
    }
}

fn refused(arguments: &[&[u8]], text: &str) -> Error {
    let command = String::from_utf8_lossy(arguments.first().copied().unwrap_or_default()).into_owned();
    Error::new(ErrorKind::Closed, format!("the server refused {command}: {text}"))
}

fn unexpected(command: &str, answer: &Value) -> Error {
    Error::new(ErrorKind::Closed, format!("the server answered {command} with {answer:?}"))
}

#[cfg(test)]
mod tests;
