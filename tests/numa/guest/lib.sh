# Functions that the guests' scripts share: named checks, daemons, the placement of memory and threads, cgroups, full nodes. The
# runner on the host (run.py) understands the output lines "== SECTION", "PASS CHECK", and "FAIL CHECK" with indented lines that
# say what was found. All other lines only go to the guest's log.
set -u
NANO=/opt/nano LARGE=/opt/large  # a model that can answer, and a model whose slices can fill a node
START_SECONDS=120                # the CPUs are emulated and the machine may be busy; a start that takes longer is a failure
declare -A PID=() CODE=()        # the PIDs of the daemons that run, and the exit codes of those that have ended
mkdir -p /run/log

# The kernel gives huge pages only to memory that asks for them, so that a thread's stack does not take half a MiB and look like
# weights.
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
echo "+cpuset +memory +cpu" >/sys/fs/cgroup/cgroup.subtree_control

# Begins a part of a script. No daemon runs across parts.
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

# start NAME COMMAND...: starts a daemon, in the cgroup $CGROUP if that is set. Its output goes to /run/log/NAME.
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
# until_true SECONDS COMMAND...: repeats the command until it succeeds; fails after this time.
until_true() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.3
  done
}
# said NAME REGEX COUNT: whether this number of lines of the daemon's output match.
said() { [ "$(grep -cE -- "$2" "/run/log/$1")" -ge "$3" ]; }
# serves NAME [WORKERS]: waits until this number of workers (default 1) say that they serve, or the daemon has ended. Succeeds
# if they serve.
serving_or_ended() { said "$1" ' serving /opt/' "$2" || ended "$1"; }
serves() {
  until_true $START_SECONDS serving_or_ended "$1" "${2:-1}"
  alive "$1" && said "$1" ' serving /opt/' "${2:-1}"
}
# reap NAME: waits for the end of a daemon that is about to end, and stores its exit code in CODE[NAME]; kills it after 60 s.
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

# refused NAME REASON COMMAND...: checks that a worker does not serve, but ends with exit code 2 and a last line that contains
# REASON.
refused() {
  local name=$1 reason=$2 found
  shift 2
  start refused "$@"
  if serves refused; then
    found="the worker serves: $(last_line refused)"
    stop refused
  else
    reap refused
    found="exit code ${CODE[refused]}: $(last_line refused)"
  fi
  matches "$name" "^exit code 2: .*($reason)" "$found"
}
# warned NAME REASON COMMAND...: checks that a worker serves and logs a warning that contains REASON. It continues as "warned".
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
# preflight ARGUMENT...: runs --preflight, stores its findings in $FINDINGS and returns its exit code.
preflight() {
  start preflight numoe-expert-worker --preflight "$@"
  wait "${PID[preflight]}"
  local code=$?
  unset "PID[preflight]"
  FINDINGS=$(cat /run/log/preflight)
  return $code
}

# Placement of memory and threads.

# Prints the KiB of a process's weights or mailboxes on each node, as "N0=824 N1=1480". Private mappings of at least WEIGHTS_KIB
# count as weights: one layer of nano has 576 KiB in each of two slices and 288 KiB in each of four, and adjacent layers are one
# mapping.
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
# numbers LIST: prints a list such as "0-2,5" as lines of single numbers.
numbers() { tr ',' '\n' <<<"$1" | awk -F- 'NF {for (i = $1; i <= (NF > 1 ? $2 : $1); ++i) print i}'; }
cpus_of_node() { cat "/sys/devices/system/node/node$1/cpulist"; }
# Prints the threads that compute layer calls: those of the pool, and those that serve a coordinator, which compute as the
# pool's thread 0.
computing_threads() {  # PID: lines "NAME CPUS"
  local task
  for task in "/proc/$1/task"/*; do
    case $(cat "$task/comm") in
      expert-* | mailbox-session*) echo "$(cat "$task/comm") $(awk '/^Cpus_allowed_list/ {print $2}' "$task/status")" ;;
    esac
  done
}
# Prints the computing threads that may run on CPUs other than these.
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
# Prints the value of a worker's metric, or "absent" if the worker does not export it.
value() {  # PORT SERIES
  curl -s -m 60 "http://127.0.0.1:$1/metrics" |
    awk -v series="$2" '$1 == series {found = $2} END {print found == "" ? "absent" : found}'
}
# weights_on NAME PID NODE KIB: checks that the process has at least KIB of weights, all of them on this node.
weights_on() {
  local found nodes
  found=$(memory_of weights "$2")
  nodes=$(nodes_of weights "$2")
  if [ "$nodes" = "$3" ] && [ "${found#*=}" -ge "$4" ]; then
    report pass "$1"
  else
    report fail "$1" "at least $4 KiB on node $3, and none on other nodes" "${found:-none}"
  fi
}

# counted NAME PID NODE PORT: checks that numoe_weights_local_ratio is the share of the weights that the kernel shows on the
# node. They may differ by 0.05, because the metric looks only at a sample of the pages.
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

# cgroup NAME FILE=VALUE...: creates a cgroup and writes these values to its files.
cgroup() {
  local folder=/sys/fs/cgroup/$1 setting
  mkdir "$folder"
  shift
  for setting in "$@"; do echo "${setting#*=}" >"$folder/${setting%%=*}"; done
}
# mib_of_node NODE KEY: prints the MiB of a line of the node's meminfo.
mib_of_node() { awk -v key="$2:" '$3 == key {print int($4 / 1024)}' "/sys/devices/system/node/node$1/meminfo"; }
# fill_node NODE MIB: fills the node with memory that the kernel cannot reclaim, and leaves MIB free.
fill_node() {
  echo 3 >/proc/sys/vm/drop_caches
  mkdir -p /run/full
  mount -t tmpfs -o "size=100%,mpol=bind:$1" full /run/full
  dd if=/dev/zero of=/run/full/file bs=1M count=$(($(mib_of_node "$1" MemFree) - $2)) 2>/dev/null
  echo "node $1 has $(mib_of_node "$1" MemFree) MiB free"
}
empty_node() { umount /run/full; }
