#include "common/weights/model_place.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCachePrefix = "models--", kCacheSlash = "--";
constexpr size_t kCommitBytesMax = 256;

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::optional<std::string> FromEnvironment(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing sets variables
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// Returns where huggingface_hub stores what it downloads; nullopt if there is no home directory.
std::optional<fs::path> CacheFolder() {
  if (const auto hub = FromEnvironment("HF_HUB_CACHE")) return *hub;
  if (const auto home = FromEnvironment("HF_HOME")) return fs::path(*home) / "hub";
  if (const auto cache = FromEnvironment("XDG_CACHE_HOME")) return fs::path(*cache) / "huggingface/hub";
  if (const auto home = FromEnvironment("HOME")) return fs::path(*home) / ".cache/huggingface/hub";
  return std::nullopt;
}

// Where deploy/quickstart.sh --download keeps what it downloads; nullopt if there is no home to look in.
std::optional<fs::path> OwnFolder() {
  if (const auto cache = FromEnvironment("XDG_CACHE_HOME")) return fs::path(*cache) / "numoe";
  if (const auto home = FromEnvironment("HOME")) return fs::path(*home) / ".cache/numoe";
  return std::nullopt;
}

// Returns the complete downloads (they have a file READY) of the repository ORG--NAME in our own folder: all
// of it, or files of it that patterns chose, ORG--NAME--PATTERNS.
std::vector<std::string> OwnDownloads(const std::string& repository) {
  std::vector<std::string> parts;
  const std::optional<fs::path> own = OwnFolder();
  if (!own) return parts;
  std::error_code error;
  if (fs::exists(*own / repository / "READY", error)) return {(*own / repository).string()};
  for (const fs::directory_entry& entry : fs::directory_iterator(*own, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(repository + std::string(kCacheSlash), 0) != 0) continue;
    if (fs::exists(entry.path() / "READY", error)) parts.push_back(entry.path().string());
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

// Returns ORG/NAME for a folder models--ORG--NAME; "" for others.
std::string RepositoryOf(const fs::path& folder) {
  std::string name = folder.filename().string();
  if (name.rfind(kCachePrefix, 0) != 0) return "";
  name.erase(0, kCachePrefix.size());
  if (const size_t slash = name.find(kCacheSlash); slash != std::string::npos)
    name.replace(slash, kCacheSlash.size(), "/");
  return name;
}

bool IsRepository(const std::string& text) {
  const auto is_name = [](std::string_view part) {
    const auto fits = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
             c == '_' || c == '.';
    };
    return !part.empty() && part[0] != '.' && std::all_of(part.begin(), part.end(), fits);
  };
  const size_t slash = text.find('/');
  return slash != std::string::npos && is_name(std::string_view(text).substr(0, slash)) &&
         is_name(std::string_view(text).substr(slash + 1));
}

std::vector<std::string> Snapshots(const fs::path& cached) {
  std::vector<std::string> commits;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(cached / "snapshots", error))
    if (IsFolder(entry.path())) commits.push_back(entry.path().filename().string());
  std::sort(commits.begin(), commits.end());
  return commits;
}

// Returns the snapshot of a folder of the cache that refs/main names, or the only one.
absl::StatusOr<ModelPlace> InCache(const fs::path& cached) {
  std::string commit;
  if (std::ifstream file(cached / "refs/main"); file) {
    char text[kCommitBytesMax];
    file.getline(text, sizeof text);
    commit = text;
  }
  const std::vector<std::string> commits = Snapshots(cached);
  const std::string name = RepositoryOf(cached);
  if (std::find(commits.begin(), commits.end(), commit) == commits.end()) {
    if (commits.size() != 1) {
      return absl::NotFoundError(
          fmt::format("{} is a folder of Hugging Face's cache with {} snapshots{}{}, and its refs/main names "
                      "none of them; give one of "
                      "them as --model={}/snapshots/COMMIT, or download it again",
                      cached.string(), commits.size(), commits.empty() ? "" : ": ", fmt::join(commits, ", "),
                      cached.string()));
    }
    commit = commits.front();
  }
  return ModelPlace{.path = cached / "snapshots" / commit,
                    .name = name.empty() ? cached.filename().string() : name};
}

// It uses the name that was given and not the target of a link, because files of the cache are links to files
// that are named by a hash.
std::string NameOf(const std::string& model) {
  std::error_code error;
  fs::path path = fs::absolute(model, error).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();  // FOLDER/
  if (path.parent_path().filename() == "snapshots") {
    const std::string repository = RepositoryOf(path.parent_path().parent_path());
    if (!repository.empty()) return repository;
  }
  return (path.extension() == ".gguf" ? path.stem() : path.filename()).string();
}

}  // namespace

absl::StatusOr<ModelPlace> FindModel(const std::string& asked) {
  NUMOE_CHECK(!asked.empty());
  std::error_code error;
  // A folder of a training may have snapshots, too, but it contains a model of its own.
  if (IsFolder(fs::path(asked) / "snapshots") && !fs::exists(fs::path(asked) / "config.json", error))
    return InCache(asked);
  if (fs::exists(asked, error)) return ModelPlace{.path = asked, .name = NameOf(asked)};
  if (error == std::errc::permission_denied) {
    return absl::PermissionDeniedError(
        fmt::format("--model={}: user {} may not look into the folder that it is in, or the folder that a "
                    "link leads to; give this "
                    "user the right to read the model and to enter the folders above it",
                    asked, geteuid()));
  }
  if (!IsRepository(asked)) {
    return absl::NotFoundError(
        fmt::format("--model={}: there is no such folder or file here; expected the folder of a checkpoint "
                    "(config.json and "
                    "*.safetensors), a .gguf file, or the name of a repository, ORG/NAME",
                    asked));
  }
  const std::optional<fs::path> cache = CacheFolder();
  std::string folder(asked);
  folder.replace(folder.find('/'), 1, kCacheSlash);
  const fs::path cached = cache ? *cache / (std::string(kCachePrefix) + folder) : fs::path();
  absl::StatusOr<ModelPlace> place = absl::NotFoundError("");
  if (cache && IsFolder(cached)) place = InCache(cached);
  if (place.ok()) return place;
  const std::vector<std::string> own = OwnDownloads(folder);
  if (own.size() == 1) return ModelPlace{.path = own.front(), .name = asked};
  if (own.size() > 1) {
    return absl::NotFoundError(fmt::format(
        "--model={}: there are {} downloads of parts of this repository; start with one of --model={}", asked,
        own.size(), fmt::join(own, " or --model=")));
  }
  if (cache && IsFolder(cached)) return place;
  return absl::NotFoundError(fmt::format(
      "--model={0}: there is no such folder here{1}. Download it with `numoe-download --repo {0} --to "
      "FOLDER` (deploy/download/numoe-download), for a GGUF repository with --include '*Q4_K_M*' or the "
      "like, and start with --model=FOLDER",
      asked, cache ? fmt::format(", and no copy in Hugging Face's cache ({})", cache->string()) : ""));
}

}  // namespace numoe
