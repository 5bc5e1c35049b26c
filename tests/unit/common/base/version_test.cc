// The version has the form of Semantic Versioning, and is the one of CMake's project().
#include "common/base/version.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(VersionTest, ThreeNumbersAndPerhapsMore) {
  EXPECT_THAT(std::string(Version()),
              ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]+)?"));
}

TEST(VersionTest, ItIsTheProjects) {
  std::ifstream file("CMakeLists.txt");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::string version(Version().substr(0, Version().find_first_of("-+")));
  EXPECT_THAT(text, ::testing::ContainsRegex("project\\([^)]*VERSION " + version));
}

}  // namespace
}  // namespace numoe
