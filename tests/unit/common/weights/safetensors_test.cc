// Breaks each rule of the format in turn: the message must name the file, the tensor, what was found and what
// was expected.
#include "common/weights/safetensors.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Returns a file with this header text and `data_bytes` bytes 0, 1, 2, ... after it.
std::vector<std::byte> FileOf(const std::string& header, size_t data_bytes, uint64_t length) {
  std::vector<std::byte> file(sizeof length + header.size() + data_bytes);
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, header.data(), header.size());
  for (size_t i = 0; i < data_bytes; ++i) file[sizeof length + header.size() + i] = static_cast<std::byte>(i);
  return file;
}

std::vector<std::byte> FileOf(const std::string& header, size_t data_bytes) {
  return FileOf(header, data_bytes, header.size());
}

std::string SafetensorsErrorOf(const std::vector<std::byte>& file) {
  const auto header = ParseSafetensorsHeader(file, "dir/m.safetensors");
  if (header.ok()) return "parsed";
  EXPECT_TRUE(absl::IsInvalidArgument(header.status()));
  const std::string message(header.status().message());
  EXPECT_THAT(message, StartsWith("dir/m.safetensors: "));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message.substr(std::strlen("dir/m.safetensors: "));
}

// One tensor "t" with this entry, in a file of `data_bytes`.
std::string EntryError(const std::string& entry, size_t data_bytes) {
  return SafetensorsErrorOf(FileOf("{\"t\":" + entry + "}", data_bytes));
}

TEST(SafetensorsTest, ReadsTensorsInAnyOrderPaddingAndMetadata) {
  const std::string text =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )";
  const std::vector<std::byte> file = FileOf(text, 16);
  const auto header = ParseSafetensorsHeader(file, "m");
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->tensors.size(), 2u);
  const TensorView& b = header->tensors.at("b");
  EXPECT_EQ(b.dtype, DType::kBF16);
  EXPECT_EQ(b.shape, (Shape{2, 3}));
  EXPECT_EQ(b.data.size(), 12u);
  EXPECT_EQ(b.data[0], std::byte{4});
  EXPECT_EQ(header->tensors.at("a").shape, Shape{}) << "rank 0 is legal";
  EXPECT_EQ(header->json.size(), text.size());
}

TEST(SafetensorsTest, EmptyHeaderAndEmptyTensorsAreLegal) {
  EXPECT_EQ(SafetensorsErrorOf(FileOf("{}", 0)), "parsed");
  EXPECT_EQ(SafetensorsErrorOf(FileOf(R"({"z":{"dtype":"F16","shape":[0,7],"data_offsets":[0,0]},)"
                                      R"("y":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},)"
                                      R"("x":{"dtype":"I8","shape":[3,0],"data_offsets":[2,2]}})",
                                      2)),
            "parsed");
}

TEST(SafetensorsTest, TruncatedLengthAndHeader) {
  EXPECT_EQ(SafetensorsErrorOf({}), "0 bytes, expected at least 8; is the file truncated?");
  EXPECT_EQ(SafetensorsErrorOf(std::vector<std::byte>(7)),
            "7 bytes, expected at least 8; is the file truncated?");
  EXPECT_EQ(SafetensorsErrorOf(FileOf("{}", 0, 3)),
            "header of 3 bytes, expected at most the 2 bytes that follow its length; is the file truncated?");
}

TEST(SafetensorsTest, HeaderOver100MB) {
  EXPECT_EQ(SafetensorsErrorOf(FileOf("{}", 0, 100'000'001)),
            "header of 100000001 bytes, expected at most 100000000; is this a safetensors file?");
  EXPECT_THAT(SafetensorsErrorOf(FileOf("{}", 0, UINT64_MAX)), HasSubstr("expected at most 100000000"));
  EXPECT_THAT(SafetensorsErrorOf(FileOf("{}", 0, 100'000'000)), HasSubstr("truncated"))
      << "the limit itself is allowed";
}

TEST(SafetensorsTest, HeaderThatIsNotAJsonObject) {
  EXPECT_EQ(SafetensorsErrorOf(FileOf("[]", 0)),
            "header begins with \"[\", expected '{'; is this a safetensors file?");
  EXPECT_EQ(SafetensorsErrorOf(FileOf("", 0)),
            "header begins with \"\", expected '{'; is this a safetensors file?");
  EXPECT_THAT(SafetensorsErrorOf(FileOf(" {}", 0)), HasSubstr("header begins with \" \""));
  EXPECT_THAT(SafetensorsErrorOf(FileOf("{\"a\":}", 0)), StartsWith("header: not valid JSON at byte 6: "));
  EXPECT_THAT(SafetensorsErrorOf(FileOf("{\"\xff\":1}", 0)), StartsWith("header: not valid JSON at byte "));
}

TEST(SafetensorsTest, DuplicateTensor) {
  const std::string entry = R"({"dtype":"I8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_EQ(SafetensorsErrorOf(FileOf("{\"t\":" + entry + ",\"t\":" + entry + "}", 1)),
            "header: key \"t\" occurs twice, expected once");
}

TEST(SafetensorsTest, MetadataThatIsNotAMapOfStrings) {
  EXPECT_EQ(SafetensorsErrorOf(FileOf(R"({"__metadata__":{"a":1}})", 0)),
            "__metadata__ is {\"a\":1}, expected an object of strings");
  EXPECT_EQ(SafetensorsErrorOf(FileOf(R"({"__metadata__":"pt"})", 0)),
            "__metadata__ is \"pt\", expected an object of strings");
}

TEST(SafetensorsTest, EntryWithoutItsFields) {
  EXPECT_EQ(EntryError("7", 0),
            "tensor t: header entry 7, expected an object with dtype, shape and data_offsets");
  EXPECT_THAT(EntryError(R"({"dtype":"I8","shape":[1]})", 1),
              StartsWith(R"(tensor t: header entry {"dtype":"I8","shape":[1]}, expected)"));
}

TEST(SafetensorsTest, UnknownDtype) {
  EXPECT_EQ(EntryError(R"({"dtype":"F4","shape":[2],"data_offsets":[0,1]})", 1),
            "tensor t: unknown dtype \"F4\", expected BOOL, U8, I8, F8_E4M3, F8_E5M2, F8_E8M0, I16, U16, "
            "F16, BF16, I32, "
            "U32, F32, I64, U64 or F64");
  EXPECT_THAT(EntryError(R"({"dtype":3,"shape":[2],"data_offsets":[0,1]})", 1),
              HasSubstr("unknown dtype 3, expected"));
}

TEST(SafetensorsTest, InvalidShapes) {
  for (const char* shape :
       {"3", "[-1]", "[1.5]", "[\"2\"]", "[18446744073709551615]", "[9223372036854775807,2]",
        "[4611686018427387904,4611686018427387904]", "[9223372036854775807,2,0]"}) {
    EXPECT_EQ(
        EntryError(std::string(R"({"dtype":"I8","shape":)") + shape + R"(,"data_offsets":[0,1]})", 1),
        std::string("tensor t: shape ") + shape + ", expected a list of sizes whose product fits 63 bits");
  }
}

TEST(SafetensorsTest, InvalidOffsets) {
  for (const char* offsets : {"[0]", "[0,1,2]", "[-1,1]", "[0.0,1]", "{}", "null"}) {
    EXPECT_EQ(EntryError(std::string(R"({"dtype":"I8","shape":[1],"data_offsets":)") + offsets + "}", 1),
              std::string("tensor t: data_offsets ") + offsets + ", expected [begin, end]");
  }
}

TEST(SafetensorsTest, OffsetsOutsideTheData) {
  EXPECT_EQ(EntryError(R"({"dtype":"I8","shape":[4],"data_offsets":[0,4]})", 3),
            "tensor t: data_offsets [0, 4], expected begin <= end within the 3 bytes of data; is the file "
            "truncated?");
  EXPECT_THAT(EntryError(R"({"dtype":"I8","shape":[1],"data_offsets":[2,1]})", 3),
              HasSubstr("data_offsets [2, 1], expected"));
  EXPECT_THAT(EntryError(R"({"dtype":"I8","shape":[1],"data_offsets":[18446744073709551615,0]})", 3),
              HasSubstr("expected begin <= end"));
}

TEST(SafetensorsTest, BytesThatAreNotShapeTimesDtype) {
  EXPECT_EQ(EntryError(R"({"dtype":"BF16","shape":[2,3],"data_offsets":[0,11]})", 11),
            "tensor t: 11 bytes of data, expected 12 for BF16 [2, 3]");
}

TEST(SafetensorsTest, OverlapHoleAndLeadingGap) {
  const auto two = [](const std::string& a, const std::string& b, size_t bytes) {
    return SafetensorsErrorOf(FileOf(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":)" + a +
                                         R"(},"b":{"dtype":"I8","shape":[4],"data_offsets":)" + b + "}}",
                                     bytes));
  };
  EXPECT_EQ(two("[0,4]", "[4,8]", 8), "parsed");
  EXPECT_EQ(two("[0,4]", "[3,7]", 7),
            "tensor b: data begins at 3, expected 4 (it overlaps the tensor before it)");
  EXPECT_EQ(two("[0,4]", "[0,4]", 4),
            "tensor b: data begins at 0, expected 4 (it overlaps the tensor before it)");
  EXPECT_EQ(two("[0,4]", "[5,9]", 9), "tensor b: data begins at 5, expected 4 (there is a hole before it)");
  EXPECT_EQ(two("[5,9]", "[1,5]", 9), "tensor b: data begins at 1, expected 0 (there is a hole before it)");
}

TEST(SafetensorsTest, BytesAfterTheLastTensor) {
  EXPECT_EQ(EntryError(R"({"dtype":"I8","shape":[4],"data_offsets":[0,4]})", 5),
            "5 bytes of data, expected 4 by the header");
}

TEST(SafetensorsTest, TensorNamesCannotBreakTheLine) {
  const std::string error = SafetensorsErrorOf(FileOf(R"({"a\nb":7})", 0));
  EXPECT_THAT(error, StartsWith("tensor a\\nb: "));
}

}  // namespace
}  // namespace numoe
