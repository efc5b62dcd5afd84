#!/usr/bin/env bash
# From the repository root, after `cargo build --release -p firn`:
#   steady.sh OUT SIZE DISTRIBUTION SECONDS
# overwrites 1 GiB of values of SIZE bytes for SECONDS, writes OUT/steady-SIZE-DISTRIBUTION.json and .html, and prints what 20 looks a second
# at all files say: blocks on disk for each byte of keys and values, after the first 25 s.
set -euo pipefail
out=$1 size=$2 distribution=$3 seconds=$4
records=$((1073741824 / size)) dir=$out/steady
rm -rf "$dir"
python3 - "$dir" "$((records * (size + 24)))" <<'P' &
import os, sys, time

top, live = sys.argv[1], int(sys.argv[2])
looks, since = [], None
while True:
    time.sleep(0.05)
    size = 0
    for folder, _, names in os.walk(top):
        for name in names:
            try:
                size += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass  # Removed while it was looked at.
    if size == 0 and since is not None:
        break
    if size > 0:
        since = since or time.time()
        if time.time() - since > 25:
            looks.append(size / live)
looks.sort()
count = len(looks)
above = sum(look > 1.6 for look in looks)
print(f"{count} looks: {sum(looks) / count:.3f} on average, half below {looks[count // 2]:.3f}, "
      f"one of a hundred above {looks[count * 99 // 100]:.3f}, at most {looks[-1]:.3f}, {above} above 1.6")
P
looks=$!
target/release/firn bench ycsb --workload load,run -p readproportion=0 -p updateproportion=1 --distribution "$distribution" \
    --records "$records" --ops 900000000 --seconds "$seconds" --value-bytes "$size" --threads 2 --memory-bytes 128M \
    --separate-bytes 512 --space-amplification-max 1.5 --dir "$dir" \
    --json "$out/steady-$size-$distribution.json" --html "$out/steady-$size-$distribution.html"
rm -rf "$dir"
wait "$looks"
