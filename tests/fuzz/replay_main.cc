// Runs a fuzz target without libFuzzer: first each corpus file, unchanged, then mutations of these files.
//
// Usage: NAME_replay CORPUS_FOLDER [--runs=100000] [--seconds=0] [--first=0] [--dump=FILE]
// With --seconds it runs for that time instead of a number of runs. Mutation N depends only on N and the
// corpus, so
// --first=N --runs=1 repeats a crash of run N, and --dump then writes its input. If the process dies, it
// prints the number of the run.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// ASan and UBSan call these functions. With these options their findings raise SIGABRT, like a failed check.
extern "C" const char* __asan_default_options() { return "abort_on_error=1"; }
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace {

constexpr size_t kInputBytesMax = 64 << 10;
constexpr char kSyntax[] =
    "\xff{}[]()<>%#\",:0-9e.\\u\n '_";  // syntax of the text formats that are parsed, and NUL

char g_current[512];  // describes the current input; printed if the process dies

void OnDeath(int signal_number) {
  if (write(STDERR_FILENO, g_current, strlen(g_current)) < 0) _exit(1);
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void CatchDeath() {
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    const auto previous = signal(number, OnDeath);
    if (previous != SIG_DFL)
      signal(number, previous);  // keeps a sanitizer's handler, which reports and then aborts
  }
}

// Makes one to eight random edits of an input. The kinds of edits keep enough of bytes and text valid to
// reach code after the first checks.
class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, uint64_t run)
      : corpus_(corpus), random_(run * 0x9e3779b97f4a7c15ull + 1) {}

  std::string Make() {
    std::string input = corpus_[Below(corpus_.size())];
    for (size_t edits = 1 + Below(8); edits > 0; --edits) {
      Edit(input);
      if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
    }
    return input;
  }

 private:
  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void Edit(std::string& input) {
    const size_t at = Below(input.size());
    const size_t length = std::min(input.size() - at, size_t{1} << Below(8));
    switch (Below(9)) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << Below(8)));
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(random_());
        break;
      case 2:
        input.erase(at, length);
        break;
      case 3:
        input.insert(at, std::string(input, at, length));
        break;
      case 4:
        input.resize(at);
        break;
      case 5:
        Splice(input, at);
        break;
      case 6:
        ReplaceNumber(input, at);
        break;
      case 7:
        SwapPieces(input, at, length);
        break;
      default:
        input.insert(at, std::string(1 + Below(16), kSyntax[Below(sizeof kSyntax)]));
    }
  }

  // Joins the head of this input and the tail of another.
  void Splice(std::string& input, size_t at) {
    const std::string& other = corpus_[Below(corpus_.size())];
    input = input.substr(0, at) + other.substr(Below(other.size()));
  }

  // Replaces the next decimal number, or the eight bytes at `at`, by a value near a boundary.
  void ReplaceNumber(std::string& input, size_t at) {
    constexpr uint64_t kBoundaries[] = {0,           1,          2,          7,          8,
                                        127,         128,        255,        4096,       65535,
                                        65536,       0x7fffffff, 0x80000000, 0xffffffff, 100'000'000,
                                        100'000'001, 1ull << 53, INT64_MAX,  1ull << 63, UINT64_MAX};
    const uint64_t value = kBoundaries[Below(std::size(kBoundaries))] + Below(3) - 1;
    if (Below(4) == 0 && input.size() - at >= sizeof value) {
      memcpy(input.data() + at, &value, sizeof value);
      return;
    }
    const size_t begin = input.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const size_t end = std::min(input.find_first_not_of("0123456789.eE", begin), input.size());
    constexpr const char* kOdd[] = {"-1", "1e999", "1.5", "null", "true", "\"x\"", "[]", "{}", "1e-300"};
    const std::string text = Below(3) == 0 ? kOdd[Below(std::size(kOdd))] : std::to_string(value);
    input.replace(begin, end - begin, text);
  }

  void SwapPieces(std::string& input, size_t at, size_t length) {
    const std::string piece(input, at, length);
    input.erase(at, length);
    input.insert(Below(input.size() + 1), piece);
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_;
};

void Run(const std::string& input) {
  // A copy of the exact size on the heap, so that a sanitizer sees a read past the end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::vector<std::string> ReadCorpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    snprintf(g_current, sizeof g_current, "died in corpus file %s\n", path.c_str());
    Run(corpus.back());
  }
  return corpus;
}

bool ReadNumber(std::string_view argument, std::string_view flag, uint64_t& value) {
  if (argument.substr(0, flag.size()) != flag) return false;
  const char* end = argument.data() + argument.size();
  return std::from_chars(argument.data() + flag.size(), end, value).ptr == end;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 100'000, seconds = 0, first = 0;
  std::string dump;
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, 7) == "--dump=") {
      dump = argument.substr(7);
    } else if (!ReadNumber(argument, "--runs=", runs) && !ReadNumber(argument, "--seconds=", seconds) &&
               !ReadNumber(argument, "--first=", first)) {
      fprintf(stderr, "%s: unknown argument, expected --runs=N, --seconds=N, --first=N or --dump=FILE\n",
              argv[i]);
      return 2;
    }
  }
  CatchDeath();
  const std::vector<std::string> corpus = argc > 1 ? ReadCorpus(argv[1]) : std::vector<std::string>{};
  if (corpus.empty()) {
    fprintf(
        stderr,
        "%s: no corpus files; usage: %s CORPUS_FOLDER [--runs=N] [--seconds=N] [--first=N] [--dump=FILE]\n",
        argc > 1 ? argv[1] : "no folder given", argv[0]);
    return 2;
  }
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(seconds);
  uint64_t run = first;
  for (; seconds > 0 ? Clock::now() < end : run < first + runs; ++run) {
    const std::string input = Mutator(corpus, run).Make();
    snprintf(g_current, sizeof g_current, "died in run %llu; repeat with --first=%llu --runs=1\n",
             static_cast<unsigned long long>(run), static_cast<unsigned long long>(run));
    if (!dump.empty()) std::ofstream(dump, std::ios::binary) << input;
    Run(input);
  }
  printf("%zu corpus files and %llu mutations ran\n", corpus.size(),
         static_cast<unsigned long long>(run - first));
  return 0;
}
