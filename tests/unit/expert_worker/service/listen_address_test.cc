// Addresses are refused before a model is loaded, and no file is lost to one.
#include "expert_worker/service/listen_address.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& address) {
  const absl::Status status = CheckListenAddress(address);
  EXPECT_FALSE(status.ok()) << address;
  return std::string(status.message());
}

int BindUnix(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

TEST(ListenAddressTest, WhatIsNoAddressIsRefused) {
  for (const char* address :
       {"nonsense", ":70", "localhost:", "localhost:seventy", "localhost:70000", "unix:"})
    EXPECT_THAT(Refusal(address), HasSubstr("--listen")) << address;
  EXPECT_THAT(Refusal("unix:/nowhere/at/all.sock"),
              HasSubstr("/nowhere/at: No such file or directory; expected a folder"));
}

TEST(ListenAddressTest, ATakenPortIsRefused) {
  EXPECT_TRUE(CheckListenAddress("127.0.0.1:0").ok());
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof any;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&any), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&any), &size), 0);
  EXPECT_THAT(Refusal("127.0.0.1:" + std::to_string(ntohs(any.sin_port))), HasSubstr("in use"));
  close(fd);
}

// A worker once took the file for a socket that a dead one had left, and removed it.
TEST(ListenAddressTest, AFileThatIsNoSocketStays) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "precious.txt").string();
  std::ofstream(path) << "text";
  EXPECT_THAT(Refusal("unix:" + path), HasSubstr("is no socket"));
  EXPECT_FALSE(ClearUnixPath(path).ok());
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(ListenAddressTest, ASocketIsTakenOverOnceNobodyServesIt) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "socket").string();
  EXPECT_TRUE(CheckListenAddress("unix:" + path).ok());
  const int fd = BindUnix(path);
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_THAT(Refusal("unix:" + path), HasSubstr("served by another process"));
  EXPECT_FALSE(ClearUnixPath(path).ok());
  close(fd);
  EXPECT_TRUE(CheckListenAddress("unix:" + path).ok());
  EXPECT_TRUE(std::filesystem::exists(path)) << "asking removes nothing";
  EXPECT_TRUE(ClearUnixPath(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace numoe
