#!/usr/bin/env bash
# measure.sh OUT [PART...]: what README's table and plot show. From the repository's root, after `peers/setup`,
# `cargo build --release --manifest-path peers/Cargo.toml` and `cargo build --release -p firn-cli`; nothing else may run.
# Parts: resident, beyond, values, server. All of them take about 50 minutes on two processors. Raw data goes to OUT.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
out=$1
shift
mkdir -p "$out"
firn=$PWD/target/release/firn
parts=("$@")
[ $# -gt 0 ] || parts=(resident beyond values server)

compare() { # NAME ENGINES OPTIONS...
    local name=$1 engines=$2
    shift 2
    peers/target/release/peers compare --engines "$engines" --threads 2 --warmup-seconds 2 --json "$out/$name.json" "$@" \
        >"$out/$name.txt"
}

resident() { # 1.6 M records of 1 KiB, all in memory
    compare resident firn,rocksdb,fjall --suite ycsb --workload load,a,c,e --records 1600000 --value-bytes 1024 --seconds 12 \
        --repetitions 3
}

beyond() { # four times the memory, in which fjall does not run
    compare beyond firn,rocksdb --suite ycsb --workload load,a,c --records 1000000 --value-bytes 1024 --seconds 20 \
        --limit-bytes 256M --memory-bytes 180M --repetitions 3
}

values() { # 1 GiB of values of 4 KiB, overwritten four times
    compare values firn-values,rocksdb-blob,fjall-kvsep --baseline rocksdb-blob --workload load,run -p readproportion=0 \
        -p updateproportion=1 --distribution uniform --records 262144 --ops 1048576 --value-bytes 4096 --memory-bytes 128M \
        --repetitions 3
}

server() { # one thread and 50 connections each; the client on the other processor
    local data pids=() contenders=()
    data=$(mktemp -d)
    trap 'kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$data"' RETURN EXIT
    taskset -c 0 "$firn" serve --dir "$data/firn" --port 7301 --threads 1 --http-port none >/dev/null 2>&1 &
    pids+=($!)
    mkdir "$data/redis"
    (cd "$data/redis" && exec taskset -c 0 redis-server --port 7302 --bind 127.0.0.1 --save '' --appendonly yes \
        --appendfsync everysec --auto-aof-rewrite-percentage 0 >/dev/null) &
    pids+=($!)
    sleep 2
    contenders=("firn=resp://127.0.0.1:7301,${pids[0]}" "redis=resp://127.0.0.1:7302,${pids[1]}")
    local client=(taskset -c 1 "$firn" bench resp --connections 50 --threads 1 --pipeline 16 --keys 1000000 --value-bytes 100)
    for port in 7301 7302; do
        "${client[@]}" --target "resp://127.0.0.1:$port" --commands set --load --requests 1000 >/dev/null
    done
    sleep 20
    "${client[@]}" --compare "${contenders[@]}" --repetitions 4 --seconds 10 --commands get,set,incr,lpush,hset,zadd \
        --json "$out/server.json" >"$out/server.txt"
}

for part in "${parts[@]}"; do
    echo "== $part, $(date +%H:%M:%S)"
    "$part"
done
