// numoe-pack: shows what checkpoints contain, and packs their experts in advance into files that workers map.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/base/unused_flags.h"
#include "common/observe/logging.h"
#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/pack/convert.h"
#include "expert_worker/pack/inspect.h"

namespace numoe::worker {
namespace {

constexpr int kBarWidth = 40;
constexpr auto kTick = std::chrono::milliseconds(200);
constexpr int kTicksPerLine = 50;  // without a terminal: a line every 10 s

std::string Line(const ConvertProgress::State& s) {
  const double left =
      s.fraction > 0.001 && s.seconds > 0
          ? s.seconds * (1 - s.fraction) / std::max(s.fraction - double(s.skipped) / s.shards, 0.001)
          : 0;
  return fmt::format("{:3.0f}%  shard {} of {}, {:.2f} GiB written, {:.2f} GiB/s, {:.0f} s left",
                     100 * s.fraction, std::min(s.done + 1, s.shards), s.shards,
                     static_cast<double>(s.written) / (1 << 30),
                     static_cast<double>(s.written) / (1 << 30) / std::max(s.seconds, 1e-9), left);
}

// Prints the progress until `stop`: a bar on a terminal, otherwise lines.
void Draw(const ConvertProgress& progress, const std::atomic<bool>& stop) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  for (int tick = 1; !stop.load(); ++tick) {
    std::this_thread::sleep_for(kTick);
    const ConvertProgress::State state = progress.Read();
    if (state.shards == 0) continue;
    if (terminal) {
      const int filled = static_cast<int>(state.fraction * kBarWidth);
      std::fputs(
          fmt::format("\r[{:#<{}}{:.<{}}] {}\033[K", "", filled, "", kBarWidth - filled, Line(state)).c_str(),
          stderr);
    } else if (tick % kTicksPerLine == 0) {
      std::fputs((Line(state) + "\n").c_str(), stderr);
    }
  }
  if (terminal) std::fputs("\r\033[K", stderr);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "numoe-pack: %s\n", std::string(status.message()).c_str());
  return 2;
}

int RunConvert(const ConvertOptions& options) {
  ConvertProgress progress;
  std::atomic<bool> stop = false;
  std::thread drawing([&] { Draw(progress, stop); });
  const absl::StatusOr<int> written = Convert(options, progress);
  stop.store(true);
  drawing.join();
  if (!written.ok()) return Fail(written.status());
  const ConvertProgress::State state = progress.Read();
  std::fputs(
      fmt::format("{}: {} shards, {} of them converted now ({:.2f} GiB in {:.1f} s)\n", options.out.string(),
                  state.shards, *written, static_cast<double>(state.written) / (1 << 30), state.seconds)
          .c_str(),
      stdout);
  return 0;
}

int RunInspect(const InspectOptions& options) {
  const absl::StatusOr<std::string> report = Inspect(options);
  if (!report.ok()) return Fail(report.status());
  std::fputs(report->c_str(), stdout);
  return 0;
}

// Refuses flags that do nothing for this kind of model.
absl::Status CheckInspectFlags(const Flags& flags, const InspectOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(options.model, error)) return absl::OkStatus();  // Inspect reports that
  UnusedFlags unused(flags);
  if (IsPackedModel(options.model)) {
    unused.Add(
        "workers",
        "does nothing for a folder of packed shards, which was divided when it was packed; leave it out");
    if (!options.verify)
      unused.Add("threads", "does nothing without --verify; add --verify, or leave the flag out");
  } else {
    for (const char* const flag : {"verify", "threads"})
      unused.Add(flag,
                 "does nothing for a checkpoint, because only packed shards have checksums; leave it out");
  }
  return unused.refusal();
}

}  // namespace
}  // namespace numoe::worker

int main(int argc, char** argv) {
  numoe::Flags flags(
      "numoe-pack",
      "Shows what checkpoints hold, and packs their experts ahead of time so that workers start faster.",
      numoe::FlagSources::kCommandLine);
  numoe::worker::InspectOptions inspect;
  numoe::Flags& look = flags.Command(
      "inspect",
      "Shows what a checkpoint or a packed folder holds, and how much memory a worker needs for it");
  look.AddPositional("model", inspect.model,
                     "Checkpoint (directory or .gguf file), or a folder of packed shards")
      .Required();
  look.Add("workers", inspect.workers, "Number of slices to divide a checkpoint into").Range(1, 64);
  look.AddSwitch("verify", inspect.verify, "Read all packed shards and compare their checksums");
  look.Add("threads", inspect.threads, "Threads for --verify; 0: one for each CPU that this process may use")
      .Range(0, 4096);
  numoe::worker::ConvertOptions convert;
  std::string format = "auto", slice = "intermediate";
  numoe::Flags& pack = flags.Command(
      "convert", "Packs the experts of a checkpoint into shards; continues where an earlier run was stopped");
  pack.AddPositional("model", convert.model, "Checkpoint (directory or .gguf file)").Required();
  pack.Add("out", convert.out, "Folder to write the shards to; it is created if it does not exist")
      .Required();
  pack.Add("format", format,
           "Format of the packed experts: auto (as published), " + numoe::WeightFormatNames());
  pack.Add("workers", convert.workers,
           "Number of slices, one for each worker (--worker-count of numoe-expert-worker)")
      .Range(1, 64);
  pack.Add("slice", slice,
           "What each slice holds: intermediate (1/N of every expert) or expert (1/N of the experts, each of "
           "them complete), where N is --workers")
      .OneOf({"intermediate", "expert"});
  pack.Add("threads", convert.threads, "Threads; 0: one for each CPU that this process may use")
      .Range(0, 4096);
  pack.AddSwitch("verify", convert.verify,
                 "Also check the data of existing shards, and pack damaged ones again");
  if (const int code = flags.Parse(argc, argv); code >= 0) return code;
  if (!numoe::SetupLogging({.level = "warning", .program = "numoe-pack"}).ok()) return 2;
  if (look.Given()) {
    const absl::Status used = numoe::worker::CheckInspectFlags(look, inspect);
    return used.ok() ? numoe::worker::RunInspect(inspect) : numoe::worker::Fail(used);
  }
  const auto wanted = numoe::ParseWeightFormatOrAuto(format);
  if (!wanted.ok()) return numoe::worker::Fail(numoe::Annotate(wanted.status(), "--format"));
  convert.format = *wanted;
  convert.mode =
      slice == "expert" ? numoe::worker::SliceMode::kExpert : numoe::worker::SliceMode::kIntermediate;
  return numoe::worker::RunConvert(convert);
}
