// Breaks each rule of the container in turn: the message must name the file, the key or tensor, what was
// found and what was expected. Files that gguf-py wrote (tests/fuzz/corpus, tests/golden/data) show that real
// files are read.
#include "common/weights/gguf.h"

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "common/weights/mapped_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_writer.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ErrorOf(absl::Span<const std::byte> file) {
  const auto parsed = ParseGguf(file, "dir/m.gguf");
  if (parsed.ok()) return "parsed";
  EXPECT_TRUE(absl::IsInvalidArgument(parsed.status()));
  const std::string message(parsed.status().message());
  EXPECT_THAT(message, StartsWith("dir/m.gguf: "));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message.substr(std::strlen("dir/m.gguf: "));
}

// The bytes of a file, assembled by hand.
class RawFile {
 public:
  explicit RawFile(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    bytes_ = {std::byte{'G'}, std::byte{'G'}, std::byte{'U'}, std::byte{'F'}};
    Add(version).Add(tensors).Add(keys);
  }
  template <typename T>
  RawFile& Add(T value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
    return *this;
  }
  RawFile& Text(const std::string& text) {
    Add<uint64_t>(text.size());
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), begin, begin + text.size());
    return *this;
  }
  RawFile& Key(const std::string& name, uint32_t type) { return Text(name).Add(type); }
  RawFile& Tensor(const std::string& name, const std::vector<uint64_t>& ne, uint32_t type, uint64_t offset) {
    Text(name).Add<uint32_t>(static_cast<uint32_t>(ne.size()));
    for (const uint64_t extent : ne) Add(extent);
    return Add(type).Add(offset);
  }
  RawFile& Data(size_t bytes) {
    bytes_.resize((bytes_.size() + 31) / 32 * 32 + bytes);
    return *this;
  }
  std::string Error() const { return ErrorOf(bytes_); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

TEST(GgufTest, ReadsKeysOfAllTypes) {
  RawFile raw(0, 15);
  raw.Key("u8", 0).Add<uint8_t>(200).Key("i8", 1).Add<int8_t>(-3).Key("u16", 2).Add<uint16_t>(60000);
  raw.Key("i16", 3)
      .Add<int16_t>(-300)
      .Key("u32", 4)
      .Add<uint32_t>(4'000'000'000u)
      .Key("i32", 5)
      .Add<int32_t>(-7);
  raw.Key("f32", 6).Add(0.5f).Key("bool", 7).Add<uint8_t>(1).Key("string", 8).Text("two words");
  raw.Key("strings", 9).Add<uint32_t>(8).Add<uint64_t>(3).Text("a").Text("").Text("bc");
  raw.Key("integers", 9).Add<uint32_t>(5).Add<uint64_t>(2).Add<int32_t>(-1).Add<int32_t>(9);
  raw.Key("none", 9).Add<uint32_t>(8).Add<uint64_t>(0);
  raw.Key("u64", 10).Add<uint64_t>(UINT64_MAX).Key("i64", 11).Add<int64_t>(INT64_MIN).Key("f64", 12).Add(0.1);
  const auto file = ParseGguf(raw.bytes(), "m");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto& keys = file->metadata;
  EXPECT_EQ(keys.at("u8").Integer(), 200);
  EXPECT_EQ(keys.at("i8").Integer(), -3);
  EXPECT_EQ(keys.at("u16").Integer(), 60000);
  EXPECT_EQ(keys.at("i16").Integer(), -300);
  EXPECT_EQ(keys.at("u32").Integer(), 4'000'000'000);
  EXPECT_EQ(keys.at("i32").Integer(), -7);
  EXPECT_EQ(keys.at("i64").Integer(), INT64_MIN);
  EXPECT_EQ(keys.at("u64").Integer(), std::nullopt) << "beyond int64";
  EXPECT_EQ(keys.at("f32").Number(), 0.5);
  EXPECT_EQ(keys.at("f64").Number(), 0.1);
  EXPECT_EQ(keys.at("i32").Number(), -7.0);
  EXPECT_EQ(keys.at("bool").Bool(), true);
  EXPECT_EQ(keys.at("string").String(), "two words");
  EXPECT_THAT(*keys.at("strings").Strings(), ElementsAre("a", "", "bc"));
  EXPECT_THAT(*keys.at("integers").Integers(), ElementsAre(-1, 9));
  EXPECT_THAT(*keys.at("none").Strings(), ElementsAre());
  EXPECT_EQ(file->header.size(), raw.bytes().size());
}

TEST(GgufTest, AValueOfAnotherKindIsNullopt) {
  GgufWriter writer;
  writer.Set("integer", 1u);
  writer.Set("float", 1.0f);
  writer.Set("text", "x");
  writer.Set("flag", true);
  writer.Set("texts", std::vector<std::string>{"x"});
  writer.Set("integers", std::vector<int32_t>{1});
  const std::vector<std::byte> bytes = writer.Bytes();
  const auto file = ParseGguf(bytes, "m");
  ASSERT_TRUE(file.ok()) << file.status();
  for (const auto& [key, value] : file->metadata) {
    EXPECT_EQ(value.Integer().has_value(), key == "integer") << key;
    EXPECT_EQ(value.Number().has_value(), key == "integer" || key == "float") << key;
    EXPECT_EQ(value.String().has_value(), key == "text") << key;
    EXPECT_EQ(value.Bool().has_value(), key == "flag") << key;
    EXPECT_EQ(value.Strings().has_value(), key == "texts") << key;
    EXPECT_EQ(value.Integers().has_value(), key == "integers") << key;
  }
  EXPECT_EQ(file->metadata.at("integer").Describe(), "1");
  EXPECT_EQ(file->metadata.at("text").Describe(), "\"x\"");
  EXPECT_EQ(file->metadata.at("texts").Describe(), "an array of 1 strings");
  EXPECT_EQ(file->metadata.at("flag").Describe(), "true");
}

TEST(GgufTest, TensorsAreRowMajorAndInPlace) {
  GgufWriter writer;
  std::vector<std::byte> blocks(2 * 3 * 34), floats(20);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(i);
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<std::byte>(100 + i);
  writer.AddTensor("experts", GgmlType::kQ8_0, {2, 3, 32}, blocks);
  writer.AddTensor("norm", GgmlType::kF32, {5}, floats);
  const std::vector<std::byte> bytes = writer.Bytes();
  const auto file = ParseGguf(bytes, "m");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors.at("experts").shape, (Shape{2, 3, 32}));
  EXPECT_EQ(file->tensors.at("experts").type, GgmlType::kQ8_0);
  EXPECT_TRUE(std::equal(blocks.begin(), blocks.end(), file->tensors.at("experts").data.begin()));
  EXPECT_TRUE(std::equal(floats.begin(), floats.end(), file->tensors.at("norm").data.begin()));
  EXPECT_EQ(file->tensors.at("norm").data.size(), 20u);
}

TEST(GgufTest, EveryPrefixIsAnError) {
  GgufWriter writer;
  writer.Set("general.architecture", "deepseek2");
  writer.Set("tokens", std::vector<std::string>{"a", "bc"});
  writer.Set("types", std::vector<int32_t>{1, 2});
  writer.AddTensor("x", GgmlType::kQ4_0, {2, 32}, std::vector<std::byte>(36));
  const std::vector<std::byte> bytes = writer.Bytes();
  EXPECT_EQ(ErrorOf(bytes), "parsed");
  const size_t padding = 64 - 36;  // after the last tensor
  EXPECT_EQ(ErrorOf(absl::MakeConstSpan(bytes).first(bytes.size() - padding)), "parsed")
      << "needs no padding";
  for (size_t size = 4; size < bytes.size() - padding; ++size) {
    const std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THAT(ErrorOf(part), HasSubstr("is the file truncated?")) << size;
  }
}

TEST(GgufTest, Beginnings) {
  EXPECT_EQ(ErrorOf({}), "begins with \"\", expected \"GGUF\"; is this a GGUF file?");
  const std::vector<std::byte> other = {std::byte{'g'}, std::byte{'g'}, std::byte{'m'}, std::byte{'l'}};
  EXPECT_EQ(ErrorOf(other), "begins with \"ggml\", expected \"GGUF\"; is this a GGUF file?");
  EXPECT_EQ(RawFile(0, 0, 2).Error(), "parsed");
  EXPECT_EQ(RawFile(0, 0, 1).Error(), "version 1, expected 2 or 3");
  EXPECT_EQ(RawFile(0, 0, 4).Error(), "version 4, expected 2 or 3");
  EXPECT_THAT(RawFile(0, 0, 0x03000000).Error(), HasSubstr("big-endian"));
  EXPECT_EQ(RawFile(4'000'001, 0).Error(), "4000001 tensors, expected at most 4000000");
  EXPECT_EQ(RawFile(0, 65'537).Error(), "65537 keys, expected at most 65536");
}

TEST(GgufTest, Keys) {
  EXPECT_EQ(RawFile(0, 2).Key("a", 4).Add(1u).Key("a", 4).Add(1u).Error(),
            "key a: occurs twice, expected once");
  EXPECT_EQ(RawFile(0, 1).Key("", 4).Add(1u).Error(), "key : a name of 0 bytes, expected 1 to 65535");
  EXPECT_THAT(RawFile(0, 1).Key(std::string(70'000, 'k'), 4).Add(1u).Error(),
              HasSubstr("a name of 70000 bytes, expected 1 to 65535"));
  EXPECT_EQ(RawFile(0, 1).Key("a", 13).Error(), "key a: type 13, expected 0 to 12");
  EXPECT_EQ(RawFile(0, 1).Key("a", 9).Add<uint32_t>(9).Add<uint64_t>(0).Error(),
            "key a: is an array of arrays, expected plain elements");
  EXPECT_EQ(RawFile(0, 1).Key("a", 7).Add<uint8_t>(2).Error(), "key a: a boolean of 2, expected 0 or 1");
  EXPECT_EQ(RawFile(0, 1).Key("a\nb", 13).Error(), "key a\\nb: type 13, expected 0 to 12");
}

TEST(GgufTest, CountsThatWouldOverflow) {
  for (const uint64_t count : {uint64_t{3}, uint64_t{1} << 61, uint64_t{1} << 63, UINT64_MAX}) {
    for (const uint32_t type : {0u, 5u, 8u, 12u}) {
      EXPECT_THAT(RawFile(0, 1).Key("a", 9).Add(type).Add(count).Add<uint8_t>(0).Error(),
                  HasSubstr("key a, an array of " + std::to_string(count)))
          << type;
    }
  }
  EXPECT_THAT(RawFile(0, 1).Key("a", 8).Add(UINT64_MAX).Error(),
              HasSubstr("key a, one value, runs past the end"));
  EXPECT_THAT(RawFile(0, 1).Add(UINT64_MAX - 8).Error(), HasSubstr("the name of key 0 runs past the end"));
}

TEST(GgufTest, Alignment) {
  const auto file = [](uint32_t alignment, uint64_t second) {
    RawFile raw(2, 1);
    raw.Key("general.alignment", 4).Add(alignment);
    return raw.Tensor("a", {1}, 0, 0).Tensor("b", {1}, 0, second).Data(300).Error();
  };
  EXPECT_EQ(file(8, 8), "parsed");
  EXPECT_EQ(file(64, 64), "parsed");
  EXPECT_EQ(file(64, 32), "tensor b: data at offset 32, expected 64 (a multiple of 64)");
  EXPECT_EQ(file(0, 0), "key general.alignment: is 0, expected a power of two up to 1073741824");
  EXPECT_EQ(file(48, 48), "key general.alignment: is 48, expected a power of two up to 1073741824");
  EXPECT_THAT(RawFile(0, 1).Key("general.alignment", 8).Text("32").Error(), HasSubstr("is \"32\", expected"));
}

TEST(GgufTest, TensorHeaders) {
  const auto one = [](const std::vector<uint64_t>& ne, uint32_t type) {
    return RawFile(1, 0).Tensor("t", ne, type, 0).Data(4096).Error();
  };
  EXPECT_EQ(one({32, 2, 2, 2}, 2), "parsed");
  EXPECT_EQ(one({}, 0), "tensor t: 0 dimensions, expected 1 to 4");
  EXPECT_EQ(one({1, 1, 1, 1, 1}, 0), "tensor t: 5 dimensions, expected 1 to 4");
  EXPECT_EQ(one({4, 0}, 0), "tensor t: dimension 1 is 0, expected 1 to 2^63 - 1");
  EXPECT_THAT(one({4, UINT64_MAX}, 0), HasSubstr("dimension 1 is 18446744073709551615"));
  EXPECT_THAT(one({1ull << 40, 1ull << 40}, 0), HasSubstr("expected a product within 63 bits"));
  EXPECT_THAT(one({1ull << 61}, 0), HasSubstr("expected a product within 63 bits"));
  EXPECT_THAT(one({32}, 16), HasSubstr("type 16, expected F32, F16, BF16, Q4_0"));
  EXPECT_EQ(one({48}, 8), "tensor t: rows of 48 values, expected a multiple of the 32 of a Q8_0 block");
  EXPECT_EQ(one({128, 2}, 12),
            "tensor t: rows of 128 values, expected a multiple of the 256 of a Q4_K block");
  EXPECT_EQ(RawFile(1, 0).Tensor("", {1}, 0, 0).Data(32).Error(),
            "tensor : a name of 0 bytes, expected 1 to 63");
  EXPECT_THAT(RawFile(1, 0).Tensor(std::string(64, 't'), {1}, 0, 0).Data(32).Error(),
              HasSubstr("a name of 64 bytes, expected 1 to 63"));
  EXPECT_EQ(RawFile(2, 0).Tensor("t", {1}, 0, 0).Tensor("t", {1}, 0, 32).Data(64).Error(),
            "tensor t: occurs twice, expected once");
}

TEST(GgufTest, DataIsInOrderWithoutOverlapOrHole) {
  const auto two = [](uint64_t first, uint64_t second, size_t data) {
    return RawFile(2, 0).Tensor("a", {8}, 0, first).Tensor("b", {9}, 0, second).Data(data).Error();
  };
  EXPECT_EQ(two(0, 32, 68), "parsed");
  EXPECT_EQ(two(64, 0, 96), "parsed") << "headers may be in another order";
  EXPECT_EQ(two(0, 0, 96), "tensor b: data at offset 0, expected 32 (it overlaps the tensor before it)");
  EXPECT_EQ(two(0, 64, 128), "tensor b: data at offset 64, expected 32 (there is a hole before it)");
  EXPECT_EQ(two(32, 64, 128), "tensor a: data at offset 32, expected 0 (there is a hole before it)");
  EXPECT_EQ(two(0, 40, 128), "tensor b: data at offset 40, expected 32 (a multiple of 32)");
  EXPECT_THAT(two(0, 32, 67), HasSubstr("tensor b: 36 bytes of data at"));
  EXPECT_THAT(two(0, UINT64_MAX - 31, 96), HasSubstr("tensor b: data at offset"));
}

TEST(GgufTest, FilesOfTheReferenceWriterParse) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/corpus/gguf_fuzz")) {
    const auto file = MappedFile::Open(entry.path());
    ASSERT_TRUE(file.ok()) << file.status();
    const auto parsed = ParseGguf(file->bytes(), entry.path().string());
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    ++count;
  }
  EXPECT_GE(count, 8);
}

}  // namespace
}  // namespace numoe
