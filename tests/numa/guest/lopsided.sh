# Checks on a machine whose nodes differ: node 0 has the CPUs 0-1; node 1 has the CPUs 2-3 and too little memory for the large
# model's slice; node 2 has memory but no CPUs, like CXL memory.
. /opt/test/lib.sh
balancing 0
whole=(numoe-expert-worker --model $LARGE --worker-index 0 --worker-count 1 --listen unix:/run/x.sock --metrics-port 9099)

section "A node without CPUs"
preflight
lacks "preflight reports no problem with it" '^check .*node 2|node 2.*left out' "$FINDINGS"
is "the nodes with CPUs are found" 2 "$(grep -cE '^ok     node [01]: 2 CPUs' <<<"$FINDINGS")"
start supervisor numoe-expert-worker --supervise --model $NANO --listen unix:/run
serves supervisor 2
i=0
for worker in $(children_of "${PID[supervisor]}"); do
  weights_on "worker $i of the supervisor: its weights are on its node" "$worker" $i 2048
  i=$((i + 1))
done
is "a supervisor has a worker for each node with CPUs" 2 $i
lacks "a supervisor does not warn of the node without CPUs" 'warn.*node 2' "$(cat /run/log/supervisor)"
stop supervisor
refused "a worker cannot run on the node without CPUs" '--numa-nodes=0,2' \
  numoe-expert-worker --model $NANO --numa-nodes 0,2 --listen unix:/run/x.sock

section "A node that is too small for the slice"
preflight --model $LARGE --worker-index 0 --worker-count 1 --numa-nodes 1
is "preflight: exit code" 1 $?
matches "preflight: the slice does not fit the node" '^check  node 1 .*(does not fit|needs)' "$FINDINGS"
refused "required: a slice that is larger than its node" 'node 1|fit' taskset -c 2-3 "${whole[@]}" --pinning required
warned "preferred: a slice that is larger than its node" 'fit' "${whole[@]}" --numa-nodes 1
matches "preferred: the metric counts weights on other nodes" '^(0|0\.[0-8][0-9]*)$' "$(value 9099 numoe_weights_local_ratio)"
counted "preferred: the metric says where the weights are" "${PID[warned]}" 1 9099
stop warned
is "exit code after SIGTERM" 0 "${CODE[warned]:-none}"
