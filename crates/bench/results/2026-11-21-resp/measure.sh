#!/bin/bash
# Firn and Redis, taking turns: measure.sh FIRN OUT SECONDS REPETITIONS
# Servers on core 0, the client on core 1; nothing else may run. Each server is loaded, then read once through.
set -eu
FIRN=$(realpath "$1"); OUT=$(realpath "$2"); SECONDS_EACH=$3; REPETITIONS=$4
DATA=$(mktemp -d); trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$DATA"' EXIT

redis() { # PORT APPENDONLY
    mkdir "$DATA/$1"; cd "$DATA/$1"
    exec taskset -c 0 redis-server --port "$1" --bind 127.0.0.1 --save '' --appendonly "$2" --appendfsync everysec \
        --auto-aof-rewrite-percentage 0 >/dev/null
}

client() { taskset -c 1 "$FIRN" bench resp --connections 50 --threads 1 "$@"; }

# NAME KEYS VALUE_BYTES, then commands and pipelines as COMMANDS:PIPELINE
compare() {
    local name=$1 keys=$2 bytes=$3; shift 3
    taskset -c 0 "$FIRN" serve --dir "$DATA/firn" --port 7301 --threads 1 >/dev/null 2>&1 & local firn=$!
    redis 7302 yes & local everysec=$!
    redis 7303 no & local none=$!
    sleep 2
    for port in 7301 7302 7303; do
        client --target "resp://127.0.0.1:$port" --keys "$keys" --value-bytes "$bytes" --commands "${LOADS:-set}" --load \
            --pipeline 16 --requests 1000 >/dev/null 2>&1
        client --target "resp://127.0.0.1:$port" --keys "$keys" --value-bytes "$bytes" --commands get --pipeline 16 \
            --distribution sequential --requests "$keys" >/dev/null 2>&1
    done
    for what in "$@"; do
        local commands=${what%:*} pipeline=${what#*:}
        client --compare "firn=resp://127.0.0.1:7301,$firn" "everysec=resp://127.0.0.1:7302,$everysec" \
            "none=resp://127.0.0.1:7303,$none" --repetitions "$REPETITIONS" --seconds "$SECONDS_EACH" \
            --keys "$keys" --value-bytes "$bytes" --commands "$commands" --pipeline "$pipeline" \
            --json "$OUT/$name-$pipeline-${commands//,/-}.json" ${RATE:-} \
            2>&1 | sed -n "/^ *requests/,\$p" >"$OUT/$name-$pipeline-${commands//,/-}.txt"
        echo "$name $what: $(tail -7 "$OUT/$name-$pipeline-${commands//,/-}.txt")"
    done
    kill $firn $everysec $none; wait $firn $everysec $none || true
    rm -rf "$DATA"/*
}

# 8 memtables and more: 64 MiB each.
compare bytes100 5000000 100 get:1 get:16 get:64 set:1 set:16 set:64
compare bytes1024 600000 1024 get:1 get:16 get:64 set:1 set:16 set:64
SECONDS_EACH=$((SECONDS_EACH / 3)) LOADS=incr,hset,lpush,zadd,set compare types 1000000 100 incr,hset,lpush,zadd,mset:16
