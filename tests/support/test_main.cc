// The main function of every test program: GoogleTest's, with two options for running the tests of one source
// file.
//
//   --source=x_test.cc   runs the tests that this file defines, and fails if there are none. With a
//                        --gtest_filter beside it, the filter alone decides.
//   --list-sources       prints the names of all files that define tests
//
// At the end it prints a line `SKIPPED Suite.Name: reason` for every skipped test, which tests/run.sh shows.
// A reason that begins with "not installed" names something that this machine could have. With
// NUMOE_REQUIRE=1 (which the gate in CI sets) such a skip is a failure. tests/support/skips.py does the
// same for the tests in Python.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

constexpr char kSource[] = "--source=";

// Name of a source file -> GoogleTest's filter for its suites. A suite belongs to one file.
std::map<std::string, std::string> FiltersBySource() {
  std::map<std::string, std::string> filters;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *program.GetTestSuite(i);
    if (suite.total_test_count() == 0) continue;
    std::string& filter = filters[std::filesystem::path(suite.GetTestInfo(0)->file()).filename()];
    filter += std::string(suite.name()) + ".*:";
  }
  return filters;
}

// GoogleTest owns it; lives as long as the process.
class SkipListener : public testing::EmptyTestEventListener {
 public:
  // Whether a test was skipped that may not be skipped here; complete once all tests have run.
  bool forbidden_skip() const { return forbidden_skip_; }

 private:
  void OnTestEnd(const testing::TestInfo& test) override {
    if (!test.result()->Skipped()) return;
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    for (int i = 0; i < test.result()->total_part_count(); ++i) {
      const testing::TestPartResult& part = test.result()->GetTestPartResult(i);
      if (!part.skipped()) continue;
      const std::string reason = part.summary();
      skips_.emplace_back(name, reason.substr(0, reason.find('\n')));
      return;
    }
  }
  void OnTestProgramEnd(const testing::UnitTest& /*program*/) override {
    const char* require = std::getenv("NUMOE_REQUIRE");
    const bool required = require != nullptr && std::strcmp(require, "1") == 0;
    for (const auto& [name, reason] : skips_) {
      std::printf("SKIPPED %s: %s\n", name.c_str(), reason.c_str());
      if (!required || reason.rfind("not installed", 0) != 0) continue;
      std::printf("%s may not be skipped where NUMOE_REQUIRE=1 is set.\n", name.c_str());
      forbidden_skip_ = true;
    }
    std::fflush(stdout);
  }

  std::vector<std::pair<std::string, std::string>> skips_;  // (Suite.Name, reason)
  bool forbidden_skip_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const auto filters = FiltersBySource();
    if (std::strcmp(argv[i], "--list-sources") == 0) {
      for (const auto& [source, filter] : filters) std::printf("%s\n", source.c_str());
      return 0;
    }
    const bool names_source = std::strncmp(argv[i], kSource, std::strlen(kSource)) == 0;
    const auto found = filters.find(names_source ? argv[i] + std::strlen(kSource) : "");
    if (found == filters.end()) {
      std::fprintf(stderr,
                   "%s: found %s, expected --source=FILE_test.cc of a file with tests, or --list-sources\n",
                   argv[0], argv[i]);
      return 2;
    }
    // A death test runs this program again with the filter of its one test, which then decides.
    if (testing::GTEST_FLAG(filter) == "*") testing::GTEST_FLAG(filter) = found->second;
  }
  auto* skips = new SkipListener;
  testing::UnitTest::GetInstance()->listeners().Append(skips);
  const int status = RUN_ALL_TESTS();
  return status == 0 && skips->forbidden_skip() ? 1 : status;
}
