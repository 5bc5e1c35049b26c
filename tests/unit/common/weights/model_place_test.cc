// Where a model is: folders and files, Hugging Face's cache, names of repositories, and models that do not
// exist.
#include "common/weights/model_place.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kCommit[] = "0123456789abcdef0123456789abcdef01234567";

class ModelPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("HF_HUB_CACHE", Path("hub").c_str(), 1);
    setenv("XDG_CACHE_HOME", Path("cache").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HF_HUB_CACHE");
    unsetenv("XDG_CACHE_HOME");
  }

  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string MakeFolder(const std::string& name) const {
    std::filesystem::create_directories(Path(name));
    return Path(name);
  }
  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(Path(name)).parent_path());
    std::ofstream(Path(name)) << text;
  }
  static std::string Refused(const std::string& asked) {
    const absl::StatusOr<ModelPlace> found = FindModel(asked);
    EXPECT_TRUE(absl::IsNotFound(found.status())) << found.status();
    return std::string(found.status().message());
  }

  const TemporaryFolder folder_;
};

TEST_F(ModelPlaceTest, FoldersAndFilesAreUsedAsGiven) {
  const std::string folder = MakeFolder("kimi");
  Write("files/tiny.Q4_K_M.gguf", "x");
  for (const std::string& asked : {folder, folder + "/", folder + "/../kimi"}) {
    const auto found = FindModel(asked);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->path, asked);
    EXPECT_EQ(found->name, "kimi");
  }
  EXPECT_EQ(FindModel(Path("files/tiny.Q4_K_M.gguf"))->name, "tiny.Q4_K_M");
}

TEST_F(ModelPlaceTest, SnapshotsOfATrainingAreNotACache) {
  MakeFolder("training/snapshots/step1");
  Write("training/config.json", "{}");
  EXPECT_EQ(FindModel(Path("training"))->path, Path("training"));
}

TEST_F(ModelPlaceTest, ALinkKeepsItsOwnName) {
  Write("blobs/8f3a", "x");
  std::filesystem::create_symlink(Path("blobs/8f3a"), Path("tiny.gguf"));
  EXPECT_EQ(FindModel(Path("tiny.gguf"))->name, "tiny");
}

TEST_F(ModelPlaceTest, ARepositoryIsFoundInTheCacheByNameFolderAndSnapshot) {
  const std::string cached = "hub/models--Qwen--Qwen3-30B-A3B", snapshot = cached + "/snapshots/" + kCommit;
  MakeFolder(snapshot);
  MakeFolder(cached + "/snapshots/older");
  Write(cached + "/refs/main", kCommit);
  for (const std::string& asked : {std::string("Qwen/Qwen3-30B-A3B"), Path(cached), Path(snapshot)}) {
    const auto found = FindModel(asked);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->path, Path(snapshot));
    EXPECT_EQ(found->name, "Qwen/Qwen3-30B-A3B");
  }
}

TEST_F(ModelPlaceTest, WithoutARefTheOnlySnapshotIsMeant) {
  MakeFolder("hub/models--a--b/snapshots/" + std::string(kCommit));
  EXPECT_EQ(FindModel("a/b")->path, Path("hub/models--a--b/snapshots/" + std::string(kCommit)));
  MakeFolder("hub/models--a--b/snapshots/other");
  EXPECT_THAT(Refused("a/b"), AllOf(HasSubstr("2 snapshots: 0123"), HasSubstr("snapshots/COMMIT")));
  // A ref is a file that may contain anything: only the name of a snapshot counts.
  Write("hub/models--a--b/refs/main", "../../../../etc");
  EXPECT_THAT(Refused("a/b"), HasSubstr("2 snapshots"));
}

TEST_F(ModelPlaceTest, AWholeDownloadComesBeforeParts) {
  Write("cache/numoe/a--b/READY", "");
  Write("cache/numoe/a--b--c/READY", "");
  MakeFolder("hub/models--a--b/snapshots");
  EXPECT_EQ(FindModel("a/b")->path, Path("cache/numoe/a--b"));
}

TEST_F(ModelPlaceTest, AFolderThatMayNotBeEnteredIsNotAMissingOne) {
  if (geteuid() == 0) GTEST_SKIP() << "root may enter every folder";
  Write("closed/model/config.json", "{}");
  std::filesystem::permissions(Path("closed"), std::filesystem::perms::none);
  const absl::StatusOr<ModelPlace> found = FindModel(Path("closed/model"));
  std::filesystem::permissions(Path("closed"), std::filesystem::perms::owner_all);
  EXPECT_THAT(found.status().ToString(),
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("may not look into")));
}

TEST_F(ModelPlaceTest, ADownloadOfTheQuickstartIsFound) {
  Write("cache/numoe/a--b/config.json", "{}");
  EXPECT_THAT(Refused("a/b"), HasSubstr("numoe-download")) << "it is not complete";
  Write("cache/numoe/a--b/READY", "");
  EXPECT_EQ(FindModel("a/b")->path, Path("cache/numoe/a--b"));
  EXPECT_EQ(FindModel("a/b")->name, "a/b");
  EXPECT_THAT(Refused("a/bc"), HasSubstr("numoe-download"));
  // Those files of a repository that patterns selected.
  Write("cache/numoe/q--gguf--_Q4_K_M.gguf/READY", "");
  EXPECT_EQ(FindModel("q/gguf")->path, Path("cache/numoe/q--gguf--_Q4_K_M.gguf"));
  Write("cache/numoe/q--gguf--_Q8_0.gguf/READY", "");
  MakeFolder("hub/models--q--gguf/snapshots");  // an empty one hides nothing
  EXPECT_THAT(Refused("q/gguf"), AllOf(HasSubstr("2 downloads"),
                                       HasSubstr("--model=" + Path("cache/numoe/q--gguf--_Q8_0.gguf"))));
}

TEST_F(ModelPlaceTest, MissingModelsAreNamedWithWhatToDo) {
  EXPECT_THAT(
      Refused("Qwen/Qwen3-30B-A3B"),
      AllOf(HasSubstr("numoe-download --repo Qwen/Qwen3-30B-A3B --to FOLDER"), HasSubstr(Path("hub"))));
  for (const std::string& asked :
       {Path("nothing"), std::string("nothing"), std::string("a/b/c"), std::string("../x")})
    EXPECT_THAT(Refused(asked), AllOf(HasSubstr("--model=" + asked), HasSubstr("ORG/NAME")));
}

}  // namespace
}  // namespace numoe
