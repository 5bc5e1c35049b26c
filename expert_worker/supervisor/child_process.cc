#include "expert_worker/supervisor/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace numoe {
namespace {

constexpr const char* kPipeVariable = "NUMOE_SUPERVISOR_PIPE";
constexpr size_t kWordsBytesMax = 4096;  // what a pipe takes at once, whoever reads (POSIX)
constexpr int kExecFailed = 127;         // as a shell says it

using CpuSet = std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)>;
constexpr int kCpusMax = 8192;  // the kernel's largest configuration

CpuSet MakeCpuSet(const std::vector<int>& cpus) {
  CpuSet set(CPU_ALLOC(kCpusMax), [](cpu_set_t* s) { CPU_FREE(s); });
  CPU_ZERO_S(CPU_ALLOC_SIZE(kCpusMax), set.get());
  for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), CPU_ALLOC_SIZE(kCpusMax), set.get());
  return set;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(int pipe) {
  std::vector<std::string> variables = {fmt::format("{}={}", kPipeVariable, pipe)};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, kPipeVariable, std::strlen(kPipeVariable)) != 0)
      variables.emplace_back(*variable);
  }
  return variables;
}

// In the child, which has one thread of possibly many: async-signal-safe calls only.
[[noreturn]] void Become(const char* program, char* const* arguments, char* const* environment,
                         const cpu_set_t* cpus, int words, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kExecFailed);  // it has ended before the line above
  // Where the kernel refuses, the child finds its CPUs by its flags.
  sched_setaffinity(0, CPU_ALLOC_SIZE(kCpusMax), cpus);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  fcntl(words, F_SETFD, 0);
  execve(program, arguments, environment);
  _exit(kExecFailed);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::string& program,
                                                                  const std::vector<std::string>& arguments,
                                                                  const std::vector<int>& cpus) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return absl::ResourceExhaustedError(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  std::vector<std::string> words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = EnvironmentWith(ends[1]);
  const std::vector<char*> argv = Pointers(words), environment = Pointers(variables);
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

ChildProcess::~ChildProcess() { close(words_); }

void ChildProcess::Signal(int signal) const { kill(pid_, signal); }

std::string ChildProcess::LastWords() const {
  std::string words(kWordsBytesMax, '\0');
  const ssize_t bytes = read(words_, words.data(), words.size());
  words.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  return words;
}

std::string DescribeEnd(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return fmt::format("signal {} ({})", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

bool ReportToSupervisor(const std::string& line) {
  const char* const text = std::getenv(kPipeVariable);
  int pipe = -1;
  if (text == nullptr || std::from_chars(text, text + std::strlen(text), pipe).ec != std::errc())
    return false;
  return write(pipe, line.data(), std::min(line.size(), kWordsBytesMax)) > 0;
}

}  // namespace numoe
