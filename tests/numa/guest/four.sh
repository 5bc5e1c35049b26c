# Checks on a machine with two packages of two sub-NUMA nodes: package 0 has the nodes 0 and 1, package 1 the nodes 2 and 3.
# Each node has one CPU.
. /opt/test/lib.sh
balancing 0

# Prints the packages of the CPUs on which a worker's computing threads run.
packages_of() {  # PID
  local name cpus cpu
  computing_threads "$1" | while read -r name cpus; do
    for cpu in $(numbers "$cpus"); do cat "/sys/devices/system/cpu/cpu$cpu/topology/physical_package_id"; done
  done | sort -u | xargs
}
# Prints the packages of the nodes that have a worker's weights.
packages_of_weights() {  # PID
  local node
  for node in $(nodes_of weights "$1"); do
    cat "/sys/devices/system/cpu/cpu$(cpus_of_node "$node")/topology/physical_package_id"
  done | sort -u | xargs
}

section "Two workers by index"
for i in 0 1; do
  start w$i numoe-expert-worker --model $NANO --worker-index $i --worker-count 2 \
    --listen unix:/run/w$i.sock --metrics-port $((9090 + i))
done
for i in 0 1; do
  serves w$i
  is "worker $i by index: its weights are on package $i" $i "$(packages_of_weights "${PID[w$i]}")"
  is "worker $i by index: it uses every CPU of its package" 2 "$(value $((9090 + i)) numoe_threads)"
done
stop w0 w1

section "One worker on the two nodes of a package"
start both numoe-expert-worker --model $NANO --worker-index 0 --worker-count 2 --numa-nodes 2,3 \
  --listen unix:/run/x.sock --metrics-port 9099
serves both
matches "its weights are on these nodes" '^(2 3|2|3)$' "$(nodes_of weights "${PID[both]}")"
is "it uses the CPUs of both nodes" 2 "$(value 9099 numoe_threads)"
is "no computing thread may run on other nodes" "" "$(strays "${PID[both]}" 2-3)"
is "all its weights count as local to its nodes" 1 "$(value 9099 numoe_weights_local_ratio)"
stop both

section "A supervisor with a worker for each package"
start supervisor numoe-expert-worker --supervise --worker-per package --model $NANO --listen unix:/run
serves supervisor 2
i=0
for worker in $(children_of "${PID[supervisor]}"); do
  is "worker $i of the supervisor: its threads run on package $i" $i "$(packages_of "$worker")"
  is "worker $i of the supervisor: its weights are on package $i" $i "$(packages_of_weights "$worker")"
  i=$((i + 1))
done
is "the supervisor has a worker for each package" 2 $i
stop supervisor

section "A supervisor with a worker for each node"
WEIGHTS_KIB=256
start supervisor numoe-expert-worker --supervise --slice expert --model $NANO --listen unix:/run
serves supervisor 4
i=0
for worker in $(children_of "${PID[supervisor]}"); do
  weights_on "worker $i of four: its weights are on its node" "$worker" $i 600
  i=$((i + 1))
done
is "the supervisor has a worker for each node" 4 $i
stop supervisor
is "exit code of the supervisor after SIGTERM" 0 "${CODE[supervisor]}"
