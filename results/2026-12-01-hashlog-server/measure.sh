#!/bin/bash
# Both engines and Redis, taking turns: measure.sh FIRN OUT SECONDS REPETITIONS
# Servers on core 0, the client on core 1. Each server is loaded, rests, and is read once through.
# KEYS in the environment is how many keys of 100 bytes there are.
set -euo pipefail
[ $# = 4 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
FIRN=$(realpath "$1"); OUT=$(realpath "$2"); SECONDS_EACH=$3; REPETITIONS=$4; KEYS=${KEYS:-5000000}
DATA=$(mktemp -d "${TMPDIR:-/tmp}/firn-resp-XXXX")
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$DATA"' EXIT

serve() { # ENGINE PORT
    exec taskset -c 0 "$FIRN" serve --engine "$1" --dir "$DATA/$1" --port "$2" --http-port none --threads 1 \
        --memory-bytes 3G >/dev/null 2>&1
}
redis() { # PORT
    mkdir "$DATA/redis"; cd "$DATA/redis"
    exec taskset -c 0 redis-server --port "$1" --bind 127.0.0.1 --save '' --appendonly yes \
        --appendfsync everysec --auto-aof-rewrite-percentage 0 >/dev/null
}
client() { taskset -c 1 "$FIRN" bench resp --connections 50 --threads 1 --keys "$KEYS" --value-bytes 100 "$@"; }

serve hashlog 7401 & hashlog=$!
serve tree 7402 & tree=$!
redis 7403 & redis=$!
sleep 3
for port in 7401 7402 7403; do
    client --target "resp://127.0.0.1:$port" --commands set --load --pipeline 16 --requests 1000 >/dev/null
done
sleep 20 # What the load left to compact is not what is measured.
for port in 7401 7402 7403; do
    client --target "resp://127.0.0.1:$port" --commands get --pipeline 16 --distribution sequential \
        --requests "$KEYS" >/dev/null
done
for command in get set; do
    for depth in 1 16 64; do
        echo "== $command, $depth outstanding; load $(cut -d' ' -f1-3 /proc/loadavg)"
        client --compare "redis=resp://127.0.0.1:7403,$redis" "hashlog=resp://127.0.0.1:7401,$hashlog" \
            "tree=resp://127.0.0.1:7402,$tree" --repetitions "$REPETITIONS" --seconds "$SECONDS_EACH" \
            --commands "$command" --pipeline "$depth" --json "$OUT/$command-$depth.json" \
            2>&1 | sed -n '/^Medians/,$p; /rror/p'
        grep -H VmRSS /proc/$hashlog/status /proc/$tree/status /proc/$redis/status | awk '{print $2, $3}' | xargs
    done
done
