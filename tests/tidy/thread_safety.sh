#!/usr/bin/env bash
# Checks every product unit by itself with Clang. It fails if a member is accessed without the mutex that guards it
# (common/base/mutex.h), or if a unit does not compile without a precompiled header because it does not include
# what it uses. gcc reports all other warnings. Usage: thread_safety.sh [BUILD_DIR] (default build/release), where
# proto/ must have been generated.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}

if ! command -v clang++ >/dev/null; then
  echo "SKIPPED thread safety: not installed: clang++ (apt-get install clang)" >&2
  [ "${NUMOE_REQUIRE:-}" != 1 ]
  exit
fi
for proto in $(find proto -name '*.proto'); do
  for header in "$build/${proto%.proto}.pb.h" "$build/${proto%.proto}.grpc.pb.h"; do
    if [ ! -f "$header" ]; then
      echo "thread safety: found no $header, expected what the build generates: cmake --build $build --target numoe_proto" >&2
      exit 1
    fi
  done
done

# These units include the CUDA toolkit's headers, which a machine may lack.
toolkit='^#include <(cuda|cublas)[A-Za-z_]*\.h>'
left_out=()
if ! echo '#include <cuda_runtime_api.h>' | clang++ -fsyntax-only -x c++ - 2>/dev/null; then
  mapfile -t left_out < <(grep -rlE --include='*.cc' "$toolkit" common coordinator expert_worker)
fi
# These units are compiled for one instruction set, have no threads, and need its flags.
mapfile -t -O "${#left_out[@]}" left_out < <(find common coordinator -name '*_avx2.cc' -o -name '*_avx512.cc' -o -name '*_amx.cc')
mapfile -t units < <(find common coordinator expert_worker -name '*.cc' | sort |
                     grep -vxFf <(printf '%s\n' "${left_out[@]}"))

export flags="-std=c++20 -fsyntax-only -fno-caret-diagnostics -Wno-everything -Wthread-safety -Werror=thread-safety
  -I. -I$build -DFMT_SHARED -DSPDLOG_SHARED_LIB -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -DNUMOE_VERSION=\"\""
analyse() {
  local said
  # shellcheck disable=SC2086  # the flags are words
  said=$(clang++ $flags "$1" 2>&1) && return
  printf '%s: FAILED\n%s\n' "$1" "$(grep 'error:' <<<"$said" || echo "$said")"
  return 1
}
export -f analyse
verdict=0
printf '%s\0' "${units[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'analyse "$1"' analyse || verdict=1
echo "thread safety: ${#units[@]} units analysed, ${#left_out[@]} left out (other instruction sets, no CUDA toolkit)"
exit "$verdict"
