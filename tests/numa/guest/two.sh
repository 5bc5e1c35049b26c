# Checks on a machine with two packages of two CPUs, where each package is one node: node 0 has the CPUs 0-1, node 1 the CPUs
# 2-3.
. /opt/test/lib.sh

# by_hand NAME INDEX ARGUMENT...: starts one of two workers as coordinator/startup/README.md does, without affinity or
# --numa-nodes.
by_hand() {
  start "$1" numoe-expert-worker --model $NANO --worker-index "$2" --worker-count 2 --listen "unix:/run/$1.sock" \
    --metrics-port $((9090 + $2)) "${@:3}"
}
ready() { curl -sf -m 30 -o /dev/null http://127.0.0.1:8080/health; }
ask() {  # QUESTION: prints the whole answer
  curl -s -m 300 -H "Content-Type: application/json" http://127.0.0.1:8080/v1/chat/completions \
    -d "{\"messages\": [{\"role\": \"user\", \"content\": \"$1\"}], \"temperature\": 0}" |
    sed -n 's/.*"content":"\([^"]*\)".*/\1/p'
  echo
}
calls() { value 9091 numoe_expert_call_duration_seconds_count | sed 's/absent/0/'; }

section "Preflight of a whole machine whose kernel balances NUMA memory"
balancing 1
preflight
is "exit code with a problem to report" 1 $?
is "both nodes are found" 2 "$(grep -cE '^ok     node [01]: 2 CPUs' <<<"$FINDINGS")"
is "memory written from each node is on that node" 2 "$(grep -cE '^ok .*written from node [01]: 100% on the node' <<<"$FINDINGS")"
matches "NUMA balancing is reported" '^check .*numa_balancing' "$FINDINGS"

section "Two workers by hand, and a coordinator"
# Lets the kernel balance the memory of processes that start from now on as often as it can, so that answers of a few seconds
# show what would otherwise take days.
for setting in scan_delay_ms scan_period_min_ms; do echo 50 >/sys/kernel/debug/sched/numa_balancing/$setting; done
echo 200 >/sys/kernel/debug/sched/numa_balancing/scan_period_max_ms
balancing 0
by_hand w0 0
by_hand w1 1
start coordinator taskset -c 0 numoe-coordinator --model $NANO --workers unix:/run/w0.sock,unix:/run/w1.sock \
  --host 127.0.0.1 --port 8080 --max-total-tokens 4096 --worker-start-timeout-ms 0
until_true $START_SECONDS ready || report fail "the coordinator serves" "a ready /health" "$(last_line coordinator)"
for i in 0 1; do
  worker=${PID[w$i]}
  weights_on "worker $i by hand: its weights are on its node" "$worker" $i 2048
  is "worker $i by hand: its coordinator's mailbox is on its node" $i "$(nodes_of mailbox "$worker")"
  matches "worker $i by hand: a thread serves the coordinator" 'mailbox-session' "$(computing_threads "$worker")"
  is "worker $i by hand: no computing thread may run on another node" "" "$(strays "$worker" "$(cpus_of_node $i)")"
  is "worker $i by hand: numoe_pinned" 1 "$(value $((9090 + i)) numoe_pinned)"
done
balancing 1
is "the answer is right" "Hello! How can I help you?" "$(ask Hello)"
hint_faults() { awk '$1 == "numa_hint_faults" {print $2}' /proc/vmstat; }
balanced() {
  ask Hello >/dev/null
  [ "$(hint_faults)" -gt 0 ]
}
until_true 60 balanced
at_least "the kernel has looked for memory to balance" 1 "$(hint_faults)"
for i in 0 1; do
  weights_on "worker $i by hand: its weights stay on its node although the kernel balances memory" "${PID[w$i]}" $i 2048
  matches "worker $i by hand: numoe_weights_local_ratio is 1 or unknown" '^(1|absent)$' \
    "$(value $((9090 + i)) numoe_weights_local_ratio)"
done
balancing 0
# A CPU on which worker 1 computes goes offline and comes back three times, while one request follows the other.
rm -f /run/enough
while [ ! -e /run/enough ]; do ask "What is 7 + 5?"; done >/run/answers &
asking=$!
called() { [ "$(calls)" -ge "$1" ]; }
for online in 0 1 0 1 0 1; do
  until_true 120 called $(($(calls) + 10)) || report fail "layer calls continue" "10 more within 120 s" "$(calls) in all"
  echo $online >/sys/devices/system/cpu/cpu3/online
done
touch /run/enough
wait $asking
is "answers are right while a CPU of a worker goes offline and comes back" "The answer is 12." "$(sort -u /run/answers)"
is "no layer call has failed" "0 0" "$(value 9090 numoe_expert_calls_failed_total) $(value 9091 numoe_expert_calls_failed_total)"
stop coordinator
stop w0 w1
is "exit codes after SIGTERM: coordinator, workers" "0 0 0" "${CODE[coordinator]} ${CODE[w0]} ${CODE[w1]}"

section "A supervisor and its two workers"
# All CPUs of the machine are promised to the supervisor, so it may use all of them, but each worker must be on one node.
start supervisor numoe-expert-worker --supervise --pinning required --exclusive-cpus 4 --model $NANO --listen unix:/run
serves supervisor 2
i=0
for worker in $(children_of "${PID[supervisor]}"); do
  weights_on "worker $i of the supervisor: its weights are on its node" "$worker" $i 2048
  is "worker $i of the supervisor: no computing thread may run on another node" "" "$(strays "$worker" "$(cpus_of_node $i)")"
  is "worker $i of the supervisor: it uses every CPU of its node" 2 "$(value $((9090 + i)) numoe_threads)"
  i=$((i + 1))
done
is "the supervisor has two workers" 2 $i
lacks "there is no warning about a perfect placement" '^[^ ]+ (warning|error) ' "$(cat /run/log/supervisor)"
kill -KILL "$worker"
until_true $START_SECONDS said supervisor ' serving /opt/' 3
worker=$(children_of "${PID[supervisor]}" | awk '{print $2}')
weights_on "a worker that was killed starts again on its node" "${worker:-none}" 1 2048
stop supervisor
is "exit code of the supervisor after SIGTERM" 0 "${CODE[supervisor]}"
refused "a supervisor whose workers cannot start says why" '64' \
  numoe-expert-worker --supervise --local-workers 4 --model $NANO --listen unix:/run
lacks "a supervisor whose workers cannot start does not start them again" 'started again' "$(cat /run/log/refused)"

section "--pinning: required refuses a placement about which preferred warns"
nano=(numoe-expert-worker --model $NANO --worker-index 1 --worker-count 2 --listen unix:/run/x.sock --metrics-port 9099)
large=(numoe-expert-worker --model $LARGE --worker-index 1 --worker-count 2 --listen unix:/run/x.sock --metrics-port 9099)
refused "required: CPUs of two nodes" 'nodes 0-1' taskset -c 1-2 "${nano[@]}" --pinning required
policy='memory policy'
refused "required: a memory policy for another node" "$policy" \
  numactl --cpunodebind=1 --membind=0 "${nano[@]}" --pinning required
refused "required: a memory policy that interleaves all nodes" "$policy" \
  numactl --cpunodebind=1 --interleave=all "${nano[@]}" --pinning required
warned "preferred: a memory policy for another node" "$policy" numactl --cpunodebind=1 --membind=0 "${nano[@]}"
counted "the metric says where the weights are, whichever policy the kernel applied" "${PID[warned]}" 1 9099
stop warned
warned "preferred: a memory policy that interleaves all nodes" "$policy" numactl --cpunodebind=1 --interleave=all "${nano[@]}"
counted "the metric says where the weights are, whether they are interleaved or not" "${PID[warned]}" 1 9099
stop warned
start first taskset -c 2-3 "${nano[@]}" --pinning required
serves first
refused "required: a second worker on the node" 'another worker runs on node 1' \
  taskset -c 2-3 numoe-expert-worker --model $NANO --pinning required --listen unix:/run/second.sock --metrics-port 0
stop first

section "A node that is full"
fill_node 1 90
cgroup full_node cpuset.cpus=2-3 cpuset.mems=1
refused "required: a node that is full" 'node 1' taskset -c 2-3 "${large[@]}" --pinning required
warned "preferred: a node that is full" 'node 1' taskset -c 2-3 "${large[@]}"
matches "preferred: a node that is full: the metric counts weights on other nodes" '^(0|0\.[0-8][0-9]*)$' \
  "$(value 9099 numoe_weights_local_ratio)"
counted "preferred: a node that is full: the metric says where the weights are" "${PID[warned]}" 1 9099
stop warned
preflight --model $LARGE --worker-index 1 --worker-count 2 --numa-nodes 1
is "preflight for a worker of the full node: exit code" 1 $?
lacks "preflight does not advise to drop caches if memory cannot be freed" 'drop_caches' "$FINDINGS"
CGROUP=full_node preflight --model $LARGE --worker-index 1 --worker-count 2
is "preflight in a cpuset whose memory node is full: exit code" 1 $?
matches "preflight in a cpuset whose memory node is full: it says so" '^check  node 1 .*(does not fit|needs)' "$FINDINGS"
CGROUP=full_node refused "required: a cpuset whose memory node is full" 'node 1' "${large[@]}" --pinning required
empty_node
fill_node 1 40
CGROUP=full_node preflight
is "preflight survives with less free memory than it would write: exit code" 1 $?
empty_node

section "CPUs and memory reserved for a worker"
cgroup own cpuset.cpus=2-3 cpuset.mems=1
cgroup other_memory cpuset.cpus=2-3 cpuset.mems=0
cgroup quota cpuset.cpus=2-3 cpuset.mems=1 cpu.max="150000 100000"
CGROUP=own preflight --model $NANO --worker-index 1 --worker-count 2
is "preflight with a perfect placement: exit code" 0 $?
lacks "preflight with a perfect placement: no problem is reported" '^check' "$FINDINGS"
CGROUP=own start own "${nano[@]}" --pinning required
serves own
is "the only worker of a cpuset uses all its CPUs" 2 "$(value 9099 numoe_threads)"
weights_on "the only worker of a cpuset: its weights are on its node" "${PID[own]}" 1 2048
stop own
start own taskset -c 2-3 "${nano[@]}"
serves own
is "the only worker with an affinity mask uses all its CPUs" 2 "$(value 9099 numoe_threads)"
stop own
for i in 0 1; do  # the first one is the only one for a while
  start shared$i taskset -c 2-3 numoe-expert-worker --model $NANO --worker-index $i --worker-count 2 \
    --listen "unix:/run/shared$i.sock" --metrics-port $((9097 + i))
  serves shared$i
done
threads_are() { [ "$(value 9097 numoe_threads) $(value 9098 numoe_threads)" = "$1" ]; }
until_true $START_SECONDS threads_are "1 1"
is "two workers with the same affinity mask divide its CPUs" "1 1" "$(value 9097 numoe_threads) $(value 9098 numoe_threads)"
stop shared1
until_true $START_SECONDS threads_are "2 absent"
is "after the second worker has ended, the first one has all of them" "2 absent" \
  "$(value 9097 numoe_threads) $(value 9098 numoe_threads)"
stop shared0
CGROUP=other_memory refused "required: a cpuset with another node's memory" 'memory may come from node 0' \
  "${nano[@]}" --pinning required
CGROUP=quota preflight
is "preflight finds a quota of its own cgroup: exit code" 1 $?
matches "preflight finds a quota of its own cgroup" '^check .*1\.50' "$FINDINGS"
CGROUP=quota refused "required: a quota of its own cgroup" 'quota of 1\.50' "${nano[@]}" --pinning required
