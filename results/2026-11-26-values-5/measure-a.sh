#!/usr/bin/env bash
# From the repository root, after `peers/setup` and `cargo build --release --manifest-path peers/Cargo.toml`:
#   measure.sh OUT SIZE DISTRIBUTION REPETITIONS ENGINES
# performs YCSB A on 1 GiB of values of SIZE bytes until three times as much was written as there is, with every engine in turn, and writes
# OUT/a-SIZE-DISTRIBUTION.json and .html.
set -euo pipefail
out=$1 size=$2 distribution=$3 repetitions=$4 engines=$5
records=$((1073741824 / size))
peers/target/release/peers compare --engines "$engines" --baseline rocksdb-blob --workload load,a \
    --distribution "$distribution" --records "$records" --ops $((6 * records)) \
    --value-bytes "$size" --threads 2 --memory-bytes 128M --repetitions "$repetitions" \
    --json "$out/a-$size-$distribution.json" --html "$out/a-$size-$distribution.html"
