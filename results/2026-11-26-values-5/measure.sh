#!/usr/bin/env bash
# From the repository root, after `peers/setup` and `cargo build --release --manifest-path peers/Cargo.toml`:
#   measure.sh OUT SIZE DISTRIBUTION REPETITIONS ENGINES
# overwrites 1 GiB of values of SIZE bytes four times, with every engine in turn, and writes OUT/SIZE-DISTRIBUTION.json and .html.
set -euo pipefail
out=$1 size=$2 distribution=$3 repetitions=$4 engines=$5
records=$((1073741824 / size))
peers/target/release/peers compare --engines "$engines" --baseline rocksdb-blob --workload load,run \
    -p readproportion=0 -p updateproportion=1 --distribution "$distribution" --records "$records" --ops $((4 * records)) \
    --value-bytes "$size" --threads 2 --memory-bytes 128M --repetitions "$repetitions" \
    --json "$out/$size-$distribution.json" --html "$out/$size-$distribution.html"
