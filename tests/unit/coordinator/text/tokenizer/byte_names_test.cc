// GPT-2's spelling of bytes.
#include "coordinator/text/tokenizer/byte_names.h"

#include <set>

#include "gtest/gtest.h"

namespace numoe::text {
namespace {

TEST(ByteNamesTest, PrintableBytesAreThemselves) {
  const ByteNames names;
  EXPECT_EQ(names.Bytes("Hello!~"), "Hello!~");
  EXPECT_EQ(names.Bytes("\u00a1\u00ac\u00ae\u00ff"), "\xa1\xac\xae\xff") << "also those of Latin-1";
}

TEST(ByteNamesTest, OtherBytesFollowU0100) {
  const ByteNames names;
  EXPECT_EQ(names.Bytes("\u0120the"), " the") << "the well-known name of the space";
  EXPECT_EQ(names.Bytes("\u010a"), "\n");
  EXPECT_EQ(names.Bytes("\u0100"), std::string(1, '\0'));
  EXPECT_EQ(names.Bytes("\u0121\u0143"), "\x7f\xad")
      << "DEL is the first after the space, the soft hyphen the last";
}

TEST(ByteNamesTest, EveryByteHasOneName) {
  const ByteNames names;
  std::set<std::string> bytes;
  for (int point = 33; point < 0x144; ++point) {
    if (point == 127) continue;  // DEL is not printable: U+0121 stands for it
    std::string name;
    if (point >= 0x80) name += static_cast<char>(0xC0 | (point >> 6));
    name += static_cast<char>(point < 0x80 ? point : 0x80 | (point & 0x3F));
    const std::string byte = names.Bytes(name);
    if (byte == name && point != byte[0]) continue;  // no byte has this name
    EXPECT_TRUE(bytes.insert(byte).second) << point;
  }
  EXPECT_EQ(bytes.size(), 256u);
}

TEST(ByteNamesTest, OtherCharactersAreUnchanged) {
  const ByteNames names;
  EXPECT_EQ(names.Bytes("日 \xff"), "日 \xff");
  EXPECT_EQ(names.Bytes(""), "");
}

}  // namespace
}  // namespace numoe::text
