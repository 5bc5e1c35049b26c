#include "expert_worker/experts/expert_formats.h"

#include <fmt/format.h>

#include <set>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace numoe::worker {
namespace {

// Collects how experts in GGUF's block formats are held, for the log.
struct GgufUse {
  std::set<std::string> exact, rounded;  // "Q4_1 as int8"

  void Count(const MatrixView& view, WeightFormat format) {
    if (view.format != MatrixFormat::kGgml) return;
    const bool keeps =
        GgmlTypeOf(format) == view.ggml || (format == WeightFormat::kInt8 && GgmlIsInt8(view.ggml));
    (keeps ? exact : rounded)
        .insert(fmt::format("{} as {}", TraitsOf(view.ggml).name, WeightFormatName(format)));
  }
  void Log() const {
    if (exact.empty() && rounded.empty()) return;
    LogInfo("experts in GGUF formats are held{}{}{}",
            exact.empty() ? "" : fmt::format(" exactly: {}", fmt::join(exact, ", ")),
            exact.empty() || rounded.empty() ? "" : ";",
            rounded.empty() ? "" : fmt::format(" rounded: {}", fmt::join(rounded, ", ")));
  }
};

// All experts of a layer are stored like the first one.
struct Stored {
  MatrixView gate, up, down;
};
absl::StatusOr<Stored> LocateFirst(const Checkpoint& checkpoint, const ModelConfig& config, LayerId layer) {
  NUMOE_CHECK(0 <= layer && layer < config.num_layers && config.layer_is_moe[static_cast<size_t>(layer)]);
  const int hidden = config.hidden_size, width = config.moe_intermediate_size;
  const auto locate = [&](const char* part, int rows, int cols) {
    return checkpoint.LocateMatrix(ExpertModuleName(config, layer, 0, part), rows, cols, config);
  };
  Stored stored;
  ASSIGN_OR_RETURN(stored.gate, locate("gate", width, hidden));
  ASSIGN_OR_RETURN(stored.up, locate("up", width, hidden));
  ASSIGN_OR_RETURN(stored.down, locate("down", hidden, width));
  return stored;
}

ExpertFormats NativeFormats(const Stored& stored, const ModelConfig& config, const SliceSpec& spec) {
  const WeightFormat gate = NativeFormat(stored.gate), up = NativeFormat(stored.up);
  ExpertFormats formats{.up = gate == up ? up : WeightFormat::kInt8, .down = NativeFormat(stored.down)};
  if (GgmlTypeOf(formats.down) && CutsBlocks(spec, config, formats.down, /*is_down=*/true))
    formats.down = WeightFormat::kInt8;
  return formats;
}

}  // namespace

std::string ExpertModuleName(const ModelConfig& config, LayerId layer, ExpertId expert, const char* part) {
  return fmt::format("{}model.layers.{}.mlp.experts.{}.{}_proj", config.tensor_prefix, layer, expert, part);
}

absl::StatusOr<std::vector<ExpertFormats>> ChooseFormats(const Checkpoint& checkpoint,
                                                         const ModelConfig& config, const SliceSpec& spec,
                                                         std::optional<WeightFormat> wanted) {
  GgufUse gguf;
  std::vector<ExpertFormats> formats(static_cast<size_t>(config.num_layers));
  bool any = false;
  for (LayerId layer = 0; layer < config.num_layers; ++layer) {
    if (!config.layer_is_moe[layer]) continue;
    any = true;
    ASSIGN_OR_RETURN(const Stored stored, LocateFirst(checkpoint, config, layer));
    ExpertFormats& chosen = formats[static_cast<size_t>(layer)];
    chosen = wanted ? ExpertFormats{*wanted, *wanted} : NativeFormats(stored, config, spec);
    gguf.Count(stored.gate, chosen.up);
    gguf.Count(stored.up, chosen.up);
    gguf.Count(stored.down, chosen.down);
  }
  if (!any)
    return absl::InvalidArgumentError("the model has no MoE layer: nothing for an expert worker to do");
  gguf.Log();
  return formats;
}

std::string FormatsName(const ExpertFormats& formats) {
  if (formats.up == formats.down) return std::string(WeightFormatName(formats.up));
  return fmt::format("{}/{}", WeightFormatName(formats.up), WeightFormatName(formats.down));
}

absl::StatusOr<ExpertFormats> ParseFormats(std::string_view name) {
  const size_t slash = name.find('/');
  ExpertFormats formats;
  ASSIGN_OR_RETURN(formats.up, ParseWeightFormat(name.substr(0, slash)));
  formats.down = formats.up;
  if (slash != std::string_view::npos) {
    ASSIGN_OR_RETURN(formats.down, ParseWeightFormat(name.substr(slash + 1)));
  }
  return formats;
}

std::string NamesOf(const std::vector<ExpertFormats>& formats, const ModelConfig& config) {
  NUMOE_CHECK_EQ(formats.size(), config.layer_is_moe.size());
  std::set<WeightFormat> used;
  for (size_t layer = 0; layer < formats.size(); ++layer) {
    if (!config.layer_is_moe[layer]) continue;
    used.insert(formats[layer].up);
    used.insert(formats[layer].down);
  }
  std::string names;
  for (const WeightFormat format : used)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", WeightFormatName(format));
  return names;
}

}  // namespace numoe::worker
