// Compares block decoders with the values of ggml's own reference (gguf-py), and the int8 view with the
// decoders.
#include "common/formats/ggml_blocks.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "common/weights/mapped_file.h"
#include "common/weights/safetensors.h"
#include "gtest/gtest.h"
#include "tests/support/ggml_encode.h"

namespace numoe {
namespace {

constexpr char kVectors[] = "tests/unit/common/formats/testdata/ggml_blocks.safetensors";  // ggml_vectors.py

class GgmlBlocksTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    absl::StatusOr<MappedFile> file = MappedFile::Open(kVectors);
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    auto header = ParseSafetensorsHeader(file_.bytes(), kVectors);
    ASSERT_TRUE(header.ok()) << header.status();
    const auto blocks = header->tensors.find(fmt::format("{:02}.blocks", GetParam()));
    const auto values = header->tensors.find(fmt::format("{:02}.values", GetParam()));
    ASSERT_TRUE(blocks != header->tensors.end() && values != header->tensors.end());
    ASSERT_NE(FindGgmlTraits(GetParam()), nullptr);
    traits_ = *FindGgmlTraits(GetParam());
    count_ = blocks->second.shape[0];
    ASSERT_EQ(blocks->second.shape[1], traits_.block_bytes);
    ASSERT_EQ(values->second.shape, (Shape{count_, traits_.block_values}));
    blocks_ = blocks->second.data;
    values_.resize(values->second.ElementCount());
    std::memcpy(values_.data(), values->second.data.data(), values->second.data.size());
  }

  MappedFile file_;
  GgmlTraits traits_ = {};
  int64_t count_ = 0;
  absl::Span<const std::byte> blocks_;
  std::vector<float> values_;
};

TEST_P(GgmlBlocksTest, DecodesToTheReferencesBits) {
  std::vector<float> out(values_.size());
  DecodeGgmlBlocks(traits_.type, blocks_.data(), count_, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    ASSERT_EQ(out[i], values_[i]) << traits_.name << " block " << i / traits_.block_values << " value "
                                  << i % traits_.block_values;
  }
}

TEST_P(GgmlBlocksTest, DecodesUnalignedBlocksOneByOne) {
  std::vector<std::byte> shifted(blocks_.size() + 1);
  std::memcpy(shifted.data() + 1, blocks_.data(), blocks_.size());
  std::vector<float> out(traits_.block_values);
  for (int64_t b = 0; b < count_; ++b) {
    DecodeGgmlBlocks(traits_.type, shifted.data() + 1 + b * traits_.block_bytes, 1, out.data());
    for (int i = 0; i < traits_.block_values; ++i)
      ASSERT_EQ(out[i], values_[b * traits_.block_values + i]) << "block " << b << " value " << i;
  }
}

class GgmlInt8Test : public GgmlBlocksTest {};

TEST_P(GgmlInt8Test, CodesTimesScaleAreTheValues) {
  const int groups = traits_.block_values / kGgmlGroup;
  for (int64_t b = 0; b < count_; ++b) {
    for (int g = 0; g < groups; ++g) {
      int8_t codes[kGgmlGroup];
      const float scale = DecodeGgmlInt8(traits_.type, blocks_.data() + b * traits_.block_bytes, g, codes);
      for (int i = 0; i < kGgmlGroup; ++i)
        ASSERT_EQ(scale * static_cast<float>(codes[i]), values_[(b * groups + g) * kGgmlGroup + i]);
    }
  }
}

std::string Name(const ::testing::TestParamInfo<uint32_t>& test) { return FindGgmlTraits(test.param)->name; }
INSTANTIATE_TEST_SUITE_P(Types, GgmlBlocksTest,
                         ::testing::Values(0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 30, 39), Name);
INSTANTIATE_TEST_SUITE_P(Types, GgmlInt8Test, ::testing::Values(2, 6, 8, 20, 23, 39), Name);

// Encoding is independent of decoding, so a wrong position or shift in either is found. A format's error is
// that of its steps: `levels` over the range of a normal distribution's 32 or 16 values.
TEST_P(GgmlBlocksTest, NormalValuesComeBackWithinTheFormatsError) {
  const std::map<std::string, double> kErrors = {
      {"F32", 0},      {"F16", 3e-4},   {"BF16", 3e-3}, {"Q8_0", 0.007}, {"Q6_K", 0.025}, {"Q5_1", 0.045},
      {"Q5_K", 0.045}, {"Q5_0", 0.055}, {"Q4_1", 0.09}, {"Q4_K", 0.09},  {"Q4_0", 0.11},  {"IQ4_NL", 0.09},
      {"IQ4_XS", 0.1}, {"MXFP4", 0.14}, {"Q3_K", 0.19}, {"Q2_K", 0.36}};
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<float> in(8192), out(in.size());
  for (float& x : in) x = normal(random);
  const std::vector<std::byte> blocks = EncodeGgml(traits_.type, in);
  DecodeGgmlBlocks(traits_.type, blocks.data(), static_cast<int64_t>(in.size()) / traits_.block_values,
                   out.data());
  double squares = 0, errors = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    squares += in[i] * in[i];
    errors += (in[i] - out[i]) * (in[i] - out[i]);
  }
  const double error = std::sqrt(errors / squares);
  EXPECT_LE(error, kErrors.at(traits_.name));
  EXPECT_GE(error, kErrors.at(traits_.name) / 2) << "the bound has become loose";
}

TEST(GgmlTraitsTest, OnlyDecodedTypesHaveTraits) {
  std::set<std::string> names;
  for (uint32_t id = 0; id < 300; ++id) {
    const GgmlTraits* traits = FindGgmlTraits(id);
    if (traits == nullptr) continue;
    EXPECT_EQ(GgmlIsInt8(traits->type), std::set<uint32_t>({2, 6, 8, 20, 23, 39}).count(id) == 1) << id;
    EXPECT_EQ(static_cast<uint32_t>(traits->type), id);
    EXPECT_EQ(&TraitsOf(traits->type), traits);
    names.insert(traits->name);
  }
  EXPECT_EQ(names.size(), 16u);
  for (const uint32_t id : {4u, 5u, 9u, 15u, 16u, 24u, 97u, 0xffffffffu})
    EXPECT_EQ(FindGgmlTraits(id), nullptr);
}

TEST(GgmlBlocksDeathTest, NoInt8ViewOfFormatsWithMinima) {
  const std::vector<std::byte> block(144);
  int8_t codes[kGgmlGroup];
  EXPECT_DEATH(DecodeGgmlInt8(GgmlType::kQ4_K, block.data(), 0, codes), "has no codes with one scale");
}

}  // namespace
}  // namespace numoe
