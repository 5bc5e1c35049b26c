// Models for tests in two forms with the same weights: a GGUF file as llama.cpp's converters write it, and
// safetensors with the values that the GGUF blocks stand for.
//
// ConvertToGguf reads any open checkpoint; RandomModel makes one. Rows whose length is not a multiple of a
// type's blocks are stored in a type with smaller blocks, as converters do. One thread; errors are CHECKs,
// because no input comes from outside.
#pragma once

#include "common/weights/checkpoint.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {

enum class GgufExperts : uint8_t { kMerged, kFusedGateUp, kOneByOne };

struct GgufOptions {
  GgmlType experts = GgmlType::kF32;
  GgmlType dense = GgmlType::kF32;  // embedding, head, attention, dense and shared MLPs
  GgufExperts layout = GgufExperts::kMerged;
  bool split_kv_b = true;  // false: files before April 2025
};

struct GgufConversion {
  GgufWriter gguf;
  SafetensorsWriter decoded;  // F32
};

GgufConversion ConvertToGguf(const Checkpoint& source, const ModelConfig& config, const GgufOptions& options);

/// BF16 weights under Hugging Face names, norms around 1.
SafetensorsWriter RandomModel(const ModelConfig& config, uint32_t seed);

}  // namespace numoe
