#include "expert_worker/experts/load_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/log.h"
#include "expert_worker/experts/experts_limits.h"

namespace numoe::worker {
namespace {

constexpr double kGib = 1 << 30;
constexpr int64_t kReportNanoseconds = int64_t{limits::kLoadReportSeconds} * 1'000'000'000;

int64_t Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

void LoadProgress::Begin(uint64_t bytes) {
  total_.store(bytes);
  const int64_t now = Now();
  report_ns_.store(now + kReportNanoseconds);
  begin_ns_.store(now);
}

void LoadProgress::Add(uint64_t bytes, bool direct) {
  done_.fetch_add(bytes, std::memory_order_relaxed);
  if (direct) direct_.fetch_add(bytes, std::memory_order_relaxed);
  if (IsDue()) LogInfo("loading experts: {}", ToString());
}

void LoadProgress::AddPages(uint64_t bytes) {
  const uint64_t made = pages_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (IsDue()) LogInfo("allocated pages for the experts: {:.3f} GiB", static_cast<double>(made) / kGib);
}

// Returns true to one of the threads that ask after an interval has passed; never before the first interval
// has passed.
bool LoadProgress::IsDue() {
  const int64_t now = Now();
  int64_t due = report_ns_.load(std::memory_order_relaxed);
  if (now < due || !report_ns_.compare_exchange_strong(due, now + kReportNanoseconds)) return false;
  return due != 0;
}

void LoadProgress::Finish(const std::string& what) {
  NUMOE_DCHECK_LE(bytes_direct(), bytes_done());
  end_ns_.store(Now());
  const double done = static_cast<double>(bytes_done());
  LogInfo("loaded {}: {:.3f} GiB read in {:.1f} s ({:.2f} GiB/s), {:.0f}% of it without the page cache", what,
          done / kGib, seconds(), done / kGib / std::max(seconds(), 1e-9),
          100 * static_cast<double>(bytes_direct()) / std::max(done, 1.0));
}

double LoadProgress::seconds() const {
  const int64_t begin = begin_ns_.load();
  const int64_t end = end_ns_.load();
  if (begin == 0) return 0;
  return static_cast<double>((end == 0 ? Now() : end) - begin) * 1e-9;
}

std::string LoadProgress::ToString() const {
  const double total = static_cast<double>(bytes_total());
  const double done = static_cast<double>(bytes_done());
  const double rate = done / std::max(seconds(), 1e-9);
  return fmt::format("{:.3f} of {:.3f} GiB read ({:.0f}%), {:.2f} GiB/s, {:.0f} s left", done / kGib,
                     total / kGib, 100 * done / std::max(total, 1.0), rate / kGib,
                     (total - done) / std::max(rate, 1.0));
}

}  // namespace numoe::worker
