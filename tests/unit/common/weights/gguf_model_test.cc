// Which file a --model path means, and models in parts: all parts must exist and be right, or an error says
// which one is wrong.
#include "common/weights/gguf_model.h"

#include <fstream>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class GgufModelTest : public ::testing::Test {
 protected:
  GgufModelTest() {
    writer_.Set("general.architecture", "qwen3moe");
    for (int i = 0; i < 5; ++i) {
      writer_.AddTensor("t" + std::to_string(i), GgmlType::kF32, {8},
                        std::vector<std::byte>(32, static_cast<std::byte>(i)));
    }
  }
  fs::path Path(const std::string& file) const { return folder_.path() / file; }
  void Touch(const std::string& file) const { std::ofstream{Path(file)}; }

  std::string Located(const std::string& file) const {
    const auto found = GgufModel::Locate(Path(file));
    if (!found.ok()) return std::string(found.status().message());
    return *found ? (*found)->filename().string() : "none";
  }
  std::string OpenError(const std::string& file) const {
    const auto model = GgufModel::Open(Path(file));
    return model.ok() ? "opened" : std::string(model.status().message());
  }

  uint64_t Fingerprint(const std::string& file) const {
    const auto model = GgufModel::Open(Path(file));
    EXPECT_TRUE(model.ok()) << model.status();
    const absl::StatusOr<uint64_t> fingerprint = model.ok() ? (*model)->Fingerprint() : model.status();
    EXPECT_TRUE(fingerprint.ok()) << fingerprint.status();
    return fingerprint.value_or(0);
  }

  TemporaryFolder folder_;
  GgufWriter writer_;
};

TEST_F(GgufModelTest, LocatesFilesAndFolders) {
  EXPECT_EQ(Located(""), "none") << "an empty folder";
  EXPECT_EQ(Located("absent"), "none");
  EXPECT_EQ(Located("absent.gguf"), "absent.gguf") << "Open() says that it is missing";
  EXPECT_EQ(Located("m-00003-of-00005.gguf"), "m-00001-of-00005.gguf") << "any part means the first";
  EXPECT_EQ(Located("m-3-of-5.gguf"), "m-3-of-5.gguf");
  EXPECT_EQ(Located("m-00003-of-0000x.gguf"), "m-00003-of-0000x.gguf");
  Touch("config.json");
  Touch("mmproj-model.gguf");
  EXPECT_EQ(Located(""), "none") << "a projector is not a model";
  Touch("m-00002-of-00002.gguf");
  Touch("m-00001-of-00002.gguf");
  EXPECT_EQ(Located(""), "m-00001-of-00002.gguf");
  Touch("other.gguf");
  EXPECT_THAT(Located(""),
              HasSubstr("holds 2 GGUF models (m-00001-of-00002.gguf, other.gguf), expected one"));
  Touch("model.safetensors");
  EXPECT_EQ(Located(""), "none") << "safetensors win";
}

TEST_F(GgufModelTest, OneFile) {
  writer_.Write(Path("m.gguf"));
  const auto model = GgufModel::Open(Path("m.gguf"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->contents().Text("general.architecture"), "qwen3moe");
  EXPECT_EQ((*model)->contents().tensors.size(), 5u);
  EXPECT_EQ((*model)->contents().Tensor("t3")->data[0], std::byte{3});
  EXPECT_EQ((*model)->TotalBytes(), fs::file_size(Path("m.gguf")));
  EXPECT_THAT(OpenError("absent.gguf"), AllOf(HasSubstr("absent.gguf"), HasSubstr("No such file")));
}

TEST_F(GgufModelTest, PartsAreMerged) {
  writer_.WriteParts(folder_.path(), "m", 3);
  const auto model = GgufModel::Open(Path("m-00001-of-00003.gguf"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->contents().Text("general.architecture"), "qwen3moe");
  ASSERT_EQ((*model)->contents().tensors.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ((*model)->contents().Tensor("t" + std::to_string(i))->data[31], static_cast<std::byte>(i)) << i;
  }
}

TEST_F(GgufModelTest, TheFingerprintDoesNotDependOnTheSplit) {
  writer_.Write(Path("whole.gguf"));
  const uint64_t expected = Fingerprint("whole.gguf");
  for (const int parts : {2, 3}) {
    writer_.WriteParts(folder_.path(), "m", parts);
    EXPECT_EQ(Fingerprint("m-00001-of-0000" + std::to_string(parts) + ".gguf"), expected) << parts;
  }
  writer_.RemoveTensor("t1");  // is written last from now on
  writer_.AddTensor("t1", GgmlType::kF32, {8}, std::vector<std::byte>(32, std::byte{1}));
  writer_.Write(Path("whole.gguf"));
  EXPECT_EQ(Fingerprint("whole.gguf"), expected);
}

TEST_F(GgufModelTest, TheFingerprintDependsOnKeysNamesTypesShapesAndWeights) {
  std::set<uint64_t> all;
  const auto add = [&](const GgufWriter& writer) {
    writer.WriteParts(folder_.path(), "m", 2);
    all.insert(Fingerprint("m-00001-of-00002.gguf"));
  };
  const auto with_t3 = [&](const char* name, GgmlType type, const Shape& shape, int byte) {
    GgufWriter writer = writer_;
    writer.RemoveTensor("t3");  // in the second part
    writer.AddTensor(name, type, shape, std::vector<std::byte>(32, static_cast<std::byte>(byte)));
    return writer;
  };
  add(writer_);
  add(with_t3("renamed", GgmlType::kF32, {8}, 3));
  add(with_t3("t3", GgmlType::kF16, {16}, 3));
  add(with_t3("t3", GgmlType::kF32, {2, 4}, 3));
  add(with_t3("t3", GgmlType::kF32, {8}, 5));  // the same headers
  GgufWriter keys = writer_;
  keys.Set("a.number", uint32_t{0});
  add(keys);
  keys.Set("a.number", uint32_t{1});
  add(keys);
  keys.Set("a.number", std::vector<int32_t>{1});
  add(keys);
  EXPECT_EQ(all.size(), 8u);
}

TEST_F(GgufModelTest, MissingAndMisplacedParts) {
  writer_.WriteParts(folder_.path(), "m", 3);
  fs::rename(Path("m-00002-of-00003.gguf"), Path("aside"));
  EXPECT_THAT(OpenError("m-00001-of-00003.gguf"),
              AllOf(HasSubstr("m-00001-of-00003.gguf: all 3 parts are needed"),
                    HasSubstr("m-00002-of-00003.gguf: cannot open")));
  fs::copy(Path("m-00003-of-00003.gguf"), Path("m-00002-of-00003.gguf"));
  EXPECT_THAT(OpenError("m-00001-of-00003.gguf"),
              HasSubstr("m-00002-of-00003.gguf: key split.no: is 2, expected 1"));
  fs::rename(Path("m-00001-of-00003.gguf"), Path("m-00001-of-00002.gguf"));
  EXPECT_THAT(OpenError("m-00001-of-00002.gguf"), HasSubstr("key split.count: is 3, expected 2"));
  fs::rename(Path("m-00001-of-00002.gguf"), Path("whole.gguf"));
  EXPECT_THAT(OpenError("whole.gguf"), HasSubstr("key split.count: is 3, expected 1"));
  writer_.Write(Path("n-00001-of-00001.gguf"));
  EXPECT_EQ(OpenError("n-00001-of-00001.gguf"), "opened");
  writer_.Write(Path("n-00001-of-00002.gguf"));
  EXPECT_THAT(OpenError("n-00001-of-00002.gguf"), HasSubstr("key split.count: is missing, expected 2"));
  EXPECT_THAT(OpenError("n-00001-of-00000.gguf"), HasSubstr("0 parts by its name"));
}

TEST_F(GgufModelTest, TensorsOfTheParts) {
  writer_.WriteParts(folder_.path(), "m", 2);
  GgufWriter second;
  second.Set("split.no", 1u);
  second.Set("split.count", 2u);
  second.AddTensor("new", GgmlType::kF32, {8}, std::vector<std::byte>(32));
  second.Write(Path("m-00002-of-00002.gguf"));
  EXPECT_THAT(OpenError("m-00001-of-00002.gguf"),
              HasSubstr("key split.tensors.count: is 5, expected the 4 tensors of all parts"));
  second.AddTensor("t0", GgmlType::kF32, {8}, std::vector<std::byte>(32));
  second.Write(Path("m-00002-of-00002.gguf"));
  EXPECT_THAT(OpenError("m-00001-of-00002.gguf"),
              HasSubstr("m-00002-of-00002.gguf: tensor t0: is also in another part"));
}

}  // namespace
}  // namespace numoe
