// Real processes that reserve memory at the same time: what each of them finds, and which files they ignore.
// The memory and cgroups of the machine are invented; the processes are real and read from /proc.
#include "common/topology/host_memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMib = 1 << 20;
constexpr uint64_t kGib = 1 << 30;

class HostMemoryTest : public ::testing::Test {
 protected:
  HostMemoryTest() {
    fs::create_directories(root() / "proc/self");
    for (const char* const name : {"stat", "status", "ns"})
      fs::create_symlink(fs::path("/proc/self") / name, root() / "proc/self" / name);
    folder_.WriteLine("proc/meminfo", "MemAvailable: 10485760 kB");
  }
  ~HostMemoryTest() override {
    while (!children_.empty()) End(children_.begin()->first);
  }
  fs::path root() const { return folder_.path(); }
  std::string reservations() const { return (folder_.path() / "reservations").string(); }
  absl::StatusOr<HostMemory> ReadReservations() {
    return HostMemory::ReadReservations(reservations(), root());
  }
  uint64_t Available() {
    const absl::StatusOr<HostMemory> memory = ReadReservations();
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.ok() ? memory->available() : 0;
  }

  // Runs `body` in a process of its own, which then waits until it is killed; it ends with exit code 1 if the
  // body returns false.
  pid_t Launch(const std::function<bool()>& body) {
    int ready[2];
    EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
      const bool good = body();
      if (!good || write(ready[1], "+", 1) != 1) _exit(1);
      for (;;) pause();
    }
    close(ready[1]);
    children_[child] = ready[0];
    return child;
  }
  // Returns once the body has ended.
  void AwaitBody(pid_t child) {
    char byte = 0;
    EXPECT_EQ(read(children_[child], &byte, 1), 1) << "process " << child << " failed";
  }
  // Starts a process that others find below root().
  pid_t Start(const std::function<bool()>& body) {
    const pid_t child = Launch(body);
    AwaitBody(child);
    const std::string folder = "proc/" + std::to_string(child);
    fs::create_directories(root() / folder);
    for (const char* const name : {"stat", "status"})
      fs::create_symlink(fs::path("/") / folder / name, root() / folder / name);
    return child;
  }
  pid_t StartReserving(
      uint64_t bytes, const std::function<void()>& then = [] {}, PromisedMemory kind = PromisedMemory::kAll) {
    return Start([&] {
      const absl::StatusOr<HostMemory> memory = ReadReservations();
      if (!memory.ok()) return false;
      static absl::StatusOr<MemoryReservation> reservation = MemoryReservation();
      reservation = memory->Reserve("test-process", bytes, kind);
      then();
      return reservation.ok();
    });
  }
  void End(pid_t child) {
    kill(child, SIGKILL);
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
    close(children_[child]);
    children_.erase(child);
  }
  // Returns the names of the files in the folder.
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(reservations())) names.push_back(entry.path().filename());
    return names;
  }
  // Writes a file that looks like the child's reservation, and locks it in this process.
  int Forge(const std::string& name, const std::string& text) {
    const int file = open((fs::path(reservations()) / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(flock(file, LOCK_EX | LOCK_NB), 0);
    EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return file;
  }

  TemporaryFolder folder_;

 private:
  std::map<pid_t, int> children_;  // each with the pipe through which it reports that it is ready
};

TEST_F(HostMemoryTest, AProcessAloneHasAllMemory) {
  const absl::StatusOr<HostMemory> memory = ReadReservations();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->available(), 10 * kGib);
  EXPECT_EQ(memory->Others(), "");
  struct stat info {};
  ASSERT_EQ(stat(reservations().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
}

TEST_F(HostMemoryTest, TheSecondProcessFindsWhatTheFirstWillTake) {
  const pid_t first = StartReserving(4 * kGib);
  {
    const absl::StatusOr<HostMemory> memory = ReadReservations();
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_NEAR(static_cast<double>(memory->available()), 6.0 * kGib, 64.0 * kMib);
    ASSERT_EQ(memory->others().size(), 1u);
    EXPECT_EQ(memory->others()[0].process, first);
    EXPECT_THAT(memory->Others(), HasSubstr("of 10.00 GiB that are free "));
    EXPECT_THAT(memory->Others(),
                HasSubstr(" are reserved by test-process, process " + std::to_string(first)));
  }
  const pid_t second = StartReserving(3 * kGib);
  EXPECT_NEAR(static_cast<double>(Available()), 3.0 * kGib, 128.0 * kMib);
  End(first);
  EXPECT_NEAR(static_cast<double>(Available()), 7.0 * kGib, 64.0 * kMib) << "the first one is dead";
  EXPECT_EQ(Files().size(), 1u) << "its file was removed";
  End(second);
  EXPECT_EQ(Available(), 10 * kGib);
}

// The bytes of private memory, and of shared memory, that a process of a test allocates.
constexpr size_t kTouched = 256 * kMib;
void TouchBothKinds() {
  for (const int kind : {MAP_PRIVATE, MAP_SHARED}) {
    void* const memory = mmap(nullptr, kTouched, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) std::memset(memory, 1, kTouched);
  }
}

TEST_F(HostMemoryTest, MemoryThatIsHeldAlreadyIsNotWithheldAgain) {
  StartReserving(kGib, TouchBothKinds);
  EXPECT_NEAR(static_cast<double>(10 * kGib - Available()), static_cast<double>(kGib - 2 * kTouched),
              64.0 * kMib);
}

TEST_F(HostMemoryTest, SharedMemoryDoesNotCountForAReservationOfPrivateMemory) {
  StartReserving(kGib, TouchBothKinds, PromisedMemory::kPrivate);
  EXPECT_NEAR(static_cast<double>(10 * kGib - Available()), static_cast<double>(kGib - kTouched), 64.0 * kMib)
      << "a worker has reserved the mailboxes that a coordinator maps";
}

TEST_F(HostMemoryTest, AProcessHiddenByProcWithholdsItsWholeReservation) {
  const pid_t hidden = StartReserving(4 * kGib);
  fs::remove_all(root() / "proc" / std::to_string(hidden));
  EXPECT_NEAR(static_cast<double>(Available()), 6.0 * kGib, 64.0 * kMib)
      << "it is not known how much the process holds";
  End(hidden);
  EXPECT_EQ(Available(), 10 * kGib);
}

TEST_F(HostMemoryTest, AReservationEndsWithItsOwner) {
  const absl::StatusOr<HostMemory> memory = ReadReservations();
  ASSERT_TRUE(memory.ok()) << memory.status();
  {
    absl::StatusOr<MemoryReservation> reservation =
        memory->Reserve("test-process", kGib, PromisedMemory::kAll);
    ASSERT_TRUE(reservation.ok()) << reservation.status();
    EXPECT_EQ(Files().size(), 1u);
    EXPECT_FALSE(memory->Reserve("test-process", kGib, PromisedMemory::kAll).ok())
        << "a process can have one reservation";
    EXPECT_EQ(Files().size(), 1u);
    MemoryReservation kept;
    kept = *std::move(reservation);
    EXPECT_EQ(Files().size(), 1u);
  }
  EXPECT_TRUE(Files().empty());
}

TEST_F(HostMemoryTest, ProcessesThatStartAtOnceReserveOnlyWhatFits) {
  constexpr size_t kFit = 3;
  std::vector<pid_t> processes;
  for (int i = 0; i < 16; ++i) {
    processes.push_back(Launch([&] {
      static MemoryReservation reservation;
      const absl::StatusOr<HostMemory> memory =
          HostMemory::ReadReservations(reservations());  // the memory of the real machine
      if (!memory.ok() || memory->others().size() >= kFit) return memory.ok();
      absl::StatusOr<MemoryReservation> reserved =
          memory->Reserve("test-process", 3 * kGib, PromisedMemory::kAll);
      if (reserved.ok()) reservation = *std::move(reserved);
      return reserved.ok();
    }));
  }
  for (const pid_t process : processes) AwaitBody(process);
  EXPECT_EQ(Files().size(), kFit);
}

TEST_F(HostMemoryTest, OneProcessAtATimeReadsTheReservations) {
  int order[2], begin[2];
  ASSERT_EQ(pipe2(order, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(begin, O_CLOEXEC), 0);
  // Start the child first, because a later one would inherit the lock from its parent.
  const pid_t waiting = Launch([&] {
    char byte = 0;
    return read(begin[0], &byte, 1) == 1 && ReadReservations().ok() && write(order[1], "second", 6) == 6;
  });
  {
    const absl::StatusOr<HostMemory> memory = ReadReservations();
    ASSERT_TRUE(memory.ok()) << memory.status();
    ASSERT_EQ(write(begin[1], "+", 1), 1);
    constexpr std::chrono::milliseconds kTimeForAnError{50};
    std::this_thread::sleep_for(kTimeForAnError);
    ASSERT_EQ(write(order[1], "first ", 6), 6);
  }
  AwaitBody(waiting);
  char said[13] = {};
  ASSERT_EQ(read(order[0], said, 12), 12);
  EXPECT_STREQ(said, "first second");
  for (const int end : {order[0], order[1], begin[0], begin[1]}) close(end);
}

TEST_F(HostMemoryTest, InvalidFilesAreIgnored) {
  const pid_t child = StartReserving(kGib);
  const std::string real = Files().at(0);
  const uint64_t expected = Available();
  const std::string pid = std::to_string(child);
  const std::string pid_namespace = real.substr(0, real.find('-'));
  const std::string start = real.substr(real.rfind('-') + 1);
  std::vector<int> forged;
  for (const std::string& name : std::vector<std::string>{
           "notes.txt", "1-2", "1-2-3-4", "+1-2-3", pid_namespace + "-0" + pid + "-" + start,
           pid_namespace + "-" + pid + "-" + start + "0", pid_namespace + "-99999999999-1",
           "99999999999999999999-1-1", "1-" + pid + "-" + start}) {
    forged.push_back(Forge(name, "liar 1000000\n"));
    EXPECT_EQ(Available(), expected) << name;
  }
  ASSERT_EQ(mkfifo((reservations() + "/1-1-1").c_str(), 0600), 0);
  ASSERT_EQ(symlink("/etc/passwd", (reservations() + "/" + pid_namespace + "-1-1").c_str()), 0);
  ASSERT_EQ(mkdir((reservations() + "/" + pid_namespace + "-2-2").c_str(), 0700), 0);
  EXPECT_EQ(Available(), expected);
  for (const int file : forged) close(file);
}

TEST_F(HostMemoryTest, TheTextOfAReservationIsParsedStrictly) {
  const pid_t child = Start([] { return true; });
  ASSERT_TRUE(ReadReservations().ok());  // creates the folder
  struct stat own {};
  ASSERT_EQ(stat("/proc/self/ns/pid", &own), 0);
  std::ifstream stat_file(root() / "proc" / std::to_string(child) / "stat");
  std::string start;
  for (int i = 0; i < 22; ++i) stat_file >> start;  // the program's name contains no spaces
  const std::string name = std::to_string(own.st_ino) + "-" + std::to_string(child) + "-" + start;
  const auto withheld = [&](const std::string& text) {
    const int file = Forge(name, text);
    const uint64_t bytes = 10 * kGib - Available();
    close(file);
    fs::remove(fs::path(reservations()) / name);
    return bytes;
  };
  EXPECT_GT(withheld("p 4294967296 all\n"), 3 * kGib) << "4 GiB minus what a small process holds";
  for (const std::string& text : std::vector<std::string>{
           "", "\n", "p\n", "p 4294967296\n", "p 4294967296 all", "p 4294967296 some\n", "p -1 all\n",
           "p 4294967296 all \n", "p  4294967296 all\n", "p 4294967296 \n", "p 0x7fffffffff all\n",
           "p 1e12 all\n", "p 18446744073709551616 all\n", "p 18446744073709551615 all\n",
           " 4294967296 all\n", "a/b 4294967296 all\n", "p 4294967296 all\np 4294967296 all\n",
           std::string(65, 'p') + " 4294967296 all\n", "p " + std::string(200, '0') + "4294967296 all\n"})
    EXPECT_EQ(withheld(text), 0u) << text;
}

TEST_F(HostMemoryTest, AFileWithoutALockIsRemoved) {
  ASSERT_TRUE(ReadReservations().ok());
  close(Forge("1-2-3", "test-process 4294967296 all\n"));
  EXPECT_EQ(Available(), 10 * kGib);
  EXPECT_TRUE(Files().empty());
}

TEST_F(HostMemoryTest, AFolderThatOthersMayUseIsRefused) {
  fs::create_directories(reservations());
  ASSERT_EQ(chmod(reservations().c_str(), 0755), 0);
  absl::Status status = ReadReservations().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("with mode 755, expected user"));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("name a folder that is used for nothing else"),
                                                   HasSubstr("chmod 700"), Not(HasSubstr("remove it"))));
  fs::remove(reservations());
  fs::create_directories(root() / "elsewhere");
  ASSERT_EQ(chmod((root() / "elsewhere").c_str(), 0700), 0);
  fs::create_symlink(root() / "elsewhere", reservations());
  status = ReadReservations().status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected a folder, not a link to one"));
  fs::remove(reservations());
  folder_.WriteLine("reservations", "a file");
  EXPECT_FALSE(ReadReservations().ok());
  EXPECT_FALSE(HostMemory::ReadReservations((root() / "missing/folder").string(), root()).ok());
  EXPECT_EQ(HostMemory::ReadReservations("", root()).status().message(),
            "--memory-reservations: found no value, expected auto or a folder");
}

TEST_F(HostMemoryTest, ACgroupsLimitIsSharedByTheProcessesInIt) {
  folder_.WriteLine("proc/self/cgroup", "0::/numoe.slice/coordinator.service");
  folder_.WriteLine("sys/fs/cgroup/numoe.slice/coordinator.service/memory.max", std::to_string(3 * kGib));
  folder_.WriteLine("sys/fs/cgroup/numoe.slice/coordinator.service/memory.current", "0");
  const pid_t worker = StartReserving(6 * kGib);
  const std::string group = "proc/" + std::to_string(worker) + "/cgroup";
  folder_.WriteLine(group, "0::/numoe.slice/worker.service");
  EXPECT_EQ(Available(), 3 * kGib) << "the worker has a group of its own, and the machine is large enough";
  folder_.WriteLine(group, "0::/numoe.slice/coordinator.service/part");
  EXPECT_EQ(Available(), 0u);
  folder_.WriteLine(group, "0::/numoe.slice/coordinator.service2");
  EXPECT_EQ(Available(), 3 * kGib) << "a longer name is another group";
  folder_.WriteLine("sys/fs/cgroup/numoe.slice/memory.max", std::to_string(8 * kGib));
  folder_.WriteLine("sys/fs/cgroup/numoe.slice/memory.current", "0");
  EXPECT_NEAR(static_cast<double>(Available()), 2.0 * kGib, 64.0 * kMib) << "both processes are in the slice";
  folder_.WriteLine("proc/meminfo", "MemAvailable: 7340032 kB");
  EXPECT_NEAR(static_cast<double>(Available()), 1.0 * kGib, 64.0 * kMib)
      << "both processes are on the machine";
}

TEST(HostMemoryOfThisHostTest, TheDefaultFolderCanBeUsed) {
  const absl::StatusOr<HostMemory> memory = HostMemory::ReadReservations("auto");
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_LE(memory->others().size(), 1024u);
}

}  // namespace
}  // namespace numoe
