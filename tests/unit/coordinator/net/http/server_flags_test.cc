// Flags of servers: missing values, pairs that belong together, and the file of the port.
#include "coordinator/net/http/server_flags.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/base/parsed_flags.h"

namespace numoe::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ServerWords {
  ParsedFlags Parse(const std::vector<std::string>& words) {
    Flags flags("server", "");
    AddServerFlags(flags, {server, access, port_file});
    return ParseWords(flags, words);
  }
  ServerOptions server;
  AccessOptions access;
  std::string port_file;
};

TEST(ServerFlagsTest, FlagsAreRead) {
  ServerWords words;
  const ParsedFlags parsed = words.Parse({"--host=::1", "--port=0", "--port-file=p", "--api-key=a,b",
                                          "--admin-api-key=c", "--max-requests-per-key=3",
                                          "--max-connections=7", "--allowed-origins=https://x.y,https://z"});
  EXPECT_EQ(parsed.code, -1) << parsed.error;
  EXPECT_EQ(words.server.host, "::1");
  EXPECT_EQ(words.server.port, 0);
  EXPECT_EQ(words.port_file, "p");
  EXPECT_THAT(words.access.keys, ElementsAre("a", "b"));
  EXPECT_THAT(words.access.admin_keys, ElementsAre("c"));
  EXPECT_EQ(words.access.requests_per_key_max, 3);
  EXPECT_EQ(words.server.connections_max, 7);
  EXPECT_THAT(words.server.allowed_origins, ElementsAre("https://x.y", "https://z"));
}

TEST(ServerFlagsTest, AnUnsetVariableDoesNotOpenThePort) {
  for (const char* flag : {"--api-key", "--api-key-file", "--admin-api-key", "--admin-api-key-file"}) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{std::string(flag) + "="}, {flag, " "}, {flag, "--port=0"}, {flag}}) {
      const ParsedFlags parsed = ServerWords().Parse(words);
      EXPECT_NE(parsed.code, -1) << flag << " " << words.back();
      EXPECT_THAT(parsed.error, HasSubstr(flag)) << words.back();
    }
  }
}

TEST(ServerFlagsTest, NumbersHaveLimits) {
  for (const char* word : {"--port=65536", "--port=-1", "--max-connections=0", "--max-requests-per-key=-1"})
    EXPECT_NE(ServerWords().Parse({word}).code, -1) << word;
}

TEST(ServerFlagsTest, CertificateAndKeyBelongTogether) {
  EXPECT_TRUE(CheckServerFlags({}).ok());
  EXPECT_TRUE(CheckServerFlags({.tls_certificate = "c", .tls_key = "k"}).ok());
  EXPECT_THAT(CheckServerFlags({.tls_certificate = "c"}).ToString(),
              HasSubstr("--ssl-certfile is given without --ssl-keyfile"));
  EXPECT_THAT(CheckServerFlags({.tls_key = "k"}).ToString(),
              HasSubstr("--ssl-keyfile is given without --ssl-certfile"));
}

TEST(ServerFlagsTest, ALimitForEachKeyNeedsKeys) {
  const auto refusal = [](const std::vector<std::string>& words) {
    ServerWords server;
    Flags flags("server", "");
    AddServerFlags(flags, {server.server, server.access, server.port_file});
    EXPECT_EQ(ParseWords(flags, words).code, -1);
    UnusedFlags unused(flags);
    FindUnusedServerFlags(server.access, unused);
    return std::string(unused.refusal().message());
  };
  EXPECT_THAT(refusal({"--max-requests-per-key=3"}),
              HasSubstr("--max-requests-per-key does nothing without API keys"));
  EXPECT_EQ(refusal({"--max-requests-per-key=0"}), "") << "no limit";
  EXPECT_EQ(refusal({"--max-requests-per-key=3", "--api-key=a"}), "");
  EXPECT_EQ(refusal({"--max-requests-per-key=3", "--api-key-file=f"}), "");
}

class PortFileTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  const std::filesystem::path folder_ = std::filesystem::path(::testing::TempDir()) / "numoe_port_file_test";
};

TEST_F(PortFileTest, ThePortIsWrittenAndNoOtherFileIsLeft) {
  const std::string path = folder_ / "port";
  EXPECT_TRUE(CheckPortFile(path).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "asking leaves nothing behind";
  EXPECT_TRUE(WritePort(path, 8080).ok());
  EXPECT_TRUE(WritePort(path, 9090).ok());
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, "9090\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(PortFileTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_TRUE(CheckPortFile("").ok());
  EXPECT_TRUE(WritePort("", 1).ok());
  const std::string missing = folder_ / "no" / "port";
  EXPECT_THAT(CheckPortFile(missing).ToString(), HasSubstr("cannot write " + missing));
  EXPECT_THAT(WritePort(missing, 1).ToString(), HasSubstr("cannot write " + missing));
  EXPECT_THAT(CheckPortFile(folder_).ToString(), HasSubstr("it is a folder"));
}

}  // namespace
}  // namespace numoe::net
