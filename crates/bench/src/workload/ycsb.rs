//! YCSB's core workload: load, and mixes of reads, updates, inserts, scans and read-modify-writes.
//!
//! Source: `CoreWorkload` and the workload files a to f of YCSB. A record is one value here, so an
//! update replaces it whole (YCSB's `writeallfields=true`), and a value has
//! `fieldcount * fieldlength` bytes.

use std::sync::Arc;

use fastrand::Rng;
use firn_engine::{Error, Result};

use super::{Done, KeyStyle, Kind, Operations, Properties, ValuePool};
use crate::distribution::{
    AcknowledgedCounter, Distribution, Exponential, Hotspot, Latest, ScrambledZipfian, Sequential,
};
use crate::target::Client;

mod mix;
#[cfg(test)]
mod tests;

pub use mix::Mix;

/// The properties of YCSB's workload files, by letter; `None` for any other name.
pub fn standard(letter: &str) -> Option<Properties> {
    let pairs: &[(&str, &str)] = match letter {
        "a" => &[("readproportion", "0.5"), ("updateproportion", "0.5"), ("requestdistribution", "zipfian")],
        "b" => {
            &[("readproportion", "0.95"), ("updateproportion", "0.05"), ("requestdistribution", "zipfian")]
        }
        "c" => &[("readproportion", "1"), ("updateproportion", "0"), ("requestdistribution", "zipfian")],
        "d" => &[
            ("readproportion", "0.95"),
            ("updateproportion", "0"),
            ("insertproportion", "0.05"),
            ("requestdistribution", "latest"),
        ],
        "e" => &[
            ("readproportion", "0"),
            ("updateproportion", "0"),
            ("scanproportion", "0.95"),
            ("insertproportion", "0.05"),
            ("requestdistribution", "zipfian"),
            ("maxscanlength", "100"),
            ("scanlengthdistribution", "uniform"),
        ],
        "f" => &[
            ("readproportion", "0.5"),
            ("updateproportion", "0"),
            ("readmodifywriteproportion", "0.5"),
            ("requestdistribution", "zipfian"),
        ],
        _ => return None,
    };
    let mut properties = Properties::default();
    pairs.iter().for_each(|(name, value)| properties.set(name, value));
    Some(properties)
}

/// A workload as its properties describe it.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The shares of the operations.
    pub mix: Mix,
    /// How keys look.
    pub keys: KeyStyle,
    request: Request,
    scan_records: Distribution,
}

/// The request distribution before it knows the number of records.
#[derive(Clone, Debug, PartialEq)]
enum Request {
    Uniform,
    Zipfian,
    Latest,
    Sequential,
    Hotspot { hot_set: f64, hot_draws: f64 },
    Exponential { percentile: f64, fraction: f64 },
}

impl Workload {
    /// Reads the core properties of a workload; what is not set has YCSB's default, except that
    /// keys are padded to 24 bytes.
    ///
    /// # Errors
    /// `Invalid` for a value that is none or a distribution that YCSB's core workload does not
    /// have.
    pub fn new(properties: &Properties) -> Result<Self> {
        let order = properties.text("insertorder").unwrap_or("hashed");
        let ordered = match order {
            "hashed" => false,
            "ordered" => true,
            _ => return Err(Error::invalid(format!("insertorder={order}: expected hashed or ordered"))),
        };
        let keys = KeyStyle::User { digits: properties.get_or("zeropadding", 20)?, ordered };
        let (scan_min, scan_max) =
            (properties.get_or("minscanlength", 1)?, properties.get_or("maxscanlength", 1000u64)?);
        let scan_records = match properties.text("scanlengthdistribution").unwrap_or("uniform") {
            "uniform" => Distribution::Uniform { first: scan_min, last: scan_max.max(scan_min) },
            "zipfian" => Distribution::Zipfian(ScrambledZipfian::new(scan_min, scan_max.max(scan_min))),
            other => {
                return Err(Error::invalid(format!(
                    "scanlengthdistribution={other}: expected uniform or zipfian"
                )));
            }
        };
        Ok(Self { mix: Mix::new(properties)?, keys, request: Request::new(properties)?, scan_records })
    }

    /// Name of the request distribution.
    pub fn distribution(&self) -> &'static str {
        match self.request {
            Request::Uniform => "uniform",
            Request::Zipfian => "zipfian",
            Request::Latest => "latest",
            Request::Sequential => "sequential",
            Request::Hotspot { .. } => "hotspot",
            Request::Exponential { .. } => "exponential",
        }
    }

    /// The request distribution over the records that `inserts` has acknowledged, when about
    /// `operations` operations will follow. Clone it for each thread.
    pub fn keys_drawn(&self, inserts: &Arc<AcknowledgedCounter>, operations: u64) -> Distribution {
        let records = inserts.acknowledged().max(1);
        let last = records - 1;
        match self.request {
            Request::Uniform => Distribution::Uniform { first: 0, last },
            Request::Zipfian => {
                // The hash is taken modulo the range, so the range must not change while records
                // are added: it is made wide enough beforehand, and numbers not inserted yet are
                // drawn again.
                let expected_new = (operations as f64 * self.mix.share(Kind::Insert) * 2.0) as u64;
                Distribution::Zipfian(ScrambledZipfian::new(0, records + expected_new))
            }
            Request::Latest => Distribution::Latest(Latest::new(Arc::clone(inserts))),
            Request::Sequential => Distribution::Sequential(Arc::new(Sequential::new(0, last))),
            Request::Hotspot { hot_set, hot_draws } => {
                Distribution::Hotspot(Hotspot::new(0, last, hot_set, hot_draws))
            }
            Request::Exponential { percentile, fraction } => {
                Distribution::Exponential(Exponential::new(percentile, records as f64 * fraction))
            }
        }
    }
}

impl Request {
    fn new(properties: &Properties) -> Result<Self> {
        Ok(match properties.text("requestdistribution").unwrap_or("uniform") {
            "uniform" => Request::Uniform,
            "zipfian" => Request::Zipfian,
            "latest" => Request::Latest,
            "sequential" => Request::Sequential,
            "hotspot" => Request::Hotspot {
                hot_set: properties.get_or("hotspotdatafraction", 0.2)?,
                hot_draws: properties.get_or("hotspotopnfraction", 0.8)?,
            },
            "exponential" => Request::Exponential {
                percentile: properties.get_or("exponential.percentile", 95.0)?,
                fraction: properties.get_or("exponential.frac", 0.857_142_857_1)?,
            },
            other => {
                return Err(Error::invalid(format!(
                    "requestdistribution={other}: expected uniform, zipfian, latest, sequential, hotspot or exponential"
                )));
            }
        })
    }
}

/// One thread's share of the load phase: inserts of new records, in the order of their numbers.
pub struct LoadStream {
    keys: KeyStyle,
    values: ValuePool,
    value_bytes: usize,
    inserts: Arc<AcknowledgedCounter>,
    records: u64,
    random: Rng,
    number: u64,
    key: Vec<u8>,
}

impl LoadStream {
    /// Inserts until `records` numbers have been drawn from `inserts` by all threads.
    pub fn new(
        keys: KeyStyle,
        values: ValuePool,
        value_bytes: usize,
        inserts: Arc<AcknowledgedCounter>,
        records: u64,
        seed: u64,
    ) -> Self {
        Self {
            keys,
            values,
            value_bytes,
            inserts,
            records,
            random: Rng::with_seed(seed),
            number: 0,
            key: Vec::new(),
        }
    }
}

impl Operations for LoadStream {
    fn prepare(&mut self) -> Option<Kind> {
        self.number = self.inserts.draw();
        if self.number >= self.records {
            return None;
        }
        self.keys.write(self.number, &mut self.key);
        Some(Kind::Insert)
    }

    fn perform(&mut self, client: &mut dyn Client) -> Result<Done> {
        let value = self.values.draw(self.value_bytes, &mut self.random);
        client.load(&self.key, value)?;
        self.inserts.acknowledge(self.number);
        Ok(Done::wrote(self.key.len() + value.len()))
    }
}

/// One thread's operations of a mixed workload; has no end of its own.
pub struct MixStream {
    workload: Workload,
    requests: Distribution,
    inserts: Arc<AcknowledgedCounter>,
    values: ValuePool,
    value_bytes: usize,
    random: Rng,
    kind: Kind,
    number: u64,
    scan_count: usize,
    /// Keys that a read reads by one call.
    read_batch: usize,
    key: Vec<u8>,
    /// Of those, all after the first.
    further: Vec<Vec<u8>>,
    read: Vec<u8>,
}

impl MixStream {
    /// Draws keys from `requests` (see [`Workload::keys_drawn`]) and new records from `inserts`.
    pub fn new(
        workload: &Workload,
        requests: Distribution,
        inserts: Arc<AcknowledgedCounter>,
        values: ValuePool,
        value_bytes: usize,
        seed: u64,
    ) -> Self {
        Self {
            workload: workload.clone(),
            requests,
            inserts,
            values,
            value_bytes,
            random: Rng::with_seed(seed),
            kind: Kind::Read,
            number: 0,
            scan_count: 0,
            read_batch: 1,
            key: Vec::new(),
            further: Vec::new(),
            read: Vec::new(),
        }
    }

    /// The same with reads of so many keys by one call.
    pub fn reading_together(self, read_batch: usize) -> Self {
        Self { read_batch, ..self }
    }

    /// The number of a record that is in the store.
    fn known_number(&mut self) -> u64 {
        loop {
            let drawn = self.requests.draw(&mut self.random);
            let records = self.inserts.acknowledged().max(1);
            if let Distribution::Exponential(_) = self.requests {
                if drawn < records {
                    return records - 1 - drawn;
                }
            } else if drawn < records {
                return drawn;
            }
        }
    }
}

impl Operations for MixStream {
    fn prepare(&mut self) -> Option<Kind> {
        self.kind = self.workload.mix.draw(&mut self.random);
        self.number = if self.kind == Kind::Insert { self.inserts.draw() } else { self.known_number() };
        if self.kind == Kind::Scan {
            self.scan_count = self.workload.scan_records.draw(&mut self.random) as usize;
        }
        self.workload.keys.write(self.number, &mut self.key);
        if self.kind == Kind::Read && self.read_batch > 1 {
            self.further.resize_with(self.read_batch - 1, Vec::new);
            let mut further = std::mem::take(&mut self.further);
            for key in &mut further {
                let number = self.known_number();
                self.workload.keys.write(number, key);
            }
            self.further = further;
        }
        Some(self.kind)
    }

    fn perform(&mut self, client: &mut dyn Client) -> Result<Done> {
        let key = &self.key;
        let written = key.len() + self.value_bytes;
        match self.kind {
            Kind::Read if self.read_batch > 1 => {
                let keys: Vec<&[u8]> = [key].into_iter().chain(&self.further).map(Vec::as_slice).collect();
                let (found, bytes) = client.read_many(&keys)?;
                Ok(Done::read_many(keys.len(), found, found * key.len() + bytes))
            }
            Kind::Read => {
                let found = client.read(key, &mut self.read)?;
                Ok(Done::read(found, key.len() + self.read.len()))
            }
            Kind::Delete => {
                client.delete(key)?;
                Ok(Done::wrote(key.len()))
            }
            Kind::Update => {
                client.update(key, self.values.draw(self.value_bytes, &mut self.random))?;
                Ok(Done::wrote(written))
            }
            Kind::Insert => {
                client.insert(key, self.values.draw(self.value_bytes, &mut self.random))?;
                self.inserts.acknowledge(self.number);
                Ok(Done::wrote(written))
            }
            Kind::Scan => {
                let mut bytes = 0;
                let seen =
                    client.scan(key, self.scan_count, &mut |key, value| bytes += key.len() + value.len())?;
                Ok(Done::read(seen > 0, bytes))
            }
            Kind::ReadModifyWrite => {
                let value = self.values.draw(self.value_bytes, &mut self.random);
                let found = client.read_modify_write(key, value, &mut self.read)?;
                Ok(Done { written_bytes: written as u64, ..Done::read(found, key.len() + self.read.len()) })
            }
        }
    }
}
