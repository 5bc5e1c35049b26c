#include "expert_worker/supervisor/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/base/check.h"

namespace numoe::worker {
namespace {

constexpr std::string_view kVariables = "NUMOE_SUPERVISOR_";
constexpr const char* kPipeVariable = "NUMOE_SUPERVISOR_PIPE";
constexpr const char* kEndedVariable = "NUMOE_SUPERVISOR_ENDED";
constexpr const char* kHungVariable = "NUMOE_SUPERVISOR_HUNG";
constexpr std::string_view kProgress = "progress ";  // begins a line, and a number follows
constexpr std::string_view kFinal = "final";         // a line that comes before the report's text
constexpr std::chrono::seconds kProgressEvery{1};
constexpr size_t kReportBytesMax = 4096;  // written to a pipe in one piece, never split (POSIX)
constexpr size_t kUnreadBytesMax = 16 * kReportBytesMax;  // what a child writes beyond this is not read
static_assert(kReportBytesMax <= PIPE_BUF && kReportBytesMax < kUnreadBytesMax);
constexpr int kExecFailed = 127;  // as in a shell

using CpuSet = std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)>;
constexpr int kCpusMax = 8192;  // the kernel's largest configuration

CpuSet MakeCpuSet(const std::vector<int>& cpus) {
  CpuSet set(CPU_ALLOC(kCpusMax), [](cpu_set_t* s) { CPU_FREE(s); });
  CPU_ZERO_S(CPU_ALLOC_SIZE(kCpusMax), set.get());
  for (const int cpu : cpus) {
    NUMOE_CHECK(0 <= cpu && cpu < kCpusMax);
    CPU_SET_S(static_cast<size_t>(cpu), CPU_ALLOC_SIZE(kCpusMax), set.get());
  }
  return set;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(int pipe, const Restarts& restarts) {
  std::vector<std::string> variables = {fmt::format("{}={}", kPipeVariable, pipe),
                                        fmt::format("{}={}", kEndedVariable, restarts.ended),
                                        fmt::format("{}={}", kHungVariable, restarts.hung)};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).rfind(kVariables, 0) != 0) variables.emplace_back(*variable);
  }
  return variables;
}

std::optional<int> NumberIn(const char* variable) {
  const char* const text = std::getenv(variable);
  int number = -1;
  if (text == nullptr || std::from_chars(text, text + std::strlen(text), number).ec != std::errc())
    return std::nullopt;
  return number;
}

// Runs in the child after fork. The parent may have had many threads, so only async-signal-safe calls are
// allowed.
[[noreturn]] void Become(const char* program, char* const* arguments, char* const* environment,
                         const cpu_set_t* cpus, int pipe, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kExecFailed);  // the parent ended before prctl was called
  // If the kernel refuses, the child finds its CPUs by its flags.
  sched_setaffinity(0, CPU_ALLOC_SIZE(kCpusMax), cpus);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  fcntl(pipe, F_SETFD, 0);
  execve(program, arguments, environment);
  _exit(kExecFailed);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::string& program,
                                                                  const std::vector<std::string>& arguments,
                                                                  const std::vector<int>& cpus,
                                                                  const Restarts& restarts) {
  NUMOE_CHECK(!program.empty() && restarts.ended >= 0 && restarts.hung >= 0);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return absl::ResourceExhaustedError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  std::vector<std::string> texts = {program};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = EnvironmentWith(ends[1], restarts);
  const std::vector<char*> argv = Pointers(texts), environment = Pointers(variables);
  const CpuSet set = MakeCpuSet(cpus);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Become(program.c_str(), argv.data(), environment.data(), set.get(), ends[1], parent);
  const int why = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return absl::ResourceExhaustedError(fmt::format("cannot start a process: {}", std::strerror(why)));
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, ends[0]));
}

ChildProcess::~ChildProcess() { close(pipe_); }

void ChildProcess::Signal(int signal) const {
  NUMOE_CHECK_GT(pid_, 0) << "or the signal would go to a whole group of processes";
  kill(pid_, signal);
}

// Reads the pipe and removes whole lines of progress and the line "final" from `unread_`; the report remains.
void ChildProcess::Read() {
  std::array<char, kReportBytesMax> piece;
  ssize_t bytes = 0;
  while (unread_.size() < kUnreadBytesMax && (bytes = read(pipe_, piece.data(), piece.size())) > 0)
    unread_.append(piece.data(), static_cast<size_t>(bytes));
  NUMOE_CHECK_LT(unread_.size(), kUnreadBytesMax + piece.size());
  for (size_t begin = 0, end = 0; (end = unread_.find('\n', begin)) != std::string::npos;) {
    const std::string_view line(unread_.data() + begin, end - begin);
    uint64_t number = 0;
    if (line.rfind(kProgress, 0) == 0 &&
        std::from_chars(line.data() + kProgress.size(), line.data() + line.size(), number).ec ==
            std::errc()) {
      progress_ = number;
      unread_.erase(begin, end + 1 - begin);
    } else if (line == kFinal) {
      final_ = true;
      unread_.erase(begin, end + 1 - begin);
    } else {
      begin = end + 1;
    }
  }
}

uint64_t ChildProcess::Progress() {
  Read();
  return progress_;
}

std::string ChildProcess::FinalReport() {
  Read();
  return unread_.substr(0, kReportBytesMax);
}

std::string DescribeEnd(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return fmt::format("signal {} ({})", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

namespace {

bool WriteToSupervisor(const std::string& text) {
  const std::optional<int> pipe = NumberIn(kPipeVariable);
  return pipe && write(*pipe, text.data(), std::min(text.size(), kReportBytesMax)) > 0;
}

}  // namespace

bool ReportToSupervisor(const std::string& line, bool final) {
  return WriteToSupervisor(final ? fmt::format("{}\n{}", kFinal, line) : line);
}

std::optional<Restarts> RestartsBySupervisor() {
  const std::optional<int> ended = NumberIn(kEndedVariable), hung = NumberIn(kHungVariable);
  if (!ended || !hung) return std::nullopt;
  return Restarts{.ended = *ended, .hung = *hung};
}

ProgressReport::ProgressReport(std::function<uint64_t()> bytes) {
  if (!NumberIn(kPipeVariable)) return;
  NUMOE_CHECK(bytes != nullptr);
  thread_ = std::thread([this, bytes = std::move(bytes)] {
    pthread_setname_np(pthread_self(), "progress");
    const MutexLock lock(mutex_);
    do {
      WriteToSupervisor(fmt::format("{}{}\n", kProgress, bytes()));
      const auto next_report = std::chrono::steady_clock::now() + kProgressEvery;
      while (!stop_ && wake_.WaitUntil(mutex_, next_report)) {
      }
    } while (!stop_);
  });
}

ProgressReport::~ProgressReport() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

}  // namespace numoe::worker
