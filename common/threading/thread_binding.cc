#include "common/threading/thread_binding.h"

#include <memory>

#include "common/base/check.h"

namespace numoe {
namespace {

// glibc's cpu_set_t has room for 1024 CPUs; the kernel can be configured for up to 8192.
constexpr size_t kCpusMax = 8192;

struct CpuSetDeleter {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, CpuSetDeleter>;

CpuSet EmptyCpuSet() {
  CpuSet set(CPU_ALLOC(kCpusMax));
  NUMOE_CHECK(set != nullptr) << "out of memory";
  CPU_ZERO_S(CPU_ALLOC_SIZE(kCpusMax), set.get());
  return set;
}

}  // namespace

bool BindThread(pthread_t thread, const std::vector<int>& cpus) {
  const size_t bytes = CPU_ALLOC_SIZE(kCpusMax);
  const CpuSet set = EmptyCpuSet();
  for (const int cpu : cpus) {
    if (cpu < 0 || static_cast<size_t>(cpu) >= kCpusMax) return false;
    CPU_SET_S(static_cast<size_t>(cpu), bytes, set.get());
  }
  NUMOE_DCHECK_LE(static_cast<size_t>(CPU_COUNT_S(bytes, set.get())), cpus.size());
  return pthread_setaffinity_np(thread, bytes, set.get()) == 0;
}

std::vector<int> CpusOfThread(pthread_t thread) {
  const size_t bytes = CPU_ALLOC_SIZE(kCpusMax);
  const CpuSet set = EmptyCpuSet();
  std::vector<int> cpus;
  if (pthread_getaffinity_np(thread, bytes, set.get()) != 0) return cpus;
  for (size_t cpu = 0; cpu < kCpusMax; ++cpu) {
    if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

std::vector<int> CpusOfThisThread() { return CpusOfThread(pthread_self()); }

ScopedThreadBinding::ScopedThreadBinding(const std::vector<int>& cpus) : before_(CpusOfThisThread()) {
  BindThread(pthread_self(), cpus);
}

ScopedThreadBinding::~ScopedThreadBinding() { BindThread(pthread_self(), before_); }

}  // namespace numoe
