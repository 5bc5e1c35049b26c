#include "common/weights/fingerprint.h"

#include <fcntl.h>
#include <pthread.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/first_error.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/weights/input_file.h"

namespace numoe {
namespace {

static_assert(kFingerprintSampleBytes <= kFingerprintWholeBytesMax);
static_assert(kFingerprintWholeBytesMax <= kFingerprintPieceBytes);

// A network disk takes about 1 ms for a read, whatever its size, so the 210,000 samples of Kimi-K2.5 take 3
// s.
constexpr size_t kReadsInFlightMax = 64;

using Sample = absl::Span<const std::byte>;  // in a mapped file, used only as an address

uint64_t HashOf(absl::Span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void AddSamples(absl::Span<const std::byte> data, std::vector<Sample>& samples) {
  for (size_t at = 0; at < data.size(); at += kFingerprintPieceBytes) {
    const absl::Span<const std::byte> piece = data.subspan(at, kFingerprintPieceBytes);
    const bool whole = piece.size() <= kFingerprintWholeBytesMax;
    samples.push_back(
        whole ? piece : piece.subspan((piece.size() - kFingerprintSampleBytes) / 2, kFingerprintSampleBytes));
  }
}

// Reads a checkpoint's files at the positions that their mappings imply.
class SampledFiles {
 public:
  absl::Status Open(absl::Span<const MappedFile> files) {
    for (const MappedFile& mapped : files) {
      ASSIGN_OR_RETURN(std::unique_ptr<InputFile> file, InputFile::Open(mapped, /*direct=*/false));
      // A sample brings only its own pages into the page cache, and none around it.
      posix_fadvise(file->fd(), 0, 0, POSIX_FADV_RANDOM);
      files_.emplace(mapped.bytes().data(), std::move(file));
    }
    return absl::OkStatus();
  }

  absl::Status Read(Sample sample, absl::Span<std::byte> out) const {
    const auto after = files_.upper_bound(sample.data());
    NUMOE_CHECK(after != files_.begin()) << "a tensor must be in one of the files";
    const auto& [begin, file] = *std::prev(after);
    return ReadFully(file->fd(), file->path(), static_cast<uint64_t>(sample.data() - begin), out);
  }

  absl::Status CheckUnchanged() const {
    for (const auto& [begin, file] : files_) RETURN_IF_ERROR(file->CheckUnchanged());
    return absl::OkStatus();
  }

 private:
  std::map<const std::byte*, std::unique_ptr<InputFile>> files_;  // by the address of the mapping
};

// Returns the hash of each sample. The threads sleep in reads, so their number is that of the reads in
// flight, not that of the CPUs.
absl::StatusOr<std::vector<uint64_t>> HashSamples(const std::vector<Sample>& samples,
                                                  const SampledFiles& files) {
  std::vector<size_t> order(samples.size());  // sequentially through each file
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::less<const std::byte*>()(samples[a].data(), samples[b].data());
  });
  std::vector<uint64_t> hashes(samples.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  FirstError first_error;
  const auto read_some = [&] {
    std::byte buffer[kFingerprintWholeBytesMax];
    for (size_t i = next++; i < order.size() && !failed; i = next++) {
      const Sample sample = samples[order[i]];
      NUMOE_DCHECK_LE(sample.size(), sizeof buffer);
      const absl::Span<std::byte> bytes = absl::MakeSpan(buffer).first(sample.size());
      if (const absl::Status read = files.Read(sample, bytes); !read.ok()) {
        first_error.Note(read);
        failed = true;
        return;
      }
      hashes[order[i]] = HashOf(bytes);
    }
  };
  std::vector<std::thread> threads;
  try {
    while (threads.size() < std::min(kReadsInFlightMax, samples.size())) {
      threads.emplace_back([&] {
        pthread_setname_np(pthread_self(), "fingerprint");
        read_some();
      });
    }
  } catch (const std::system_error&) {  // at the limit of processes fewer threads read, at least this one
    read_some();
  }
  for (std::thread& thread : threads) thread.join();
  RETURN_IF_ERROR(first_error.status());
  RETURN_IF_ERROR(files.CheckUnchanged());
  return hashes;
}

}  // namespace

void FingerprintRecord::AddNumber(uint64_t value) {
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void FingerprintRecord::AddText(std::string_view text) {
  AddNumber(text.size());
  bytes_.append(text);
}

void FingerprintRecord::AddHash(absl::Span<const std::byte> bytes) { AddNumber(HashOf(bytes)); }

void FingerprintRecord::AddHash(std::string_view text) {
  AddHash(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

uint64_t FingerprintRecord::Hash() const { return XXH3_64bits(bytes_.data(), bytes_.size()); }

absl::StatusOr<uint64_t> FingerprintOf(FingerprintRecord record, absl::Span<const FingerprintTensor> tensors,
                                       absl::Span<const MappedFile> files) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Sample> samples;
  std::vector<size_t> ends;  // after each tensor's samples
  for (const FingerprintTensor& tensor : tensors) {
    NUMOE_DCHECK(&tensor == &tensors.front() || (&tensor - 1)->name < tensor.name);
    AddSamples(tensor.data, samples);
    ends.push_back(samples.size());
  }
  SampledFiles opened;
  RETURN_IF_ERROR(opened.Open(files));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> hashes, HashSamples(samples, opened));
  NUMOE_CHECK_EQ(hashes.size(), samples.size());
  record.AddNumber(tensors.size());
  size_t sample = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    FingerprintRecord own;
    own.AddText(tensors[i].name);
    own.AddText(tensors[i].type);
    own.AddNumber(tensors[i].shape.size());
    for (const int64_t extent : tensors[i].shape) own.AddNumber(static_cast<uint64_t>(extent));
    for (; sample < ends[i]; ++sample) own.AddNumber(hashes[sample]);
    record.AddNumber(own.Hash());
  }
  NUMOE_CHECK_EQ(sample, hashes.size()) << "every sample must belong to one tensor";
  const uint64_t fingerprint = record.Hash();
  LogDebug("model fingerprint {:016x}: {} samples of {} tensors in {} files, read in {:.1f} ms", fingerprint,
           samples.size(), tensors.size(), files.size(),
           std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  return fingerprint;
}

}  // namespace numoe
