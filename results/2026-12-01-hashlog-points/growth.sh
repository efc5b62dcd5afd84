# growth.sh FIRN RECORDS OUT: an index that grows beside one that has room from the start, in turn
for round in 1 2; do for how in "" --presized; do
  echo "round $round ${how:-grown}; load $(cut -d' ' -f1-3 /proc/loadavg)"
  nice -n -10 timeout 280 "$1" bench points --engine hashlog --records $2 --memory-bytes 8G --threads 2 --workload read --distribution uniform --seconds 2 --json $3/growth-$round${how#-}.json $how 2>&1 | grep -v "^2 x"
done; done
