#include "common/weights/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/fingerprint.h"
#include "common/weights/weights_limits.h"

namespace numoe {
namespace {

namespace fs = std::filesystem;

constexpr char kExtension[] = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr size_t kNumberDigits = 5;
constexpr std::string_view kSplitKeys = "split.";  // say which part of how many a file is

struct SplitName {
  std::string stem;  // without -0000I-of-0000N
  int part = 1;      // from 1
  int parts = 1;
};

bool IsNumber(std::string_view text) {
  return text.size() == kNumberDigits && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Parses "name-00002-of-00005.gguf", which is part 2 of 5 of "name". Other names are complete files.
SplitName ParseSplitName(const fs::path& file) {
  const std::string stem = file.stem().string();
  constexpr size_t kTail = 1 + kNumberDigits + kOf.size() + kNumberDigits;
  if (stem.size() > kTail) {
    const std::string_view tail = std::string_view(stem).substr(stem.size() - kTail);
    const std::string_view part = tail.substr(1, kNumberDigits), parts = tail.substr(kTail - kNumberDigits);
    if (tail[0] == '-' && IsNumber(part) && IsNumber(parts) &&
        tail.substr(1 + kNumberDigits, kOf.size()) == kOf) {
      return {stem.substr(0, stem.size() - kTail), std::stoi(std::string(part)),
              std::stoi(std::string(parts))};
    }
  }
  return {stem, 1, 1};
}

fs::path PartOf(const fs::path& dir, const SplitName& name, int part) {
  NUMOE_CHECK(1 <= part && part <= name.parts) << part << " of " << name.parts;
  return dir / fmt::format("{}-{:05}-of-{:05}{}", name.stem, part, name.parts, kExtension);
}

// The projectors of vision models are in the same folder as the model.
bool IsProjector(const fs::path& file) { return file.filename().string().rfind("mmproj", 0) == 0; }

absl::StatusOr<std::optional<fs::path>> LocateInFolder(const fs::path& dir) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    std::error_code ignored;
    if (fs::exists(dir / name, ignored)) return std::nullopt;
  }
  std::map<std::string, fs::path> models;  // from a stem to its file, or its first part
  std::error_code error;
  for (auto it = fs::directory_iterator(dir, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const fs::path& file = it->path();
    if (file.extension() != kExtension || IsProjector(file)) continue;
    const SplitName name = ParseSplitName(file);
    models[name.stem] = name.parts == 1 ? file : PartOf(dir, name, 1);
  }
  if (error) return absl::NotFoundError(fmt::format("{}: {}", dir.string(), error.message()));
  if (models.empty()) return std::nullopt;
  if (models.size() == 1) return models.begin()->second;
  std::string names;
  for (const auto& [stem, file] : models)
    names += (names.empty() ? "" : ", ") + Printable(file.filename().string());
  return absl::InvalidArgumentError(fmt::format("{}: holds {} GGUF models ({}), expected one: name the file",
                                                dir.string(), models.size(), names));
}

}  // namespace

absl::StatusOr<std::optional<fs::path>> GgufModel::Locate(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return LocateInFolder(path);
  if (path.extension() != kExtension) return std::nullopt;
  const SplitName name = ParseSplitName(path);
  return name.parts == 1 ? path : PartOf(path.parent_path(), name, 1);
}

absl::StatusOr<std::unique_ptr<GgufModel>> GgufModel::Open(const fs::path& file) {
  const SplitName name = ParseSplitName(file);
  if (name.parts < 1 || static_cast<size_t>(name.parts) > limits::kCheckpointFilesMax) {
    return absl::InvalidArgumentError(fmt::format("{}: {} parts by its name, expected 1 to {}", file.string(),
                                                  name.parts, limits::kCheckpointFilesMax));
  }
  std::unique_ptr<GgufModel> model(new GgufModel(file));
  for (int part = 1; part <= name.parts; ++part) {
    RETURN_IF_ERROR(
        model->AddPart(name.parts == 1 ? file : PartOf(file.parent_path(), name, part), part, name.parts));
  }
  NUMOE_CHECK_EQ(model->files_.size(), static_cast<size_t>(name.parts));
  RETURN_IF_ERROR(model->CheckTensorCount());
  return model;
}

absl::Status GgufModel::AddPart(const fs::path& file, int part, int parts) {
  NUMOE_CHECK_EQ(files_.size() + 1, static_cast<size_t>(part)) << "parts must be added in order";
  const std::string name = file.string();
  absl::StatusOr<MappedFile> mapped = MappedFile::Open(file);
  if (!mapped.ok() && part > 1)
    return Annotate(mapped.status(), fmt::format("{}: all {} parts are needed", path_, parts));
  if (!mapped.ok()) return mapped.status();
  ASSIGN_OR_RETURN(GgufFile header, ParseGguf(mapped->bytes(), name));
  RETURN_IF_ERROR(CheckSplit(header, name, part, parts));
  for (auto& [tensor, view] : header.tensors) {
    if (!contents_.tensors.emplace(tensor, std::move(view)).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}: tensor {}: is also in another part, expected in one", name, Printable(tensor)));
    }
  }
  if (part == 1) contents_.metadata = std::move(header.metadata);
  total_bytes_ += mapped->bytes().size();
  files_.push_back(*std::move(mapped));
  return absl::OkStatus();
}

absl::Status GgufModel::CheckSplit(const GgufFile& header, const std::string& name, int part, int parts) {
  const auto expect = [&](const char* key, int64_t expected, int64_t absent) {
    const auto it = header.metadata.find(key);
    const std::optional<int64_t> found = it == header.metadata.end() ? absent : it->second.Integer();
    if (found == expected) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "{}: key {}: is {}, expected {}: parts of a split model are named STEM-0000I-of-0000N.gguf", name,
        key, it == header.metadata.end() ? "missing" : it->second.Describe(), expected));
  };
  // The splitting tool writes a count of 0 or 1 into a file that was not split.
  if (parts == 1) {
    const auto it = header.metadata.find("split.count");
    if (it == header.metadata.end() || it->second.Integer() == 0) return absl::OkStatus();
    return expect("split.count", 1, 1);
  }
  RETURN_IF_ERROR(expect("split.count", parts, -1));
  return expect("split.no", part - 1, -1);
}

absl::Status GgufModel::CheckTensorCount() const {
  const GgufValue* count = contents_.Key("split.tensors.count");
  if (files_.size() == 1 || count == nullptr ||
      count->Integer() == static_cast<int64_t>(contents_.tensors.size()))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: key split.tensors.count: is {}, expected the {} tensors of all parts", path_,
                  count->Describe(), contents_.tensors.size()));
}

absl::StatusOr<uint64_t> GgufModel::Fingerprint() const {
  std::vector<std::pair<std::string_view, const GgufValue*>> keys;
  for (const auto& [key, value] : contents_.metadata) {
    if (!key.starts_with(kSplitKeys)) keys.emplace_back(key, &value);
  }
  FingerprintRecord record;
  record.AddText(kFingerprintName);
  record.AddText("metadata");
  record.AddNumber(keys.size());
  for (const auto& [key, value] : keys) {
    record.AddText(key);
    record.AddNumber(static_cast<uint64_t>(value->type));
    record.AddNumber(value->is_array ? 1 : 0);
    record.AddNumber(value->count);
    record.AddHash(value->data);
  }
  std::vector<FingerprintTensor> tensors;
  for (const auto& [name, tensor] : contents_.tensors) {
    tensors.push_back(
        {.name = name, .type = TraitsOf(tensor.type).name, .shape = tensor.shape, .data = tensor.data});
  }
  return FingerprintOf(std::move(record), tensors, files_);
}

const MappedFile* GgufModel::FileOf(absl::Span<const std::byte> bytes) const {
  const auto it =
      std::find_if(files_.begin(), files_.end(), [&](const MappedFile& file) { return file.Holds(bytes); });
  return it == files_.end() ? nullptr : &*it;
}

}  // namespace numoe
