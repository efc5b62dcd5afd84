#!/bin/sh
# Overwrites and YCSB A beside other stores with large values, 512 MiB of data, 128 MiB of memory.
# measure.sh DISTRIBUTION VALUE_BYTES, from the project's root, after `peers/setup` and a build of peers.
distribution=$1 bytes=$2
records=$((536870912 / bytes))
out=$(dirname "$0")/$distribution-$bytes
exec peers/target/release/peers compare \
    --engines firn-values,firn-values-2x,firn,rocksdb-blob,rocksdb,fjall-kvsep \
    --baseline rocksdb-blob --workload load,run,a -p readproportion=0 -p updateproportion=1 \
    --distribution "$distribution" --records $records --ops $((records * 6)) --value-bytes "$bytes" \
    --threads 2 --memory-bytes 128M --repetitions "${3:-1}" --json "$out.json" --html "$out.html"
