# checkpoint.sh FIRN OUT
for d in checkpoint process; do
  echo "durability $d; load $(cut -d' ' -f1-3 /proc/loadavg)"
  nice -n -10 timeout 280 "$1" bench points --engine hashlog --records 20M --memory-bytes 4G --threads 2 --workload read,mixed,rmw --distribution zipfian --seconds 16 --checkpoint --durability $d --json $2/checkpoint-$d.json 2>&1 | grep -v "^2 x"
done
