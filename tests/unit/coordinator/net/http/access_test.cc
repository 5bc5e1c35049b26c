// API keys, where they come from, and how many requests a key may have.
#include "coordinator/net/http/access.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "gtest/gtest.h"
#include "tests/support/becomes.h"

namespace numoe::net {
namespace {

HttpRequest With(const std::string& name, const std::string& value) {
  HttpRequest request;
  request.headers = {{name, value}};
  return request;
}

absl::StatusCode CodeOf(Access& access, const HttpRequest& request) {
  return access.Enter(request).status().code();
}

TEST(AccessTest, WithoutKeysEverybodyMayEnter) {
  auto access = *Access::Create({});
  EXPECT_EQ(CodeOf(*access, {}), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(*access, With("authorization", "Bearer whatever")), absl::StatusCode::kOk);
}

TEST(AccessTest, AKeyMayComeInEitherHeaderAndMustBeComplete) {
  auto access = *Access::Create({.keys = {"alpha", "beta"}});
  for (const char* key : {"alpha", "beta"}) {
    EXPECT_EQ(CodeOf(*access, With("authorization", std::string("Bearer ") + key)), absl::StatusCode::kOk);
    EXPECT_EQ(CodeOf(*access, With("x-api-key", key)), absl::StatusCode::kOk);
  }
  for (const char* scheme : {"bearer alpha", "BEARER alpha", "bEaReR alpha", "Bearer  alpha"})
    EXPECT_EQ(CodeOf(*access, With("authorization", scheme)), absl::StatusCode::kOk) << scheme;
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer alph", "Bearer alphaa", "Bearer alpha ", "alpha",
                            "Bearer  ", "Basic alpha"})
    EXPECT_EQ(CodeOf(*access, With("authorization", wrong)), absl::StatusCode::kUnauthenticated) << wrong;
  EXPECT_EQ(CodeOf(*access, {}), absl::StatusCode::kUnauthenticated);
}

TEST(AccessTest, ARequestsSlotIsFreed) {
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

TEST(AccessTest, AKeyIsKnownOnlyByItsNumberAndName) {
  auto open = *Access::Create({});
  const Caller anybody = (*open->Enter(With("x-api-key", "whatever")))->caller();
  EXPECT_TRUE(anybody.tenant == 0 && anybody.admin && anybody.name.empty());
  auto access = *Access::Create({.keys = {"a", "b"}, .admin_keys = {"root"}});
  const auto caller = [&](const char* key) {
    return (*access->Enter(With("x-api-key", key), /*counted=*/false))->caller();
  };
  EXPECT_EQ(caller("a").name, "key-1");
  EXPECT_EQ(caller("b").tenant, 2);
  EXPECT_FALSE(caller("a").admin || caller("b").admin);
  EXPECT_TRUE(caller("root").admin);
}

// `wrong`: the rest of the message after the flag.
void ExpectRefused(AccessOptions options, const std::string& flag, const std::string& wrong) {
  const absl::Status status = Access::Create(std::move(options)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find(flag), std::string::npos) << status;
  EXPECT_NE(std::string(status.message()).find(wrong), std::string::npos) << status;
  EXPECT_EQ(std::string(status.message()).find("sesame"), std::string::npos)
      << "the message shows a key: " << status;
}

TEST(AccessTest, UnusableKeysAreRefused) {
  for (const char* key : {"", " ", "sesame ", "sesame open", "s\xc3\xa9same"})
    ExpectRefused({.keys = {"good", key}}, "--api-key", "empty");
  ExpectRefused({.keys = {"good"}, .admin_keys = {""}}, "--admin-api-key", "empty");
  ExpectRefused({.keys = {"sesame", "sesame"}}, "--api-key: ", "twice");
  ExpectRefused({.keys = {"sesame"}, .admin_keys = {"sesame"}}, "--api-key and --admin-api-key: ", "twice");
  ExpectRefused({.admin_keys = {"sesame"}}, "--admin-api-key without --api-key-file", "everybody");
}

class KeyFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("numoe_access_test." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& text) {
    std::ofstream(file()) << text;
    // Two writes within one tick of the clock look like one to a watcher.
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
}

// Waits until Enter returns this code: files are checked once a second.
bool AnswerBecomes(Access& access, const char* key, absl::StatusCode code) {
  return Becomes([&] { return CodeOf(access, With("x-api-key", key)) == code; });
}

TEST_F(KeyFileTest, AnEmptiedFileRevokesItsKeys) {
  Write("one\n");
  auto access = *Access::Create({.key_file = file()});
  Write("# nobody\n");
  EXPECT_TRUE(AnswerBecomes(*access, "one", absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(CodeOf(*access, {}), absl::StatusCode::kUnauthenticated)
      << "without keys nobody may use the server";
  EXPECT_EQ(CodeOf(*access, With("x-api-key", "")), absl::StatusCode::kUnauthenticated);
  Write("two\n");
  EXPECT_TRUE(AnswerBecomes(*access, "two", absl::StatusCode::kOk));
}

TEST_F(KeyFileTest, AMalformedOrMissingFileKeepsTheLastKeys) {
  Write("one\n");
  const std::filesystem::path admins = folder_ / "admins";
  std::ofstream(admins) << "root\n";
  auto access = *Access::Create({.key_file = file(), .admin_key_file = admins});
  Write("one weight=0\ntwo\n");
  std::ofstream(admins) << "root\nfurther\n";
  std::filesystem::last_write_time(admins,
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(100));
  EXPECT_TRUE(AnswerBecomes(*access, "further", absl::StatusCode::kOk)) << "both files have been read";
  EXPECT_EQ(CodeOf(*access, With("x-api-key", "one")), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(*access, With("x-api-key", "two")), absl::StatusCode::kUnauthenticated);
  std::filesystem::remove(file());
  std::ofstream(admins) << "root\n";
  std::filesystem::last_write_time(admins,
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(200));
  EXPECT_TRUE(AnswerBecomes(*access, "further", absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(CodeOf(*access, With("x-api-key", "one")), absl::StatusCode::kOk);
}

TEST(AccessTest, ARequestWithSeveralSequencesCountsAsSeveral) {
  auto access = *Access::Create({.keys = {"a", "b"}, .requests_per_key_max = 4});
  const auto enter = [&](const char* key) { return access->Enter(With("x-api-key", key)); };
  auto many = *enter("a");
  EXPECT_TRUE(many->Widen(3));
  EXPECT_TRUE(many->Widen(2)) << "the number may stay the same";
  auto other = *enter("a");
  EXPECT_FALSE(other->Widen(2));
  EXPECT_TRUE(other->Widen(1));
  EXPECT_FALSE(enter("a").ok());
  EXPECT_TRUE(enter("b").ok()) << "another key's request";
  many.reset();
  EXPECT_TRUE(other->Widen(4));
  EXPECT_FALSE(enter("a").ok());
  EXPECT_TRUE(other->Widen(128)) << "a large request may run alone, otherwise it could never be answered";
  other.reset();
  EXPECT_TRUE(enter("a").ok());
}

TEST_F(KeyFileTest, AKeyKeepsItsNumberWhichIsNeverReused) {
  Write("one name=team-a weight=3  # a comment\ntwo\n");
  auto access = *Access::Create({.key_file = file()});
  const auto caller = [&](const char* key) { return (*access->Enter(With("x-api-key", key)))->caller(); };
  const Caller one = caller("one"), two = caller("two");
  EXPECT_EQ(one.name, "team-a");
  EXPECT_EQ(one.weight, 3);
  EXPECT_EQ(two.name, "key-2");
  EXPECT_EQ(two.weight, 1);
  Write("three\ntwo weight=1000\n");
  ASSERT_TRUE(AnswerBecomes(*access, "three", absl::StatusCode::kOk));
  EXPECT_EQ(caller("two").tenant, two.tenant);
  EXPECT_EQ(caller("two").weight, 1000);
  EXPECT_GT(caller("three").tenant, two.tenant);
}

TEST_F(KeyFileTest, AKeyMovesBetweenFilesInAnyOrderOfWriting) {
  const std::filesystem::path admins = folder_ / "admins";
  const auto write_admins = [&](const std::string& text) { std::ofstream(admins) << text; };
  Write("one\ntwo\n");
  write_admins("boss\n");
  auto access = *Access::Create({.key_file = file(), .admin_key_file = admins});
  const auto caller = [&](const char* key) { return (*access->Enter(With("x-api-key", key)))->caller(); };
  const int boss = caller("boss").tenant;
  Write("one\nboss\nthree\n");  // the key is in both files: refused, and tried again later
  std::this_thread::sleep_for(std::chrono::milliseconds(1'100));
  EXPECT_EQ(CodeOf(*access, With("x-api-key", "two")), absl::StatusCode::kOk);
  write_admins("chief\n");
  ASSERT_TRUE(AnswerBecomes(*access, "three", absl::StatusCode::kOk))
      << "the file that was refused before is accepted now";
  EXPECT_EQ(CodeOf(*access, With("x-api-key", "two")), absl::StatusCode::kUnauthenticated);
  EXPECT_FALSE(caller("boss").admin);
  EXPECT_EQ(caller("boss").tenant, boss);
}

TEST_F(KeyFileTest, ATemporarilyMissingKeyKeepsItsNumber) {
  Write("one\ntwo\n");
  auto access = *Access::Create({.key_file = file()});
  const auto number = [&] { return (*access->Enter(With("x-api-key", "two")))->caller().tenant; };
  const int before = number();
  Write("");  // programs that write a file often truncate it first
  ASSERT_TRUE(AnswerBecomes(*access, "two", absl::StatusCode::kUnauthenticated));
  Write("two\none\n");
  ASSERT_TRUE(AnswerBecomes(*access, "two", absl::StatusCode::kOk));
  EXPECT_EQ(number(), before);
}

TEST_F(KeyFileTest, MalformedLinesAreRefusedWithTheirNumber) {
  for (const char* words :
       {"weight=0", "weight=1001", "weight=-1", "weight=", "weight=1.5", "name=", "name=a/b", "name=a,b",
        "admin", "sesame2", "name=a name=b", "name=a weight=2 name=a", "weight=2 weight=2"}) {
    Write(std::string("# keys\nsesame ") + words + "\n");
    ExpectRefused({.key_file = file()}, "--api-key-file", "line 2");
  }
  Write("a name=team\nb name=team\n");
  ExpectRefused({.key_file = file()}, "--api-key-file", "the name team");
  Write("a name=key-2\nb\n");
  ExpectRefused({.key_file = file()}, "--api-key-file: ",
                "line 1: a word after the key has a name that is reserved for keys without one");
  Write("sesame\n");
  ExpectRefused({.keys = {"sesame"}, .key_file = file()}, "--api-key and --api-key-file: ", "twice");
}

TEST_F(KeyFileTest, AFileWithoutKeysIsRefusedAtStart) {
  EXPECT_EQ(Access::Create({.key_file = file()}).status().code(), absl::StatusCode::kNotFound);
  for (const char* nothing :
       {"", "\n", " \t\r\n\n", "# nothing\n", "\xEF\xBB\xBF", "\xEF\xBB\xBF# nothing"}) {
    Write(nothing);
    ExpectRefused({.key_file = file()}, "--api-key-file", "no key");
  }
}

}  // namespace
}  // namespace numoe::net
