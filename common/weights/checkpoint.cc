#include "common/weights/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/fingerprint.h"
#include "common/weights/gguf_checkpoint.h"
#include "common/weights/input_file.h"
#include "common/weights/mapped_file.h"
#include "common/weights/matrix_checks.h"
#include "common/weights/nearest_names.h"
#include "common/weights/safetensors.h"
#include "common/weights/weights_limits.h"

namespace numoe {
namespace {

constexpr char kConfigName[] = "config.json";
constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kSingleName[] = "model.safetensors";

using ShardMap = std::map<std::string, std::vector<std::string>>;  // from a file to the tensors in it

bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// Reads the weight_map of an index file. Names are not interpreted, because publishers number their shards in
// different ways.
absl::StatusOr<ShardMap> ParseShardMap(const std::string& text, const std::string& path) {
  ASSIGN_OR_RETURN(const nlohmann::json index, ParseStrictJson(text, path));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}, expected an object with a weight_map", path, Brief(index)));
  }
  if (index["weight_map"].size() > limits::kCheckpointTensorsMax) {
    return absl::InvalidArgumentError(fmt::format("{}: weight_map of {} tensors, expected at most {}", path,
                                                  index["weight_map"].size(), limits::kCheckpointTensorsMax));
  }
  ShardMap shards;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!IsPlainFileName(name)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: tensor {}: file {}, expected the name of a file in the same folder", path,
                      Printable(tensor), Brief(file)));
    }
    shards[name].push_back(tensor);
  }
  if (shards.size() > limits::kCheckpointFilesMax) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} files, expected at most {}", path, shards.size(), limits::kCheckpointFilesMax));
  }
  return shards;
}

// Reads the length and the text of a shard's header, not through its mapping.
absl::StatusOr<std::vector<std::byte>> ReadHead(const MappedFile& mapped) {
  ASSIGN_OR_RETURN(const auto file, InputFile::Open(mapped, /*direct=*/false));
  std::vector<std::byte> head(std::min(mapped.bytes().size(), sizeof(uint64_t)));
  RETURN_IF_ERROR(ReadFully(file->fd(), file->path(), 0, absl::MakeSpan(head)));
  head.resize(std::min(mapped.bytes().size(), SafetensorsHeadBytes(head)));
  RETURN_IF_ERROR(ReadFully(file->fd(), file->path(), 0, absl::MakeSpan(head)));
  return head;
}

class SafetensorsCheckpoint final : public Checkpoint {
 public:
  explicit SafetensorsCheckpoint(std::filesystem::path dir) : dir_(std::move(dir)) {}

  absl::Status OpenAll() {
    std::error_code error;
    if (!std::filesystem::is_directory(dir_, error)) {
      return absl::NotFoundError(
          fmt::format("{}: {}, expected the folder of a checkpoint, with config.json and "
                      "*.safetensors",
                      dir_.string(), error ? error.message() : "not a folder"));
    }
    absl::StatusOr<std::string> index = ReadTextFile(dir_ / kIndexName, limits::kJsonFileBytesMax);
    if (index.ok()) return OpenIndexed(*index);
    if (!absl::IsNotFound(index.status())) return index.status();
    const absl::Status status = OpenShard(kSingleName);
    if (!absl::IsNotFound(status)) return status;
    return absl::NotFoundError(fmt::format(
        "{}: holds neither {} nor {}, expected one of them; what numoe-pack has made is for workers alone",
        dir_.string(), kIndexName, kSingleName));
  }

  bool Has(std::string_view tensor) const override { return tensors_.find(tensor) != tensors_.end(); }

  absl::StatusOr<TensorView> Find(std::string_view tensor) const override {
    const auto it = tensors_.find(tensor);
    if (it != tensors_.end()) return it->second.view;
    return absl::NotFoundError(fmt::format("{}: tensor {}: is missing, expected by config.json{}",
                                           dir_.string(), Printable(tensor), NearestNames(tensors_, tensor)));
  }

  absl::StatusOr<std::vector<float>> ReadVector(std::string_view tensor, int64_t size) const override {
    ASSIGN_OR_RETURN(const TensorView view, Find(tensor));
    if (view.shape != Shape{size}) {
      return TensorError(tensor, fmt::format("shape {}, expected [{}]", ShapeToString(view.shape), size));
    }
    ASSIGN_OR_RETURN(const MatrixFormat format, PlainFormat(tensor, view.dtype));
    std::vector<float> values(size);
    DecodeMatrix({.format = format, .rows = 1, .cols = size, .data = view.data, .scales = {}}, 0, 1, 0, size,
                 absl::MakeSpan(values));
    for (int64_t i = 0; i < size; ++i) {
      if (!std::isfinite(values[i])) {
        return TensorError(tensor, fmt::format("element {} is {}, expected a finite number", i, values[i]));
      }
    }
    return values;
  }

  absl::StatusOr<MatrixView> FindMatrix(std::string_view module, int64_t rows, int64_t cols,
                                        const ModelConfig& config) const override {
    ASSIGN_OR_RETURN(const MatrixView matrix, LocateMatrix(module, rows, cols, config));
    absl::Status status = CheckScales(matrix, 0);
    if (!status.ok()) return Annotate(status, DescribeBytes(matrix.scales));
    status = CheckCodes(matrix, 0);
    if (!status.ok()) return Annotate(status, DescribeBytes(matrix.data));
    return matrix;
  }

  absl::StatusOr<MatrixView> LocateMatrix(std::string_view module, int64_t rows, int64_t cols,
                                          const ModelConfig& config) const override {
    const std::string name(module);
    if (Has(name + ".weight_packed")) return LocateInt4(name, rows, cols, config);
    ASSIGN_OR_RETURN(const TensorView weight, Find(name + ".weight"));
    RETURN_IF_ERROR(ExpectShape(name + ".weight", weight, {rows, cols}));
    if (weight.dtype == DType::kF8E4M3) return LocateFp8(name, weight, config);
    if (Has(name + ".weight_scale_inv")) {
      return TensorError(name + ".weight",
                         fmt::format("dtype {}, expected F8_E4M3 because {}.weight_scale_inv exists",
                                     DTypeName(weight.dtype), name));
    }
    ASSIGN_OR_RETURN(const MatrixFormat format, PlainFormat(name + ".weight", weight.dtype));
    return MatrixView{.format = format, .rows = rows, .cols = cols, .data = weight.data, .scales = {}};
  }

  std::vector<std::string> TensorNames() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }
  uint64_t TotalBytes() const override { return total_bytes_; }

  absl::StatusOr<uint64_t> Fingerprint() const override {
    ASSIGN_OR_RETURN(const std::string config, ReadTextFile(dir_ / kConfigName, limits::kJsonFileBytesMax));
    FingerprintRecord record;
    record.AddText(kFingerprintName);
    record.AddText(kConfigName);
    record.AddHash(config);
    std::vector<FingerprintTensor> tensors;
    for (const auto& [name, tensor] : tensors_) {
      const TensorView& view = tensor.view;
      tensors.push_back(
          {.name = name, .type = DTypeName(view.dtype), .shape = view.shape, .data = view.data});
    }
    return FingerprintOf(std::move(record), tensors, files_);
  }

  const MappedFile* FileOf(absl::Span<const std::byte> bytes) const override {
    const auto it =
        std::find_if(files_.begin(), files_.end(), [&](const MappedFile& file) { return file.Holds(bytes); });
    return it == files_.end() ? nullptr : &*it;
  }

  std::string DescribeBytes(absl::Span<const std::byte> bytes) const override {
    for (const auto& [name, tensor] : tensors_) {
      const absl::Span<const std::byte> data = tensor.view.data;
      if (bytes.data() >= data.data() && bytes.data() < data.data() + data.size())
        return fmt::format("{}: tensor {}", (dir_ / tensor.shard).string(), Printable(name));
    }
    return dir_.string();
  }

 private:
  struct Entry {
    TensorView view;
    std::string shard;
  };

  absl::Status OpenShard(const std::string& shard) {
    ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(dir_ / shard));
    ASSIGN_OR_RETURN(const std::vector<std::byte> head, ReadHead(file));
    ASSIGN_OR_RETURN(SafetensorsHeader header,
                     ParseSafetensorsHeader(head, file.bytes(), (dir_ / shard).string()));
    total_bytes_ += file.bytes().size();
    files_.push_back(std::move(file));
    for (auto& [name, view] : header.tensors) {
      const auto [it, inserted] = tensors_.emplace(name, Entry{std::move(view), shard});
      if (!inserted) return TensorError(name, fmt::format("is also in {}, expected in one file", shard));
    }
    return absl::OkStatus();
  }

  absl::Status OpenIndexed(const std::string& text) {
    const std::string index_path = (dir_ / kIndexName).string();
    ASSIGN_OR_RETURN(const ShardMap shards, ParseShardMap(text, index_path));
    for (const auto& [shard, names] : shards) {
      const absl::Status status = OpenShard(shard);
      if (!status.ok()) return Annotate(status, index_path);
      for (const std::string& name : names) {
        const auto it = tensors_.find(name);
        if (it == tensors_.end() || it->second.shard != shard) {
          return absl::InvalidArgumentError(
              fmt::format("{}: tensor {}: expected in {}, found {}", index_path, Printable(name), shard,
                          it == tensors_.end() ? "nowhere" : "in " + it->second.shard));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<MatrixView> LocateFp8(const std::string& module, const TensorView& weight,
                                       const ModelConfig& config) const {
    const std::string scale_name = module + ".weight_scale_inv";
    NUMOE_CHECK_EQ(weight.shape.size(), 2u);
    NUMOE_CHECK(config.fp8_block_rows > 0 && config.fp8_block_cols > 0);
    ASSIGN_OR_RETURN(const TensorView scale, Find(scale_name));
    MatrixView matrix{.format = MatrixFormat::kFp8Block,
                      .rows = weight.shape[0],
                      .cols = weight.shape[1],
                      .data = weight.data,
                      .scales = scale.data,
                      .scale_dtype = scale.dtype,
                      .block_rows = config.fp8_block_rows,
                      .block_cols = config.fp8_block_cols};
    const int64_t scale_rows = (matrix.rows + matrix.block_rows - 1) / matrix.block_rows;
    const int64_t scale_cols = (matrix.cols + matrix.block_cols - 1) / matrix.block_cols;
    RETURN_IF_ERROR(ExpectShape(scale_name, scale, {scale_rows, scale_cols}));
    RETURN_IF_ERROR(ExpectScaleType(scale_name, scale));
    return matrix;
  }

  absl::StatusOr<MatrixView> LocateInt4(const std::string& module, int64_t rows, int64_t cols,
                                        const ModelConfig& config) const {
    const std::string packed_name = module + ".weight_packed";
    const std::string scale_name = module + ".weight_scale";
    ASSIGN_OR_RETURN(const TensorView packed, Find(packed_name));
    ASSIGN_OR_RETURN(const TensorView scale, Find(scale_name));
    const int64_t group = config.int4_group_size;
    NUMOE_CHECK_GT(group, 0);
    for (const char* part : {".weight_zero_point", ".weight_g_idx"}) {
      if (Has(module + part)) {
        return TensorError(module + part,
                           "is present, expected symmetric groups in column order, which have none");
      }
    }
    if (packed.dtype != DType::kI32) {
      return TensorError(packed_name, fmt::format("dtype {}, expected I32", DTypeName(packed.dtype)));
    }
    if (cols % group != 0) {
      return TensorError(packed_name,
                         fmt::format("{} columns, expected a multiple of the group size {}", cols, group));
    }
    RETURN_IF_ERROR(ExpectShape(packed_name, packed, {rows, (cols + 7) / 8}));
    RETURN_IF_ERROR(ExpectShape(scale_name, scale, {rows, cols / group}));
    RETURN_IF_ERROR(ExpectScaleType(scale_name, scale));
    RETURN_IF_ERROR(CheckInt4Shape(module + ".weight_shape", rows, cols));
    return MatrixView{.format = MatrixFormat::kInt4Group,
                      .rows = rows,
                      .cols = cols,
                      .data = packed.data,
                      .scales = scale.data,
                      .scale_dtype = scale.dtype,
                      .block_rows = 1,
                      .block_cols = config.int4_group_size};
  }

  // weight_shape contains [rows, cols]; the library writes I64, and some published files I32.
  absl::Status CheckInt4Shape(const std::string& name, int64_t rows, int64_t cols) const {
    ASSIGN_OR_RETURN(const TensorView view, Find(name));
    if (view.shape != Shape{2} || (view.dtype != DType::kI32 && view.dtype != DType::kI64)) {
      return TensorError(name, fmt::format("{} {}, expected I32 or I64 [2]", DTypeName(view.dtype),
                                           ShapeToString(view.shape)));
    }
    std::byte bytes[2 * sizeof(int64_t)];
    NUMOE_CHECK_LE(view.data.size(), sizeof bytes);
    // To find its name, all tensors are searched, and there are 69,120 of these, so it is done only for an
    // error.
    if (const absl::Status read = CopyBytes(*FileOf(view.data), view.data, bytes); !read.ok())
      return Annotate(read, DescribeBytes(view.data));
    int64_t found[2];
    for (int i = 0; i < 2; ++i) {
      if (view.dtype == DType::kI64) {
        std::memcpy(&found[i], bytes + i * 8, 8);
      } else {
        int32_t narrow;
        std::memcpy(&narrow, bytes + i * 4, 4);
        found[i] = narrow;
      }
    }
    if (found[0] == rows && found[1] == cols) return absl::OkStatus();
    return TensorError(name, fmt::format("says [{}, {}], expected [{}, {}]", found[0], found[1], rows, cols));
  }

  absl::StatusOr<MatrixFormat> PlainFormat(std::string_view tensor, DType dtype) const {
    switch (dtype) {
      case DType::kF32:
        return MatrixFormat::kF32;
      case DType::kF16:
        return MatrixFormat::kF16;
      case DType::kBF16:
        return MatrixFormat::kBF16;
      default:
        return TensorError(
            tensor, fmt::format("dtype {}, expected BF16, F16, F32 or a quantised weight with its scales",
                                DTypeName(dtype)));
    }
  }

  absl::Status ExpectShape(std::string_view tensor, const TensorView& view, const Shape& expected) const {
    if (view.shape == expected) return absl::OkStatus();
    return TensorError(tensor, fmt::format("shape {}, expected {} by config.json", ShapeToString(view.shape),
                                           ShapeToString(expected)));
  }

  absl::Status ExpectScaleType(std::string_view tensor, const TensorView& view) const {
    if (view.dtype == DType::kF32 || view.dtype == DType::kBF16 || view.dtype == DType::kF16)
      return absl::OkStatus();
    return TensorError(tensor, fmt::format("dtype {}, expected F32, BF16 or F16", DTypeName(view.dtype)));
  }

  absl::Status TensorError(std::string_view tensor, const std::string& message) const {
    const auto it = tensors_.find(tensor);
    const std::filesystem::path file = it == tensors_.end() ? dir_ : dir_ / it->second.shard;
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor {}: {}", file.string(), Printable(tensor), message));
  }

  const std::filesystem::path dir_;
  std::vector<MappedFile> files_;
  std::map<std::string, Entry, std::less<>> tensors_;
  uint64_t total_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::filesystem::path& model) {
  ASSIGN_OR_RETURN(const std::optional<std::filesystem::path> gguf, GgufModel::Locate(model));
  if (gguf) {
    ASSIGN_OR_RETURN(std::unique_ptr<GgufModel> opened, GgufModel::Open(*gguf));
    return MakeGgufCheckpoint(std::move(opened));
  }
  auto checkpoint = std::make_unique<SafetensorsCheckpoint>(model);
  RETURN_IF_ERROR(checkpoint->OpenAll());
  return checkpoint;
}

}  // namespace numoe
