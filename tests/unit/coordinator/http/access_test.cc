// Keys, where they come from, and how many requests one may have.
#include "coordinator/http/access.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include "gtest/gtest.h"

namespace numoe {
namespace {

HttpRequest With(const std::string& name, const std::string& value) {
  HttpRequest request;
  request.headers = {{name, value}};
  return request;
}

absl::StatusCode CodeOf(Access& access, const HttpRequest& request) {
  return access.Enter(request).status().code();
}

TEST(AccessTest, WithoutKeysEverybodyMay) {
  auto access = *Access::Create({});
  EXPECT_EQ(CodeOf(*access, {}), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(*access, With("authorization", "Bearer whatever")), absl::StatusCode::kOk);
}

TEST(AccessTest, AKeyIsBroughtInEitherWayAndWhole) {
  auto access = *Access::Create({.keys = {"alpha", "beta"}});
  for (const char* key : {"alpha", "beta"}) {
    EXPECT_EQ(CodeOf(*access, With("authorization", std::string("Bearer ") + key)), absl::StatusCode::kOk);
    EXPECT_EQ(CodeOf(*access, With("x-api-key", key)), absl::StatusCode::kOk);
  }
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer alph", "Bearer alphaa", "Bearer alpha ", "alpha",
                            "bearer alpha", "Basic alpha"})
    EXPECT_EQ(CodeOf(*access, With("authorization", wrong)), absl::StatusCode::kUnauthenticated) << wrong;
  EXPECT_EQ(CodeOf(*access, {}), absl::StatusCode::kUnauthenticated);
}

TEST(AccessTest, ARequestsPlaceIsGivenBack) {
  auto access = *Access::Create({.keys = {"a", "b"}, .requests_per_key_max = 2});
  const HttpRequest a = With("x-api-key", "a"), b = With("x-api-key", "b");
  auto first = access->Enter(a), second = access->Enter(a);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(CodeOf(*access, a), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf(*access, b), absl::StatusCode::kOk) << "another key's requests do not count";
  EXPECT_TRUE(access->Enter(a, /*counted=*/false).ok());
  EXPECT_EQ(access->Enter(With("x-api-key", "c"), /*counted=*/false).status().code(),
            absl::StatusCode::kUnauthenticated);
  first->reset();
  EXPECT_EQ(CodeOf(*access, a), absl::StatusCode::kOk);
}

class KeyFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "numoe_access_test";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& text) {
    std::ofstream(file()) << text;
    // Two writes within a tick of the clock are one to a watcher.
    std::filesystem::last_write_time(
        file(), std::filesystem::file_time_type::clock::now() + std::chrono::seconds(++writes_));
  }
  std::filesystem::path file() const { return folder_ / "keys"; }

  std::filesystem::path folder_;
  int writes_ = 0;
};

TEST_F(KeyFileTest, KeysOfAFileAreReadAgainWhenItChanges) {
  Write("# comment\n\n  one \r\ntwo\n");
  auto access = *Access::Create({.keys = {"flag"}, .key_file = file()});
  for (const char* key : {"one", "two", "flag"})
    EXPECT_EQ(CodeOf(*access, With("x-api-key", key)), absl::StatusCode::kOk) << key;
  EXPECT_EQ(CodeOf(*access, With("x-api-key", "# comment")), absl::StatusCode::kUnauthenticated);
  Write("three\n");
  const auto await = [&](const char* key) {
    for (int tries = 0; tries < 100; ++tries) {
      if (CodeOf(*access, With("x-api-key", key)) == absl::StatusCode::kOk) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  };
  EXPECT_TRUE(await("three"));
  EXPECT_EQ(CodeOf(*access, With("x-api-key", "one")), absl::StatusCode::kUnauthenticated);
  Write("\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_TRUE(await("three")) << "a broken file leaves the keys as they were";
}

TEST_F(KeyFileTest, AFileWithoutKeysIsRefusedAtStart) {
  EXPECT_EQ(Access::Create({.key_file = file()}).status().code(), absl::StatusCode::kInvalidArgument);
  Write("# nothing\n");
  EXPECT_EQ(Access::Create({.key_file = file()}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace numoe
