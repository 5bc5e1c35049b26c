// The memory that loading packed shards asks the host for: free memory only, and not the memory of files in
// tmpfs.
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <fstream>

#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/pack/convert.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {
namespace {

namespace fs = std::filesystem;

constexpr char kSmallConfig[] =
    R"({"model_type": "qwen3_moe", "hidden_size": 160, "num_hidden_layers": 2, "vocab_size": 32,
  "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "num_attention_heads": 2, "num_key_value_heads": 1,
  "head_dim": 32, "rope_theta": 10000, "intermediate_size": 64, "moe_intermediate_size": 384, "num_experts": 4,
  "num_experts_per_tok": 2, "mlp_only_layers": [0], "decoder_sparse_step": 1, "norm_topk_prob": true,
  "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 1, "attention_bias": false, "hidden_act": "silu"})";

void StoreModel(const fs::path& dir) {
  SafetensorsWriter writer;
  for (int expert = 0; expert < 4; ++expert) {
    const std::string module = fmt::format("model.layers.1.mlp.experts.{}.", expert);
    writer.AddLinear(module + "gate_proj", MatrixFormat::kBF16, 384, 160, 0.1f);
    writer.AddLinear(module + "up_proj", MatrixFormat::kBF16, 384, 160, 0.1f);
    writer.AddLinear(module + "down_proj", MatrixFormat::kBF16, 160, 384, 0.1f);
  }
  fs::create_directories(dir);
  writer.Write(dir);
  std::ofstream(dir / "config.json") << kSmallConfig;
}

// Returns the bytes that a load from `dir` asks for; the request is refused.
uint64_t AskedFor(const fs::path& dir, bool map) {
  const absl::StatusOr<PackedModel> packed = ReadManifest(dir);
  EXPECT_TRUE(packed.ok()) << packed.status();
  if (!packed.ok()) return UINT64_MAX;
  uint64_t asked = UINT64_MAX;
  const absl::Status refusal = absl::ResourceExhaustedError("the host is full");
  ThreadPool pool({.cpus = {0}});
  PackedLoadOptions options{.map = map, .nodes = {0}};
  options.ask_for_memory = [&](uint64_t weight_bytes) {
    asked = weight_bytes;
    return refusal;
  };
  EXPECT_EQ(LoadPackedSlice(*packed, {}, std::nullopt, pool, options).status(), refusal);
  return asked;
}

TEST(PackedMemoryTest, IsRequestedUnlessTheFilesAreInMemoryAlready) {
  const TemporaryFolder folder, in_memory("/dev/shm");
  const fs::path out = folder.path() / "packed";
  StoreModel(folder.path() / "model");
  ConvertProgress progress;
  const absl::StatusOr<int> written =
      Convert({.model = folder.path() / "model", .out = out, .workers = 1, .threads = 1}, progress);
  ASSERT_TRUE(written.ok()) << written.status();
  fs::copy(out, in_memory.path(), fs::copy_options::recursive);
  const uint64_t weights = AskedFor(out, /*map=*/false);
  EXPECT_GE(weights, uint64_t{4} * 3 * 160 * 384 * 2);
  EXPECT_EQ(AskedFor(in_memory.path(), /*map=*/false), weights) << "a copy is memory of its own";
  EXPECT_EQ(AskedFor(in_memory.path(), /*map=*/true), 0u);
  struct statfs system {};
  ASSERT_EQ(statfs(out.c_str(), &system), 0);
  EXPECT_EQ(AskedFor(out, /*map=*/true), system.f_type == TMPFS_MAGIC ? 0 : weights)
      << "files that are mapped from a disk have to stay in the page cache";
  for (const fs::path& dir : {out, in_memory.path()}) {
    EXPECT_EQ(MappedBytesToTake(*ReadManifest(dir), {}).value(), AskedFor(dir, /*map=*/true))
        << "--preflight says what a start asks for";
  }
}

}  // namespace
}  // namespace numoe::worker
