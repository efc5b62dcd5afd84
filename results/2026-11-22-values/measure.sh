#!/bin/sh
# Overwrites of large values beside other stores, and YCSB A: 512 MiB of data, 128 MiB of memory.
# measure.sh DISTRIBUTION VALUE_BYTES [REPETITIONS], from the project's root, after `peers/setup` and a build of peers.
set -eu
distribution=$1 bytes=$2 repetitions=${3:-1}
records=$((536870912 / bytes))
here=$(dirname "$0")
compare() { # NAME WORKLOAD OPTIONS
    out=$here/$distribution-$bytes-$1 workload=$2
    shift 2
    peers/target/release/peers compare \
        --engines firn-values,firn-values-2x,firn,rocksdb-blob,rocksdb,fjall-kvsep \
        --baseline rocksdb-blob --workload "load,$workload" "$@" --distribution "$distribution" \
        --records $records --ops $((records * 6)) --value-bytes "$bytes" \
        --threads 2 --memory-bytes 128M --repetitions "$repetitions" --json "$out.json" --html "$out.html"
}
compare overwrite run -p readproportion=0 -p updateproportion=1
compare a a
