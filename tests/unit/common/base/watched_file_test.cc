// What counts as a change, including one that leaves the time of modification unchanged.
#include "common/base/watched_file.h"

#include <fstream>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace numoe {
namespace {

namespace fs = std::filesystem;

void Write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

// It checks at most once a second.
bool ChangesSoon(WatchedFile& file) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  return file.Changed();
}

TEST(WatchedFileTest, AnotherFileOfTheSameTimeAndSizeIsAChange) {
  const fs::path folder = fs::path(::testing::TempDir()) / "numoe_watched_file_test";
  fs::create_directories(folder);
  const fs::path path = folder / "keys", next = folder / "next";
  Write(path, "first");
  WatchedFile file(path);
  EXPECT_FALSE(ChangesSoon(file));
  const auto time = fs::last_write_time(path);
  Write(next, "other");
  fs::last_write_time(next, time);  // as cp -p and some deployment tools keep it
  fs::rename(next, path);
  EXPECT_TRUE(ChangesSoon(file));
  EXPECT_FALSE(ChangesSoon(file)) << "once";
  Write(path, "third");
  fs::last_write_time(path, time);
  EXPECT_TRUE(ChangesSoon(file)) << "written in place";
  fs::remove(path);
  EXPECT_FALSE(ChangesSoon(file));
  EXPECT_TRUE(file.missing());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace numoe
