//! Settings as the ordered engine takes them.

use firn_tree::TreeSettings;

use super::Settings;

impl Settings {
    /// The same settings for the engine on a machine that can keep `page_cache_bytes` of files
    /// where the settings do not say. Every field is named here, so that a new one cannot be
    /// forgotten.
    pub(crate) fn to_tree(&self, page_cache_bytes: u64) -> TreeSettings {
        TreeSettings {
            memory_bytes: self.memory_bytes,
            page_cache_bytes: match self.page_cache_bytes {
                0 => page_cache_bytes,
                told => told,
            },
            memtable_bytes: self.memtable_bytes,
            segment_bytes: self.log_segment_bytes,
            buffer_bytes: self.buffer_bytes,
            buffer_bytes_max: self.buffer_bytes_max,
            log_bytes_max: self.log_bytes_max,
            merge_fan_in: self.merge_fan_in,
            durability: self.durability,
            block_bytes: self.block_bytes,
            table_bytes: self.table_bytes,
            separate_bytes: match self.separate_bytes {
                0 => u32::MAX,
                told => told,
            },
            value_segment_bytes: self.value_segment_bytes,
            space_amplification_max: self.space_amplification_max,
            filter_bits_per_key: self.filter_bits_per_key,
            level0_runs_max: self.level0_runs_max,
            garbage_share_max: (self.space_amplification_max - 1.0) / 2.0,
            read_compaction_price: self.read_compaction_price,
            compression: self.compression,
            background_threads: self.background_threads,
            local_bytes_per_second: self.local_bytes_per_second,
            reexecuted_share: self.reexecuted_share,
            idle_threads: self.idle_threads,
            read_threads: self.read_threads,
            key_bytes_max: self.key_bytes_max,
            value_bytes_max: self.value_bytes_max,
            manifest_edits_max: self.manifest_edits_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine's own defaults, which its tests run with, are those of the facade.
    #[test]
    fn defaults_agree() {
        assert_eq!(Settings::default().to_tree(u64::MAX), TreeSettings::default());
    }

    /// What the facade accepts, the engine accepts.
    #[test]
    fn ranges_agree() {
        for memory_bytes in [16 << 20, 100 << 20, 1 << 40] {
            Settings::for_memory(memory_bytes).to_tree(0).validate().expect("accepted by the facade");
        }
    }
}
