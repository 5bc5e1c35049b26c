// Numbered: a file with known bytes, for tests of code that reads ranges of files.
//
// The file is deleted with the object. ExpectReads reads it with a queue, with the most reads in flight that
// the queue allows, and checks each byte. Failures are reported through GoogleTest.
#pragma once

#include <fcntl.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/file_descriptor.h"
#include "common/weights/range_reader.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {

// A file with known bytes, and reads of it.
struct Numbered {
  Numbered() : path(folder.path() / "f") {
    std::string content(100'000, 0);
    for (size_t i = 0; i < content.size(); ++i) content[i] = At(i);
    std::ofstream(path, std::ios::binary) << content;
    fd = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  static char At(uint64_t i) { return static_cast<char>(i * 7 + i / 256); }
  TemporaryFolder folder;
  const std::filesystem::path path;
  FileDescriptor fd;
};

inline void ExpectReads(ReadQueue& queue, int depth) {
  const Numbered file;
  constexpr size_t kSize = 997;
  std::vector<std::vector<std::byte>> buffers(static_cast<size_t>(depth), std::vector<std::byte>(kSize));
  std::vector<uint64_t> offsets(static_cast<size_t>(depth));
  int submitted = 0, in_flight = 0;
  const auto submit = [&](int slot) {
    offsets[static_cast<size_t>(slot)] = static_cast<uint64_t>(submitted++) * 911 % 99'000;
    queue.Submit({.fd = file.fd.get(),
                  .offset = offsets[static_cast<size_t>(slot)],
                  .out = buffers[static_cast<size_t>(slot)].data(),
                  .size = kSize,
                  .slot = slot});
    ++in_flight;
  };
  for (int slot = 0; slot < depth; ++slot) submit(slot);
  while (in_flight > 0) {
    const ReadQueue::Result result = queue.Wait();
    --in_flight;
    const auto slot = static_cast<size_t>(result.slot);
    ASSERT_EQ(result.bytes, static_cast<int64_t>(kSize));
    for (size_t i = 0; i < kSize; ++i)
      ASSERT_EQ(static_cast<char>(buffers[slot][i]), Numbered::At(offsets[slot] + i));
    if (submitted < 200) submit(result.slot);
  }
}

/// Bytes beyond the end do not exist, and reading something that is not a file is an error, not a crash.
inline void ExpectErrors(ReadQueue& queue) {
  const Numbered file;
  std::vector<std::byte> out(100);
  queue.Submit({.fd = file.fd.get(), .offset = 99'990, .out = out.data(), .size = out.size(), .slot = 3});
  ReadQueue::Result result = queue.Wait();
  EXPECT_EQ(result.slot, 3);
  EXPECT_EQ(result.bytes, 10);
  queue.Submit({.fd = file.fd.get(), .offset = 200'000, .out = out.data(), .size = out.size(), .slot = 1});
  EXPECT_EQ(queue.Wait().bytes, 0);
  queue.Submit({.fd = -1, .offset = 0, .out = out.data(), .size = out.size(), .slot = 2});
  result = queue.Wait();
  EXPECT_EQ(result.slot, 2);
  EXPECT_EQ(result.bytes, -EBADF);
}

}  // namespace numoe
