#!/usr/bin/env bash
# From the repository root, after `cargo build --release -p firn-cli`:
#   worker.sh OUT SIZE REPETITIONS
# overwrites 512 MiB of values of SIZE bytes four times, by one client on the first processor, and has segments collected there, and by a worker
# on the second one, in turn. Writes OUT/worker-SIZE-N-{here,worker}.json and .html.
set -euo pipefail
out=$1 size=$2 repetitions=$3
records=$((536870912 / size)) dir=$out/worker socket=$out/worker.sock
run() { # NAME OPTIONS
    local name=$1
    shift
    rm -rf "$dir"
    taskset -c 0 target/release/firn bench ycsb --workload load,run -p readproportion=0 -p updateproportion=1 \
        --distribution zipfian --records "$records" --ops $((4 * records)) --value-bytes "$size" --threads 1 \
        --memory-bytes 128M --separate-bytes 512 --space-amplification-max 1.5 --dir "$dir" \
        --json "$out/worker-$size-$name.json" --html "$out/worker-$size-$name.html" "$@"
    rm -rf "$dir"
}
rm -f "$socket"
taskset -c 1 target/release/firn worker --socket "$socket" &
worker=$!
trap 'kill "$worker"' EXIT
while [ ! -S "$socket" ]; do sleep 0.1; done
for n in $(seq "$repetitions"); do
    run "$n-here"
    run "$n-worker" --worker "$socket"
done
