#!/bin/bash
# Firn and Redis, taking turns: measure.sh FIRN OUT SECONDS REPETITIONS
# Servers on core 0, the client on core 1; nothing else may run. Each server is loaded, rests, and is read once through. Redis's log
# of SETs is not rewritten: some 13 GB a minute of 1 KiB each, which stays until all with these keys is measured.
# KEYS_100 and KEYS_1024 in the environment make it smaller, for a look whether it runs; ONLY is a pattern for the names of
# what is measured, where not all is.
set -euo pipefail
[ $# = 4 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
FIRN=$(realpath "$1"); OUT=$(realpath "$2"); SECONDS_EACH=$3; REPETITIONS=$4
DATA=$(mktemp -d); trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$DATA"' EXIT

redis() { # PORT APPENDONLY
    mkdir "$DATA/$1"; cd "$DATA/$1"
    exec taskset -c 0 redis-server --port "$1" --bind 127.0.0.1 --save '' --appendonly "$2" --appendfsync everysec \
        --auto-aof-rewrite-percentage 0 >/dev/null
}

client() { taskset -c 1 "$FIRN" bench resp --connections 50 --threads 1 "$@"; }

# NAME KEYS VALUE_BYTES LOADED_COMMANDS, then what is measured as FILE:COMMANDS:OPTIONS
compare() {
    local name=$1 keys=$2 bytes=$3 loads=$4 is_wanted=; shift 4
    for what in "$@"; do
        if [[ $name-${what%%:*} =~ ${ONLY:-.} ]]; then is_wanted=yes; fi
    done
    [ -n "$is_wanted" ] || return 0
    taskset -c 0 "$FIRN" serve --dir "$DATA/firn" --port 7301 --threads 1 >/dev/null 2>&1 & local firn=$!
    redis 7302 yes & local everysec=$!
    redis 7303 no & local none=$!
    sleep 2
    for port in 7301 7302 7303; do
        client --target "resp://127.0.0.1:$port" --keys "$keys" --value-bytes "$bytes" --commands "$loads" --load \
            --pipeline 16 --requests 1000 >/dev/null
    done
    sleep 30 # What the load left to compact is not what is measured.
    for port in 7301 7302 7303; do
        client --target "resp://127.0.0.1:$port" --keys "$keys" --value-bytes "$bytes" --commands get --pipeline 16 \
            --distribution sequential --requests "$keys" >/dev/null
    done
    for what in "$@"; do
        IFS=: read -r file commands options <<<"$what"
        [[ $name-$file =~ ${ONLY:-.} ]] || continue
        echo "== $name-$file"
        # Options are words.
        client --compare "firn=resp://127.0.0.1:7301,$firn" "everysec=resp://127.0.0.1:7302,$everysec" \
            "none=resp://127.0.0.1:7303,$none" --repetitions "$REPETITIONS" --seconds "$SECONDS_EACH" \
            --keys "$keys" --value-bytes "$bytes" --commands "$commands" --json "$OUT/$name-$file.json" $options \
            2>&1 | sed -n '/^Medians/,$p; /rror/p'
    done
    kill $firn $everysec $none; wait $firn $everysec $none || true
    rm -rf "${DATA:?}"/*
}

DEPTHS=("1-get:get:--pipeline 1" "16-get:get:--pipeline 16" "64-get:get:--pipeline 64"
    "1-set:set:--pipeline 1" "16-set:set:--pipeline 16" "64-set:set:--pipeline 64")
# 8 memtables of 64 MiB and more.
compare bytes100 "${KEYS_100:-5000000}" 100 set "${DEPTHS[@]}"
compare bytes1024 "${KEYS_1024:-600000}" 1024 set "${DEPTHS[@]}"
compare half "${KEYS_100:-5000000}" 100 set "1-get:get:--rate 40k" "1-set:set:--rate 40k"
compare types "$((${KEYS_100:-5000000} / 5))" 100 incr,hset,lpush,zadd,set \
    "16:incr,hset,lpush,zadd,mset:--pipeline 16"
