// numoe-pack.json: the text of a packed model's manifest.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/weights_limits.h"
#include "expert_worker/experts/packed_slice.h"

namespace numoe::worker {
namespace {

using nlohmann::json;

// Version 1's model_fingerprint covered the names and sizes of the weights, but not their content.
constexpr int kManifestVersion = 2;

// FailedPrecondition if an older program wrote the manifest: what it describes can be removed without loss.
absl::Status CheckVersion(const json& manifest, const std::string& name) {
  const json version = manifest.is_object() && manifest.contains("version") ? manifest["version"] : json();
  if (version.is_number_integer() && version == kManifestVersion) return absl::OkStatus();
  const std::string found = fmt::format("{}: version is {}, expected {}", name,
                                        version.is_null() ? "missing" : Brief(version), kManifestVersion);
  if (version.is_number_integer() && version >= 1 && version < kManifestVersion) {
    return absl::FailedPreconditionError(
        found + ": an older program packed it; convert the checkpoint again into the same folder");
  }
  return absl::InvalidArgumentError(
      found +
      ": another program's numoe-pack wrote it, or it is damaged; convert the checkpoint again with "
      "this program's numoe-pack into an empty folder");
}

// Reads fields that must exist and be within their bounds; the first one that is not becomes the error.
class ManifestReader {
 public:
  ManifestReader(const json& manifest, const std::string& name) : manifest_(manifest), name_(name) {}

  int Int(const char* key, int low, int high) {
    const json value = Get(key);
    if (value.is_number_integer() && value >= low && value <= high) return value.get<int>();
    Fail(key, value, fmt::format("expected {} to {}", low, high));
    return low;
  }
  std::string Text(const char* key) {
    const json value = Get(key);
    if (value.is_string()) return value.get<std::string>();
    Fail(key, value, "expected a string");
    return "";
  }
  void Fail(const char* key, const json& value, const std::string& expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        fmt::format("{}: {} is {}, {}; convert the checkpoint again into an empty folder", name_, key,
                    value.is_null() ? "missing" : Brief(value), expected));
  }
  json Get(const char* key) const {
    return manifest_.is_object() && manifest_.contains(key) ? manifest_[key] : json();
  }
  const absl::Status& status() const { return status_; }

 private:
  const json& manifest_;
  const std::string& name_;
  absl::Status status_;
};

void ReadModel(ManifestReader& reader, ModelConfig& config) {
  config.hidden_size = reader.Int("hidden_size", 1, limits::kHiddenSizeMax);
  config.moe_intermediate_size = reader.Int("moe_intermediate_size", 1, limits::kHiddenSizeMax);
  config.num_experts = reader.Int("num_experts", 1, limits::kExpertsMax);
  config.experts_per_token = reader.Int("experts_per_token", 1, limits::kExpertsPerTokenMax);
  config.num_layers = reader.Int("num_layers", 1, limits::kLayersMax);
  config.layer_is_moe.assign(static_cast<size_t>(config.num_layers), false);
  const json layers = reader.Get("moe_layers");
  bool good = layers.is_array() && !layers.empty();
  for (const json& layer : good ? layers : json::array()) {
    good = good && layer.is_number_integer() && layer >= 0 && layer < config.num_layers;
    if (good) config.layer_is_moe[layer.get<size_t>()] = true;
  }
  if (!good)
    reader.Fail("moe_layers", layers, fmt::format("expected layers of 0 to {}", config.num_layers - 1));
}

// Reads one format for each MoE layer, in their order.
void ReadFormats(ManifestReader& reader, PackedModel& model) {
  const json formats = reader.Get("formats");
  const std::vector<bool>& is_moe = model.config.layer_is_moe;
  const auto wanted = static_cast<size_t>(std::count(is_moe.begin(), is_moe.end(), true));
  if (!formats.is_array() || formats.size() != wanted)
    return reader.Fail("formats", formats,
                       fmt::format("expected {} formats, one for each MoE layer", wanted));
  model.formats.resize(is_moe.size());
  auto format = formats.begin();
  for (size_t layer = 0; layer < is_moe.size(); ++layer) {
    if (!is_moe[layer]) continue;
    const absl::StatusOr<ExpertFormats> parsed =
        ParseFormats(format->is_string() ? format->get<std::string>() : "");
    if (!parsed.ok())
      return reader.Fail("formats", *format, "expected a weight format, such as int8 or q4_k/int8");
    model.formats[layer] = *parsed;
    ++format;
  }
}

}  // namespace

std::string SerialiseManifest(const PackedModel& model) {
  json manifest = {{"version", kManifestVersion},
                   {"formats", json::array()},
                   {"slice", SliceModeName(model.mode)},
                   {"worker_count", model.worker_count},
                   {"model_fingerprint", fmt::format("{:016x}", model.model_fingerprint)},
                   {"hidden_size", model.config.hidden_size},
                   {"moe_intermediate_size", model.config.moe_intermediate_size},
                   {"num_experts", model.config.num_experts},
                   {"experts_per_token", model.config.experts_per_token},
                   {"num_layers", model.config.num_layers},
                   {"moe_layers", json::array()}};
  for (size_t layer = 0; layer < model.config.layer_is_moe.size(); ++layer) {
    if (!model.config.layer_is_moe[layer]) continue;
    manifest["moe_layers"].push_back(layer);
    manifest["formats"].push_back(FormatsName(model.formats[layer]));
  }
  return manifest.dump(1) + "\n";
}

absl::StatusOr<PackedModel> ParseManifest(std::string_view text, const std::string& name) {
  ASSIGN_OR_RETURN(const json manifest, ParseStrictJson(text, name));
  RETURN_IF_ERROR(CheckVersion(manifest, name));
  ManifestReader reader(manifest, name);
  PackedModel model;
  const std::string slice = reader.Text("slice");
  model.mode = slice == SliceModeName(SliceMode::kExpert) ? SliceMode::kExpert : SliceMode::kIntermediate;
  if (slice != SliceModeName(model.mode)) reader.Fail("slice", slice, "expected intermediate or expert");
  model.worker_count = reader.Int("worker_count", 1, limits::kWorkersMax);
  const std::string fingerprint = reader.Text("model_fingerprint");
  if (fingerprint.size() != 16 || fingerprint.find_first_not_of("0123456789abcdef") != std::string::npos)
    reader.Fail("model_fingerprint", fingerprint, "expected 16 hexadecimal digits");
  model.model_fingerprint = std::strtoull(fingerprint.c_str(), nullptr, 16);
  ReadModel(reader, model.config);
  ReadFormats(reader, model);
  RETURN_IF_ERROR(reader.status());
  return model;
}

}  // namespace numoe::worker
