// Fingerprints depend on the weights only: neither on the folder nor on how the tensors are divided into
// files. Each sample counts, and the number is the one that the header defines.
#include "common/weights/fingerprint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "common/weights/checkpoint.h"
#include "common/weights/input_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string Number(uint64_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }
std::string Text(const std::string& text) { return Number(text.size()) + text; }
uint64_t Hash(const std::string& bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void WriteText(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

// A safetensors file with tensors of zero bytes, which are not written.
void WriteZeros(const fs::path& file, const std::vector<std::pair<std::string, uint64_t>>& tensors) {
  std::string header;
  uint64_t at = 0;
  for (const auto& [name, bytes] : tensors) {
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})",
                          header.empty() ? "{" : ",", name, bytes, at, at + bytes);
    at += bytes;
  }
  header += "}";
  WriteText(file, Number(header.size()) + header);
  fs::resize_file(file, fs::file_size(file) + at);
}

// Changes the byte that is `from_end` before the end of the file.
void Flip(const fs::path& file, uint64_t from_end) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(-static_cast<std::streamoff>(from_end), std::ios::end);
  const auto changed = static_cast<char>(stream.get() ^ 1);
  stream.seekp(-static_cast<std::streamoff>(from_end), std::ios::end);
  stream.put(changed);
}

class FingerprintTest : public ::testing::Test {
 protected:
  FingerprintTest() { WriteText(Path("config.json"), "{}"); }
  fs::path Path(const std::string& file) const { return folder_.path() / file; }
  fs::path Weights() const { return Path("model.safetensors"); }

  static absl::StatusOr<uint64_t> Of(const fs::path& model) {
    const auto checkpoint = Checkpoint::Open(model);
    if (!checkpoint.ok()) return checkpoint.status();
    return (*checkpoint)->Fingerprint();
  }
  uint64_t Own() const {
    const absl::StatusOr<uint64_t> fingerprint = Of(folder_.path());
    EXPECT_TRUE(fingerprint.ok()) << fingerprint.status();
    return fingerprint.value_or(0);
  }
  // Returns whether the fingerprint differs if byte `at` of the only tensor, of `bytes` bytes, is changed.
  bool Counts(uint64_t at, uint64_t bytes) const {
    const uint64_t before = Own();
    Flip(Weights(), bytes - at);
    const bool differs = Own() != before;
    Flip(Weights(), bytes - at);
    EXPECT_EQ(Own(), before);
    return differs;
  }

  const TemporaryFolder folder_;
};

TEST_F(FingerprintTest, IsWhatTheHeaderDefines) {
  WriteText(Path("config.json"), "{\"a\": 1}");
  SafetensorsWriter writer;
  std::string large(5000, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 % 251);
  writer.Add("z", DType::kU8, {50, 100}, BytesOf(std::vector<char>(large.begin(), large.end())));
  writer.Add("b", DType::kF32, {2}, BytesOf(std::vector<float>{1.5f, -2}));
  writer.Add("empty", DType::kBF16, {0, 4}, {});
  writer.Write(folder_.path());
  const std::string b = Text("b") + Text("F32") + Number(1) + Number(2) +
                        Number(Hash(std::string("\0\0\xc0\x3f\0\0\0\xc0", 8)));
  const std::string empty = Text("empty") + Text("BF16") + Number(2) + Number(0) + Number(4);
  const std::string z = Text("z") + Text("U8") + Number(2) + Number(50) + Number(100) +
                        Number(Hash(large.substr((5000 - 512) / 2, 512)));
  EXPECT_EQ(Own(), Hash(Text("numoe-fingerprint-2") + Text("config.json") + Number(Hash("{\"a\": 1}")) +
                        Number(3) + Number(Hash(b)) + Number(Hash(empty)) + Number(Hash(z))));
}

TEST_F(FingerprintTest, FoldersAndFilesDoNotMatter) {
  SafetensorsWriter whole;
  for (const char* name : {"a", "b", "c", "d"})
    whole.AddLinear(name, MatrixFormat::kInt4Group, 64, 256, 0.1f);
  whole.Write(folder_.path());
  const uint64_t expected = Own();

  const TemporaryFolder copied;
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(Path(file), copied.path() / file);
  EXPECT_EQ(*Of(copied.path()), expected);

  // The same tensors in two files, assigned to these in turn, with the files' names in either order.
  const auto original = *Checkpoint::Open(copied.path());
  for (const auto& [even, odd] : {std::pair{"1", "2"}, std::pair{"2", "1"}}) {
    SafetensorsWriter writers[2];
    std::string index;
    int dealt = 0;
    for (const std::string& name : original->TensorNames()) {
      const TensorView view = *original->Find(name);
      writers[dealt % 2].Add(name, view.dtype, view.shape, {view.data.begin(), view.data.end()});
      index += fmt::format(R"({}"{}":"{}")", index.empty() ? "" : ",", name, dealt % 2 == 0 ? even : odd);
      ++dealt;
    }
    for (const auto& [writer, name] : {std::pair{&writers[0], even}, std::pair{&writers[1], odd}}) {
      writer->Write(folder_.path());
      fs::rename(Weights(), Path(name));
    }
    WriteText(Path("model.safetensors.index.json"), "{\"weight_map\":{" + index + "}}");
    EXPECT_EQ(Own(), expected);
  }
}

TEST_F(FingerprintTest, NamesTypesShapesAndConfigMatter) {
  std::set<uint64_t> all;
  const auto add = [&](const std::string& name, DType dtype, const Shape& shape, const std::string& config) {
    SafetensorsWriter writer;
    writer.Add(name, dtype, shape, std::vector<std::byte>(16));
    writer.Write(folder_.path());
    WriteText(Path("config.json"), config);
    all.insert(Own());
  };
  add("a", DType::kU8, {16}, "{}");
  add("b", DType::kU8, {16}, "{}");
  add("a", DType::kI8, {16}, "{}");
  add("a", DType::kU8, {4, 4}, "{}");
  add("a", DType::kU8, {2, 8}, "{}");
  add("a", DType::kU8, {16}, "{ }");
  EXPECT_EQ(all.size(), 6u);
}

// A fine-tune changes practically every weight of what it trains, and keeps every header.
TEST_F(FingerprintTest, AnotherTensorOfTheSameShapeMatters) {
  SafetensorsWriter writer;
  writer.AddLinear("bf16", MatrixFormat::kBF16, 64, 96, 0.1f);
  writer.AddLinear("fp8", MatrixFormat::kFp8Block, 128, 256, 0.1f);
  writer.AddLinear("int4", MatrixFormat::kInt4Group, 32, 64, 0.1f);
  writer.Write(folder_.path());
  const std::vector<std::string> names = (*Checkpoint::Open(folder_.path()))->TensorNames();
  std::set<uint64_t> all = {Own()};
  for (const std::string& name : names) {
    for (std::byte& byte : writer.Bytes(name)) byte ^= std::byte{1};
    writer.Write(folder_.path());
    all.insert(Own());
  }
  EXPECT_EQ(all.size(), names.size() + 1);
}

TEST_F(FingerprintTest, AllBytesOfSmallTensorsCount) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{511}, uint64_t{513}, uint64_t{4096}}) {
    WriteZeros(Weights(), {{"only", bytes}});
    for (const uint64_t at : {uint64_t{0}, bytes / 2, bytes - 1}) EXPECT_TRUE(Counts(at, bytes)) << bytes;
  }
  constexpr uint64_t kLarge = kFingerprintWholeBytesMax + 1, kBegin = (kLarge - kFingerprintSampleBytes) / 2;
  WriteZeros(Weights(), {{"only", kLarge}});
  EXPECT_TRUE(Counts(kBegin, kLarge));
  EXPECT_TRUE(Counts(kBegin + kFingerprintSampleBytes - 1, kLarge));
  EXPECT_FALSE(Counts(kBegin - 1, kLarge)) << "it is not a checksum";
  EXPECT_FALSE(Counts(kBegin + kFingerprintSampleBytes, kLarge));
}

TEST_F(FingerprintTest, EveryPieceOfALargeTensorCounts) {
  constexpr uint64_t kTail = 6 << 20, kBytes = 2 * kFingerprintPieceBytes + kTail;
  WriteZeros(Weights(), {{"only", kBytes}});
  constexpr uint64_t kMiddle = kFingerprintPieceBytes / 2;
  for (const uint64_t at : {kMiddle, kMiddle - 256, kMiddle + 255, kFingerprintPieceBytes + kMiddle,
                            2 * kFingerprintPieceBytes + kTail / 2}) {
    EXPECT_TRUE(Counts(at, kBytes)) << at;
  }
}

TEST_F(FingerprintTest, LeavesThePageCacheAsItWas) {
  constexpr uint64_t kBytes = 3 * kFingerprintPieceBytes;
  WriteZeros(Weights(), {{"only", kBytes}});
  const MappedFile mapped = *MappedFile::Open(Weights());
  const auto resident = [&] {
    std::vector<unsigned char> pages((mapped.bytes().size() + kReadAlignment - 1) / kReadAlignment);
    EXPECT_EQ(mincore(const_cast<std::byte*>(mapped.bytes().data()), mapped.bytes().size(), pages.data()), 0);
    return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  };
  {
    const FileDescriptor fd(open(Weights().c_str(), O_RDONLY));
    fsync(fd.get());  // only clean pages can be dropped
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  if (resident() > 0) GTEST_SKIP() << "this file system keeps what it is told to forget";
  const auto checkpoint = Checkpoint::Open(folder_.path());
  const auto before = resident();
  ASSERT_TRUE((*checkpoint)->Fingerprint().ok());
  EXPECT_LE(resident() - before, 3 * 16)
      << "pages of 3 samples; a file system may read a few pages at a time";
}

TEST_F(FingerprintTest, FilesThatAreGoneOrShorterAreNamed) {
  WriteZeros(Weights(), {{"one", 10'000}, {"two", 10'000}});
  const auto checkpoint = *Checkpoint::Open(folder_.path());
  fs::resize_file(Weights(), 15'000);
  EXPECT_THAT(checkpoint->Fingerprint().status().ToString(),
              ::testing::AllOf(HasSubstr(Weights().string() + ": has changed since it was opened"),
                               HasSubstr("start again when it is complete")));
  EXPECT_THAT(Of(folder_.path()).status().ToString(), HasSubstr("is the file truncated?"));
  fs::remove(Weights());
  EXPECT_THAT(checkpoint->Fingerprint().status().ToString(), HasSubstr(Weights().string() + ": cannot open"));
  fs::remove(Path("config.json"));
  EXPECT_THAT(checkpoint->Fingerprint().status().ToString(), HasSubstr("config.json: cannot open"));
}

}  // namespace
}  // namespace numoe
