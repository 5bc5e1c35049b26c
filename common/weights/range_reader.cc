#include "common/weights/range_reader.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe {

RangeReader::RangeReader(const RangeReaderOptions& options)
    : method_("io_uring"), slots_(static_cast<size_t>(options.depth)) {
  NUMOE_CHECK_GT(options.depth, 0);
  if (options.io_uring) queue_ = MakeUringQueue(options.depth);
  if (queue_ == nullptr) {
    method_ = "threads";
    queue_ = MakeThreadQueue(options.depth);
  }
  for (int slot = options.depth - 1; slot >= 0; --slot) free_slots_.push_back(slot);
}

void RangeReader::Begin(InputFile& file, uint64_t offset, absl::Span<std::byte> out, size_t needed,
                        uint64_t tag) {
  NUMOE_CHECK(!free_slots_.empty()) << "more reads than the depth";
  NUMOE_CHECK(0 < needed && needed <= out.size());
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  ++in_flight_;
  slots_[static_cast<size_t>(slot)] = {
      .file = &file, .offset = offset, .out = out, .needed = needed, .tag = tag};
  Submit(slot);
}

void RangeReader::Submit(int slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  NUMOE_CHECK_LT(s.done, s.needed);
  s.direct = s.file->direct();
  queue_->Submit({.fd = s.file->fd(),
                  .offset = s.offset + s.done,
                  .out = s.out.data() + s.done,
                  .size = s.out.size() - s.done,
                  .slot = slot});
}

// Returns whether the read is finished; otherwise it must be submitted again.
bool RangeReader::Complete(Slot& s, int64_t result, absl::Status& status) {
  if (result == -EINTR || result == -EAGAIN) return false;
  if (result == -EINVAL && s.direct) {
    s.file->GiveUpDirect();
    return false;
  }
  if (result < 0) {
    status = absl::DataLossError(fmt::format(
        "{}: cannot read {} bytes at offset {}: {}; check the disk or the share on which it is",
        s.file->path().string(), s.out.size(), s.offset, std::strerror(static_cast<int>(-result))));
    return true;
  }
  s.done += static_cast<size_t>(result);
  NUMOE_CHECK_LE(s.done, s.out.size());
  if (s.done >= s.needed) return true;
  // A direct read ends within a block only at the end of the file.
  const bool at_end = result == 0 || (s.direct && s.done % kReadAlignment != 0);
  if (at_end) status = ShortReadError(s.file->path(), s.offset, s.done, s.needed);
  return at_end;
}

RangeReader::Done RangeReader::Await() {
  NUMOE_CHECK_GT(in_flight_, 0);
  while (true) {
    const ReadQueue::Result result = queue_->Wait();
    NUMOE_CHECK(0 <= result.slot && static_cast<size_t>(result.slot) < slots_.size()) << result.slot;
    Slot& s = slots_[static_cast<size_t>(result.slot)];
    Done done{.tag = s.tag, .status = absl::OkStatus()};
    if (!Complete(s, result.bytes, done.status)) {
      Submit(result.slot);
      continue;
    }
    if (!s.direct) s.file->DropCache(s.offset, s.out.size());
    free_slots_.push_back(result.slot);
    --in_flight_;
    NUMOE_CHECK_EQ(free_slots_.size() + static_cast<size_t>(in_flight_), slots_.size());
    return done;
  }
}

}  // namespace numoe
