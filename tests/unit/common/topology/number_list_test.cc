// Lists of numbers in the kernel's form, and texts that are not lists.
#include "common/topology/number_list.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NumberListTest, AListIsParsedAndWrittenBack) {
  EXPECT_THAT(*ParseNumberList("0-2,8\n"), ElementsAre(0, 1, 2, 8));
  EXPECT_THAT(*ParseNumberList(""), IsEmpty());
  for (const char* const text : {"0", "0-2", "0-1,3", "5,7-9,11"})
    EXPECT_EQ(ToText(*ParseNumberList(text)), text);
}

TEST(NumberListTest, OtherTextsAreRefused) {
  for (const char* const text : {"x", "1-", "-1", "3-1", "1,,2", "1-99999999", "0x1"})
    EXPECT_FALSE(ParseNumberList(text)) << text;
}

TEST(NumberListTest, MissingFilesGiveNoList) {
  const TemporaryFolder folder;
  EXPECT_FALSE(ReadNumberList(folder.path() / "online"));
  EXPECT_FALSE(ReadStatusList(folder.path(), "Mems_allowed_list:"));
  std::filesystem::create_directories(folder.path() / "proc/self");
  std::ofstream(folder.path() / "proc/self/status")
      << "Name:\tx\nMems_allowed:\t3\nMems_allowed_list:\t0-1\n";
  EXPECT_THAT(*ReadStatusList(folder.path(), "Mems_allowed_list:"), ElementsAre(0, 1));
}

}  // namespace
}  // namespace numoe
