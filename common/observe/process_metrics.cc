#include "common/observe/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace numoe {
namespace {

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<double> BootTime() {
  std::istringstream lines(ReadAll("/proc/stat"));
  for (std::string word; lines >> word;)
    if (double seconds = 0; word == "btime" && lines >> seconds) return seconds;
  return std::nullopt;
}

std::optional<double> OpenFiles() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return std::nullopt;
  double entries = 0;
  while (readdir(folder.get()) != nullptr) ++entries;
  NUMOE_DCHECK_GE(entries, 3);
  return entries - 3;  // ".", "..", and the folder itself
}

template <typename Id>
void ExposeOne(Metrics& metrics, Id id, std::optional<double> ProcessUse::*member) {
  metrics.Expose(id, [member](SampleSink sink) {
    if (const std::optional<double> value = ReadOwnUse().*member) sink({}, *value);
  });
}

}  // namespace

ProcessUse ReadStat(std::string_view stat, std::optional<double> boot_s) {
  // The second field is the program's name in brackets, which may contain any characters.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return {};
  std::istringstream words{std::string(stat.substr(name_end + 1))};
  const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
  // proc(5) counts from 1, and these fields begin with the third.
  const auto field = [&](size_t number) -> std::optional<double> {
    if (fields.size() <= number - 3) return std::nullopt;
    const std::string& text = fields[number - 3];
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  };
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  NUMOE_CHECK_GT(ticks, 0);
  ProcessUse use;
  const std::optional<double> user = field(14), system = field(15), start = field(22), pages = field(24);
  if (user && system) use.cpu_s = (*user + *system) / ticks;
  if (start && boot_s) use.start_s = *boot_s + *start / ticks;
  use.virtual_bytes = field(23);
  if (pages) use.resident_bytes = *pages * static_cast<double>(sysconf(_SC_PAGESIZE));
  return use;
}

ProcessUse ReadOwnUse() {
  static const std::optional<double> boot_s =
      BootTime();  // read once, because clock corrections would change the start time
  ProcessUse use = ReadStat(ReadAll("/proc/self/stat"), boot_s);
  use.open_files = OpenFiles();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    use.open_files_max = static_cast<double>(limit.rlim_cur);
  return use;
}

void ExposeProcess(Metrics& metrics) {
  ExposeOne(metrics, CounterId::kProcessCpu, &ProcessUse::cpu_s);
  ExposeOne(metrics, GaugeId::kProcessMaxFds, &ProcessUse::open_files_max);
  ExposeOne(metrics, GaugeId::kProcessOpenFds, &ProcessUse::open_files);
  ExposeOne(metrics, GaugeId::kProcessResident, &ProcessUse::resident_bytes);
  ExposeOne(metrics, GaugeId::kProcessStart, &ProcessUse::start_s);
  ExposeOne(metrics, GaugeId::kProcessVirtual, &ProcessUse::virtual_bytes);
}

}  // namespace numoe
