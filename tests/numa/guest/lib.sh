# What the scripts of the guests share: named checks, daemons, where memory and threads lie, cgroups, full nodes.
# Lines of a script that the runner on the host understands: "== SECTION", "PASS CHECK", "FAIL CHECK" with indented lines that
# say what was found. Everything else is the guest's log.
set -u
NANO=/opt/nano LARGE=/opt/large  # the model that answers; one whose slices can fill a node
START_SECONDS=120                # emulated CPUs on a busy machine: what takes longer is a failure
declare -A PID=() CODE=()        # of the daemons that run, and of those that have ended
mkdir -p /run/log

# Huge pages for those who ask for them, so that a mapping of more than half a MiB is weights and not a thread's stack.
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
echo "+cpuset +memory +cpu" >/sys/fs/cgroup/cgroup.subtree_control

# A part of a script. No daemon runs from one to the next.
section() {
  printf '\n== %s\n' "$*"
  rm -f /run/log/*
}
balancing() { echo "$1" >/proc/sys/kernel/numa_balancing; }

# Checks.

report() {  # pass|fail NAME EXPECTED FOUND
  if [ "$1" = pass ]; then
    echo "PASS $2"
    return
  fi
  echo "FAIL $2"
  local name log
  {
    printf 'expected: %s\nfound:    %s\n' "$3" "$4"
    for name in "${!PID[@]}"; do describe "$name"; done
    for log in $(ls -t /run/log | head -n 2); do tail -n 8 "/run/log/$log" | sed "s|^|$log: |"; done
  } | cut -c1-300 | sed 's|^|  |'
}
# is NAME EXPECTED FOUND
is() { if [ "$2" = "$3" ]; then report pass "$@"; else report fail "$1" "\"$2\"" "\"$3\""; fi; }
# matches NAME REGEX FOUND
matches() { if grep -qE -- "$2" <<<"$3"; then report pass "$@"; else report fail "$1" "a text that matches /$2/" "\"$3\""; fi; }
# lacks NAME REGEX TEXT
lacks() {
  local lines
  if lines=$(grep -E -- "$2" <<<"$3"); then report fail "$1" "no line that matches /$2/" "$lines"; else report pass "$1"; fi
}
# at_least NAME MINIMUM FOUND
at_least() { if [ "$3" -ge "$2" ] 2>/dev/null; then report pass "$@"; else report fail "$1" "at least $2" "\"$3\""; fi; }

# Daemons.

# start NAME COMMAND...: in the cgroup $CGROUP, if that is set. Its output is /run/log/NAME.
start() {
  local name=$1
  shift
  echo "\$ $*"
  (
    [ -z "${CGROUP:-}" ] || echo "$BASHPID" >"/sys/fs/cgroup/$CGROUP/cgroup.procs"
    exec "$@"
  ) >"/run/log/$name" 2>&1 &
  PID[$name]=$!
}
alive() { [ -n "${PID[$1]:-}" ] && kill -0 "${PID[$1]}" 2>/dev/null; }
ended() { ! alive "$1"; }
# until_true SECONDS COMMAND...
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.3
  done
}
said() { [ "$(grep -cE -- "$2" "/run/log/$1")" -ge "$3" ]; }
# serves NAME [WORKERS]: waits until so many workers (1) say that they serve, or the daemon ends; whether it serves.
serving_or_ended() { said "$1" ' serving /opt/' "$2" || ended "$1"; }
serves() {
  until_true $START_SECONDS serving_or_ended "$1" "${2:-1}"
  alive "$1" && said "$1" ' serving /opt/' "${2:-1}"
}
# reap NAME: waits for its end, which has been asked for or is near; leaves the exit code in CODE[NAME].
reap() {
  until_true 60 ended "$1" || { echo "$1 has not ended: killed"; kill -KILL "${PID[$1]}"; }
  wait "${PID[$1]}"
  CODE[$1]=$?
  unset "PID[$1]"
}
stop() {
  local name
  for name in "$@"; do kill -TERM "${PID[$name]}" 2>/dev/null; done
  for name in "$@"; do reap "$name"; done
}
last_line() { tail -n 1 "/run/log/$1" | cut -c1-500; }

# refused NAME REASON COMMAND...: a worker ends with 2 and says REASON instead of serving.
refused() {
  local name=$1 reason=$2 found
  shift 2
  start refused "$@"
  if serves refused; then
    found="it serves: $(last_line refused)"
    stop refused
  else
    reap refused
    found="exit code ${CODE[refused]}: $(last_line refused)"
  fi
  matches "$name" "^exit code 2: .*($reason)" "$found"
}
# warned NAME REASON COMMAND...: a worker serves, and has a warning that says REASON. It runs on as "warned".
warned() {
  local name=$1 reason=$2
  shift 2
  start warned "$@"
  if serves warned; then
    matches "$name" "$reason" "$(grep -iE 'warn' /run/log/warned)"
  else
    report fail "$name" "that the worker serves, with a warning" "it has ended: $(last_line warned)"
  fi
}
# preflight ARGUMENT...: its findings in $FINDINGS, its exit code in $?.
preflight() {
  start preflight numoe-expert-worker --preflight "$@"
  wait "${PID[preflight]}"
  local code=$?
  unset "PID[preflight]"
  FINDINGS=$(cat /run/log/preflight)
  return $code
}

# Where memory and threads lie.

# KiB of a process's weights or mailboxes on each node, as "N0=824 N1=1480". Weights are the private mappings of at least
# WEIGHTS_KIB: a layer of nano's two slices has 576 KiB, one of its four slices 288, and layers that lie side by side are
# one mapping.
WEIGHTS_KIB=512
memory_of() {  # weights|mailbox PID
  awk -v kind="$1" -v least="$WEIGHTS_KIB" '
    {
      size = 4; pages = 0; split("", here)
      for (i = 3; i <= NF; ++i) {
        if ($i ~ /^kernelpagesize_kB=/) size = substr($i, 19)
        if ($i ~ /^N[0-9]+=/) { split($i, part, "="); here[part[1]] = part[2]; pages += part[2] }
      }
      mailbox = $0 ~ /file=\/memfd:numoe-mailbox/
      weights = $0 !~ /file=| heap| stack/ && pages * size >= least
      if (kind == "mailbox" ? mailbox : weights) for (node in here) sum[node] += here[node] * size
    }
    END { for (n = 0; n < 8; ++n) if (("N" n) in sum) printf "%sN%d=%d", n_before++ ? " " : "", n, sum["N" n] }
  ' "/proc/$2/numa_maps"
}
nodes_of() { memory_of "$@" | sed -e 's/N\([0-9]*\)=[0-9]*/\1/g'; }
# "0-2,5" as lines of numbers.
numbers() { tr ',' '\n' <<<"$1" | awk -F- 'NF {for (i = $1; i <= (NF > 1 ? $2 : $1); ++i) print i}'; }
cpus_of_node() { cat "/sys/devices/system/node/node$1/cpulist"; }
# The threads that compute layer calls: those of the pool, and those that serve a coordinator, each the pool's first.
computing_threads() {  # PID: lines "NAME CPUS"
  local task
  for task in "/proc/$1/task"/*; do
    case $(cat "$task/comm") in
      expert-* | mailbox-session*) echo "$(cat "$task/comm") $(awk '/^Cpus_allowed_list/ {print $2}' "$task/status")" ;;
    esac
  done
}
# The computing threads that may run on another CPU than these.
strays() {  # PID CPUS
  local name cpus
  computing_threads "$1" | while read -r name cpus; do
    [ -z "$(numbers "$cpus" | grep -vxF "$(numbers "$2")")" ] || echo "$name may run on $cpus"
  done
}
children_of() { cat "/proc/$1/task"/*/children; }
describe() {  # NAME
  alive "$1" || return 0
  local pid
  for pid in "${PID[$1]}" $(children_of "${PID[$1]}"); do
    printf '%s (%s): weights %s KiB; mailbox %s KiB; ' "$1" "$pid" "$(memory_of weights "$pid")" "$(memory_of mailbox "$pid")"
    computing_threads "$pid" | tr '\n' ';'
    echo
  done
}
# The value of a worker's metric; "absent" where the worker does not export it.
value() {  # PORT SERIES
  curl -s -m 60 "http://127.0.0.1:$1/metrics" |
    awk -v series="$2" '$1 == series {found = $2} END {print found == "" ? "absent" : found}'
}
# lies NAME PID NODE KIB: at least so many KiB of weights, all of them on this node.
lies() {
  local found nodes
  found=$(memory_of weights "$2")
  nodes=$(nodes_of weights "$2")
  if [ "$nodes" = "$3" ] && [ "${found#*=}" -ge "$4" ]; then
    report pass "$1"
  else
    report fail "$1" "at least $4 KiB on node $3, and none elsewhere" "${found:-none}"
  fi
}

# counted NAME PID NODE PORT: numoe_weights_local_ratio is the share of the weights that the kernel shows on the node.
# The metric looks at some of the pages.
counted() {
  local found metric
  found=$(memory_of weights "$2")
  metric=$(value "$4" numoe_weights_local_ratio)
  if tr ' ' '\n' <<<"$found" | awk -F= -v node="N$3" -v metric="$metric" '
      { all += $2; if ($1 == node) here = $2 }
      END { off = all ? here / all - metric : 1; exit !(metric != "absent" && off < 0.05 && off > -0.05) }'; then
    report pass "$1"
  else
    report fail "$1" "numoe_weights_local_ratio is the share on node $3" "$metric, with $found KiB"
  fi
}

# Cgroups and nodes without free memory.

# cgroup NAME FILE=VALUE...
cgroup() {
  local folder=/sys/fs/cgroup/$1 setting
  mkdir "$folder"
  shift
  for setting in "$@"; do echo "${setting#*=}" >"$folder/${setting%%=*}"; done
}
mib_of_node() { awk -v key="$2:" '$3 == key {print int($4 / 1024)}' "/sys/devices/system/node/node$1/meminfo"; }
# fill_node NODE MIB: with memory that the kernel cannot give back, but for so many MiB.
fill_node() {
  echo 3 >/proc/sys/vm/drop_caches
  mkdir -p /run/full
  mount -t tmpfs -o "size=100%,mpol=bind:$1" full /run/full
  dd if=/dev/zero of=/run/full/file bs=1M count=$(($(mib_of_node "$1" MemFree) - $2)) 2>/dev/null
  echo "node $1 has $(mib_of_node "$1" MemFree) MiB free"
}
empty_node() { umount /run/full; }
