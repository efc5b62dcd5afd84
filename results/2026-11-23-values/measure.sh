#!/bin/sh
# Overwrites of large values beside BlobDB: 512 MiB of data, 128 MiB of memory.
# measure.sh DISTRIBUTION VALUE_BYTES [REPETITIONS], from the project's root, after `peers/setup` and a build of peers.
set -eu
distribution=$1 bytes=$2 repetitions=${3:-1}
records=$((536870912 / bytes))
out=$(dirname "$0")/$distribution-$bytes-overwrite
peers/target/release/peers compare \
    --engines firn-values,firn-values-2x,rocksdb-blob \
    --baseline rocksdb-blob --workload load,run -p readproportion=0 -p updateproportion=1 \
    --distribution "$distribution" --records $records --ops $((records * 6)) --value-bytes "$bytes" \
    --threads 2 --memory-bytes 128M --repetitions "$repetitions" --json "$out.json" --html "$out.html"
