#!/bin/bash
# Before a worker is told to end: leave.sh PORT SECONDS waits until nobody serves PORT of this pod, at most SECONDS.
# The coordinator keeps its port open until its last request is finished.
for ((second = 0; second < $2; ++second)); do
  { exec 3<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || exit 0
  exec 3>&-
  sleep 1
done
