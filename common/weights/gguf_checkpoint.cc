#include "common/weights/gguf_checkpoint.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/gguf_names.h"
#include "common/weights/nearest_names.h"

namespace numoe {
namespace {

constexpr std::string_view kWeight = ".weight";

std::optional<DType> PlainDType(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return DType::kF32;
    case GgmlType::kF16:
      return DType::kF16;
    case GgmlType::kBF16:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

MatrixFormat FormatOf(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return MatrixFormat::kF32;
    case GgmlType::kF16:
      return MatrixFormat::kF16;
    case GgmlType::kBF16:
      return MatrixFormat::kBF16;
    default:
      return MatrixFormat::kGgml;
  }
}

// Returns rows [first, first + rows) of a tensor that is seen as rows of `cols` values.
MatrixView RowsOf(const GgufTensor& tensor, int64_t first, int64_t rows, int64_t cols) {
  const GgmlTraits& traits = TraitsOf(tensor.type);
  const int64_t row_bytes = cols / traits.block_values * traits.block_bytes;
  NUMOE_CHECK(first >= 0 && rows > 0 && cols % traits.block_values == 0);
  // A part of a span is cut at its end without an error, so this checks it.
  NUMOE_CHECK_LE(static_cast<size_t>((first + rows) * row_bytes), tensor.data.size());
  return {.format = FormatOf(tensor.type),
          .rows = rows,
          .cols = cols,
          .data = tensor.data.subspan(static_cast<size_t>(first * row_bytes),
                                      static_cast<size_t>(rows * row_bytes)),
          .scales = {},
          .ggml = tensor.type};
}

class GgufCheckpoint final : public Checkpoint {
 public:
  explicit GgufCheckpoint(std::unique_ptr<GgufModel> model) : model_(std::move(model)) {}

  bool Has(std::string_view tensor) const override {
    const std::optional<std::string> name = GgufName(tensor);
    return name && model_->contents().Tensor(*name) != nullptr;
  }

  absl::StatusOr<TensorView> Find(std::string_view tensor) const override {
    ASSIGN_OR_RETURN(const Named found, FindNamed(tensor));
    const std::optional<DType> dtype = PlainDType(found.tensor->type);
    if (dtype) return TensorView{.dtype = *dtype, .shape = found.tensor->shape, .data = found.tensor->data};
    return TensorError(found.name,
                       fmt::format("{} blocks, expected F32, F16 or BF16", TypeName(*found.tensor)));
  }

  absl::StatusOr<std::vector<float>> ReadVector(std::string_view tensor, int64_t size) const override {
    ASSIGN_OR_RETURN(const Named found, FindNamed(tensor));
    RETURN_IF_ERROR(ExpectShape(found, {size}));
    std::vector<float> values(static_cast<size_t>(size));
    DecodeMatrix(RowsOf(*found.tensor, 0, 1, size), 0, 1, 0, size, absl::MakeSpan(values));
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i]))
        return TensorError(found.name,
                           fmt::format("element {} is {}, expected a finite number", i, values[i]));
    }
    return values;
  }

  absl::StatusOr<MatrixView> FindMatrix(std::string_view module, int64_t rows, int64_t cols,
                                        const ModelConfig& config) const override {
    if (const auto expert = ParseExpertModule(module)) return FindExpert(*expert, rows, cols, config);
    ASSIGN_OR_RETURN(const Named found, FindNamed(std::string(module).append(kWeight)));
    // A matrix for each head is stored in three dimensions.
    const Shape& shape = found.tensor->shape;
    if (shape.size() == 3 && shape[2] == cols && shape[0] <= rows && shape[0] * shape[1] == rows)
      return RowsOf(*found.tensor, 0, rows, cols);
    RETURN_IF_ERROR(ExpectShape(found, {rows, cols}));
    return RowsOf(*found.tensor, 0, rows, cols);
  }

  const MappedFile* FileOf(absl::Span<const std::byte> bytes) const override { return model_->FileOf(bytes); }

  std::string DescribeBytes(absl::Span<const std::byte> bytes) const override {
    const MappedFile* file = FileOf(bytes);
    for (const auto& [name, tensor] : model_->contents().tensors) {
      const std::byte* begin = tensor.data.data();
      if (file != nullptr && bytes.data() >= begin && bytes.data() < begin + tensor.data.size())
        return fmt::format("{}: tensor {}", file->path().string(), Printable(name));
    }
    return model_->path();
  }

  std::vector<std::string> TensorNames() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : model_->contents().tensors) names.push_back(name);
    return names;
  }
  uint64_t TotalBytes() const override { return model_->TotalBytes(); }
  absl::StatusOr<uint64_t> Fingerprint() const override { return model_->Fingerprint(); }

 private:
  struct Named {
    std::string name;
    const GgufTensor* tensor;
  };

  static const char* TypeName(const GgufTensor& tensor) { return TraitsOf(tensor.type).name; }

  absl::Status TensorError(std::string_view tensor, const std::string& message) const {
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor {}: {}", model_->path(), Printable(tensor), message));
  }

  absl::Status ExpectShape(const Named& found, const Shape& expected) const {
    if (found.tensor->shape == expected) return absl::OkStatus();
    return TensorError(found.name, fmt::format("shape {}, expected {} by the metadata",
                                               ShapeToString(found.tensor->shape), ShapeToString(expected)));
  }

  absl::StatusOr<Named> FindNamed(std::string_view tensor) const {
    const std::string name = GgufName(tensor).value_or(std::string(tensor));
    const GgufTensor* found = model_->contents().Tensor(name);
    if (found != nullptr) return Named{name, found};
    return absl::NotFoundError(fmt::format("{}: tensor {}: is missing, expected by the metadata{}",
                                           model_->path(), Printable(name),
                                           NearestNames(model_->contents().tensors, name)));
  }

  absl::StatusOr<MatrixView> FindExpert(const ExpertModule& m, int64_t rows, int64_t cols,
                                        const ModelConfig& config) const {
    const GgufFile& file = model_->contents();
    const int64_t experts = config.num_experts;
    if (m.expert >= experts)
      return absl::NotFoundError(fmt::format("{}: expert {} of {}", model_->path(), m.expert, experts));
    const std::string merged = fmt::format("blk.{}.ffn_{}_exps.weight", m.layer, m.part);
    if (const GgufTensor* tensor = file.Tensor(merged)) {
      RETURN_IF_ERROR(ExpectShape({merged, tensor}, {experts, rows, cols}));
      return RowsOf(*tensor, m.expert * rows, rows, cols);
    }
    const std::string fused = fmt::format("blk.{}.ffn_gate_up_exps.weight", m.layer);
    if (const GgufTensor* tensor = file.Tensor(fused); tensor != nullptr && m.part != "down") {
      RETURN_IF_ERROR(ExpectShape({fused, tensor}, {experts, 2 * rows, cols}));
      return RowsOf(*tensor, (2 * m.expert + (m.part == "up" ? 1 : 0)) * rows, rows, cols);
    }
    const std::string alone = fmt::format("blk.{}.ffn_{}.{}.weight", m.layer, m.part, m.expert);
    if (const GgufTensor* tensor = file.Tensor(alone)) {
      RETURN_IF_ERROR(ExpectShape({alone, tensor}, {rows, cols}));
      return RowsOf(*tensor, 0, rows, cols);
    }
    return absl::NotFoundError(fmt::format("{}: tensor {}: is missing, expected by the metadata{}",
                                           model_->path(), merged, NearestNames(file.tensors, merged)));
  }

  const std::unique_ptr<GgufModel> model_;
};

}  // namespace

std::unique_ptr<Checkpoint> MakeGgufCheckpoint(std::unique_ptr<GgufModel> model) {
  return std::make_unique<GgufCheckpoint>(std::move(model));
}

}  // namespace numoe
