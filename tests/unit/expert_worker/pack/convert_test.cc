// From a checkpoint to shards to a worker's slice. The weights are bit for bit those of loading the
// checkpoint, a stopped conversion continues where it was, and errors name shards that are damaged, missing
// or from another model.
#include "expert_worker/pack/convert.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <set>

#include "common/weights/input_file.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/experts/packed_shard.h"
#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/pack/inspect.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/gguf_conversion.h"
#include "tests/unit/expert_worker/experts/tiny_experts.h"

namespace numoe::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A checkpoint folder with a config.json, as the tool reads it: three layers, two of them with experts.
constexpr char kConfig[] =
    R"({"model_type": "qwen3_moe", "hidden_size": 160, "num_hidden_layers": 3, "vocab_size": 32,
  "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "num_attention_heads": 2, "num_key_value_heads": 1,
  "head_dim": 32, "rope_theta": 10000, "intermediate_size": 64, "moe_intermediate_size": 384, "num_experts": 6,
  "num_experts_per_tok": 2, "mlp_only_layers": [0], "decoder_sparse_step": 1, "norm_topk_prob": true,
  "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 1, "attention_bias": false, "hidden_act": "silu"})";
// The same with sizes that are multiples of GGUF's blocks, and with experts in every layer, as GGUF's
// qwen3moe has them.
const std::string kGgufConfig = [] {
  std::string text = kConfig;
  text.replace(text.find("[0]"), 3, "[]");
  text.replace(text.find("160"), 3, "256");
  return text.replace(text.find("384"), 3, "512");
}();
constexpr LayerId kMoeLayers[] = {1, 2};

// From now on this process cannot ask for the pages of a mapping, as on a kernel before 5.14.
bool ForbidPopulating() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_POPULATE_READ, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(filter), .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

class ConvertTest : public ::testing::Test {
 protected:
  void Store(MatrixFormat format, uint32_t seed = 1) {
    SafetensorsWriter writer(seed);
    for (const LayerId layer : kMoeLayers) {
      for (ExpertId e = 0; e < kExperts; ++e) {
        const std::string module = fmt::format("model.layers.{}.mlp.experts.{}.", layer, e);
        writer.AddLinear(module + "gate_proj", format, kIntermediate, kHidden, 0.1f);
        writer.AddLinear(module + "up_proj", format, kIntermediate, kHidden, 0.1f);
        writer.AddLinear(module + "down_proj", format, kHidden, kIntermediate, 0.1f);
      }
    }
    fs::create_directories(model());
    writer.Write(model());
    std::ofstream(model() / "config.json") << kConfig;
  }
  // A complete model, as GGUF files contain it.
  void StoreGguf(GgmlType experts) {
    const ModelConfig config = *ParseModelConfig(kGgufConfig, "config.json");
    const TemporaryFolder source;
    RandomModel(config, 3).Write(source.path());
    fs::remove_all(model());
    fs::create_directories(model());
    ConvertToGguf(**Checkpoint::Open(source.path()), config, {.experts = experts})
        .gguf.Write(model() / "m.gguf");
  }
  fs::path model() const { return folder_.path() / "model"; }
  fs::path out() const { return folder_.path() / "packed"; }
  fs::path Shard(int worker, int workers, LayerId layer, SliceMode mode = SliceMode::kIntermediate) const {
    return out() / ShardName({.mode = mode, .worker_index = worker, .worker_count = workers}, layer);
  }

  absl::StatusOr<int> Convert(ConvertOptions options) {
    options.model = model();
    options.out = out();
    options.threads = 2;
    progress_ = std::make_unique<ConvertProgress>();
    return numoe::worker::Convert(options, *progress_);
  }
  std::string ConvertError(const ConvertOptions& options) {
    return std::string(Convert(options).status().message());
  }

  absl::StatusOr<ExpertSlice> LoadPacked(const SliceSpec& spec, bool map,
                                         std::optional<WeightFormat> format = std::nullopt) {
    absl::StatusOr<PackedModel> packed = ReadManifest(out());
    if (!packed.ok()) return packed.status();
    return LoadPackedSlice(*packed, spec, format, pool_, {.map = map, .nodes = {0}});
  }
  std::string LoadError(const SliceSpec& spec, std::optional<WeightFormat> format = std::nullopt) {
    const std::string mapped(LoadPacked(spec, true, format).status().message());
    EXPECT_EQ(LoadPacked(spec, false, format).status().message(), mapped);
    return mapped;
  }

  absl::StatusOr<ExpertSlice> LoadShared(bool map) {
    absl::StatusOr<PackedModel> packed = ReadManifest(out());
    if (!packed.ok()) return packed.status();
    return LoadPackedSlice(*packed, {}, std::nullopt, pool_,
                           {.map = map, .nodes = {0}, .memory = {.shared = true}});
  }

  // Compares the packed bytes of every expert of both slices.
  void ExpectSameWeights(const ExpertSlice& a, const ExpertSlice& b) {
    ASSERT_EQ(a.layers.size(), b.layers.size());
    EXPECT_EQ(a.bytes, b.bytes);
    EXPECT_EQ(a.owned, b.owned);
    for (size_t layer = 0; layer < a.layers.size(); ++layer) {
      ASSERT_EQ(a.layers[layer].size(), b.layers[layer].size());
      for (size_t e = 0; e < a.layers[layer].size(); ++e) {
        if (!a.owned[e]) continue;
        const ExpertWeights &x = a.layers[layer][e], &y = b.layers[layer][e];
        for (const auto& [m, n] : {std::pair{x.gate, y.gate}, {x.up, y.up}, {x.down, y.down}}) {
          ASSERT_TRUE(m.format == n.format && m.rows == n.rows && m.cols == n.cols);
          ASSERT_EQ(std::memcmp(m.data, n.data, PackedBytes(m.format, m.rows, m.cols)), 0)
              << layer << " " << e;
        }
      }
    }
  }

  // The packed bytes are those that loading the model gives, mapped or copied.
  void ExpectShardsAsLoaded(std::optional<WeightFormat> format, SliceMode mode, int workers) {
    const auto checkpoint = Checkpoint::Open(model());
    const auto config = ReadModelConfig(model());
    ASSERT_TRUE(checkpoint.ok() && config.ok()) << config.status();
    for (int worker = 0; worker < workers; ++worker) {
      const SliceSpec spec{.mode = mode, .worker_index = worker, .worker_count = workers};
      const auto loaded = LoadSlice(**checkpoint, *config, spec, format, pool_);
      const auto mapped = LoadPacked(spec, true);
      const auto copied = LoadPacked(spec, false);
      ASSERT_TRUE(loaded.ok() && mapped.ok() && copied.ok()) << mapped.status() << copied.status();
      ExpectSameWeights(*loaded, *mapped);
      ExpectSameWeights(*loaded, *copied);
      EXPECT_TRUE(mapped->memory.Spans().empty()) << "mapped without a copy";
      EXPECT_TRUE(copied->shards.empty());
    }
  }

  void Damage(const fs::path& path, uint64_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 16));
  }

  TemporaryFolder folder_;
  ThreadPool pool_{{.cpus = {0, 0, 0}}};
  std::unique_ptr<ConvertProgress> progress_;
};

TEST_F(ConvertTest, ShardsContainTheBytesThatLoadingGives) {
  struct Case {
    MatrixFormat stored;
    std::optional<WeightFormat> format;
    SliceMode mode;
    int workers;
  };
  for (const Case& c : {Case{MatrixFormat::kInt4Group, std::nullopt, SliceMode::kIntermediate, 3},
                        {MatrixFormat::kInt4Group, WeightFormat::kInt8, SliceMode::kExpert, 4},
                        {MatrixFormat::kFp8Block, std::nullopt, SliceMode::kIntermediate, 2},
                        {MatrixFormat::kFp8Block, WeightFormat::kInt4, SliceMode::kIntermediate, 1},
                        {MatrixFormat::kBF16, WeightFormat::kInt8, SliceMode::kIntermediate, 2},
                        {MatrixFormat::kBF16, std::nullopt, SliceMode::kExpert, 2}}) {
    SCOPED_TRACE(fmt::format("stored {} as {} for {}", static_cast<int>(c.stored),
                             c.format ? WeightFormatName(*c.format) : "auto", c.workers));
    fs::remove_all(out());
    Store(c.stored);
    const absl::StatusOr<int> written = Convert({.format = c.format, .mode = c.mode, .workers = c.workers});
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(*written, 2 * c.workers);
    EXPECT_EQ(progress_->Read().fraction, 1);
    ExpectShardsAsLoaded(c.format, c.mode, c.workers);
  }
}

// GGUF's blocks of 4 and 6 bits; a quarter of IQ4_XS's down cuts its blocks, so that is int8.
TEST_F(ConvertTest, ShardsHoldGgufBlocksAsStored) {
  for (const auto& [type, name] : {std::pair{GgmlType::kQ4_0, "q4_0"},
                                   {GgmlType::kQ4_1, "q4_1"},
                                   {GgmlType::kIq4Nl, "iq4_nl"},
                                   {GgmlType::kIq4Xs, "iq4_xs"},
                                   {GgmlType::kMxfp4, "mxfp4"},
                                   {GgmlType::kQ4_K, "q4_k"},
                                   {GgmlType::kQ6_K, "q6_k"}}) {
    SCOPED_TRACE(name);
    fs::remove_all(out());
    StoreGguf(type);
    for (const auto& [mode, workers] : {std::pair{SliceMode::kExpert, 2}, {SliceMode::kIntermediate, 4}}) {
      fs::remove_all(out());
      const absl::StatusOr<int> written = Convert({.mode = mode, .workers = workers});
      ASSERT_TRUE(written.ok()) << written.status();
      ExpectShardsAsLoaded(std::nullopt, mode, workers);
      const bool cut = mode == SliceMode::kIntermediate && TraitsOf(type).block_values == 256;
      EXPECT_THAT(*Inspect({.model = out()}), HasSubstr(fmt::format("packed as {}{} for {} workers",
                                                                    cut ? "int8, " : "", name, workers)));
    }
    const std::string report = *Inspect({.model = model(), .workers = 2});
    EXPECT_THAT(report, HasSubstr(fmt::format("experts as {}: ", TraitsOf(type).name)));
    for (const char* other : {"q4_0", "q4_1", "iq4_nl", "iq4_xs", "mxfp4", "q4_k", "q6_k"})
      EXPECT_EQ(report.find(fmt::format("  {:8} by", other)) != std::string::npos,
                other == std::string(name));
  }
}

TEST_F(ConvertTest, AnExecutorComputesTheSameFromShards) {
  Store(MatrixFormat::kInt4Group);
  ASSERT_TRUE(Convert({.workers = 1}).ok());
  const auto checkpoint = Checkpoint::Open(model());
  const auto config = ReadModelConfig(model());
  const auto packed = ReadManifest(out());
  ASSERT_TRUE(checkpoint.ok() && config.ok() && packed.ok()) << packed.status();
  const auto from_checkpoint = ExpertExecutor::Load(**checkpoint, *config, {.threads = 2});
  ASSERT_TRUE(from_checkpoint.ok()) << from_checkpoint.status();
  std::vector<float> hidden(5 * kHidden);
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<float>(i % 17) - 8;
  const std::vector<ExpertId> experts = {0, 1, 2, 3, 4, 5, 0, 3, 1, 5};
  const std::vector<float> weights(10, 0.5f);
  const LayerCallView call{.layer = 2,
                           .tokens = 5,
                           .experts_per_token = 2,
                           .hidden = hidden,
                           .experts = experts,
                           .weights = weights};
  std::vector<float> expected(hidden.size());
  ASSERT_TRUE((*from_checkpoint)->Execute(call, absl::MakeSpan(expected)).ok());
  for (const bool map : {true, false}) {
    const auto executor = ExpertExecutor::LoadPacked(*packed, {.threads = 2, .map_packed = map});
    ASSERT_TRUE(executor.ok()) << executor.status();
    std::vector<float> out(hidden.size());
    ASSERT_TRUE((*executor)->Execute(call, absl::MakeSpan(out)).ok());
    EXPECT_EQ(out, expected);
    EXPECT_EQ((*executor)->WeightBytes(), (*from_checkpoint)->WeightBytes());
  }
}

TEST_F(ConvertTest, CompleteShardsAreSkippedAndOthersAreConverted) {
  Store(MatrixFormat::kBF16);
  ASSERT_TRUE(Convert({.workers = 2}).ok());
  EXPECT_EQ(*Convert({.workers = 2}), 0);
  EXPECT_EQ(progress_->Read().skipped, 4);
  fs::remove(Shard(0, 2, 1));
  Damage(Shard(1, 2, 1), 40);  // in the header
  std::ofstream(Shard(0, 2, 2).string() + ".unfinished") << "left by a process that was killed";
  EXPECT_EQ(*Convert({.workers = 2}), 2);
  for (int worker = 0; worker < 2; ++worker)
    EXPECT_TRUE(LoadPacked({.worker_index = worker, .worker_count = 2}, true).ok());
}

TEST_F(ConvertTest, VerifyFindsDamagedDataAndConvertsItAgain) {
  Store(MatrixFormat::kBF16);
  ASSERT_TRUE(Convert({.workers = 2}).ok());
  Damage(Shard(1, 2, 2), kShardDataOffset + 12345);
  EXPECT_EQ(*Convert({.workers = 2}), 0) << "headers do not show the damage";
  const absl::StatusOr<std::string> report = Inspect({.model = out(), .verify = true});
  EXPECT_TRUE(absl::IsDataLoss(report.status())) << report.status();
  EXPECT_EQ(*Convert({.workers = 2, .verify = true}), 1);
  EXPECT_THAT(*Inspect({.model = out(), .verify = true}),
              HasSubstr("worker 1: 2 of 2 shards, checksums right"));
}

// If it is killed, all files with a final name are complete, and the next run completes the rest.
TEST_F(ConvertTest, ContinuesAfterBeingKilled) {
  Store(MatrixFormat::kBF16);
  int finished = 0;
  for (int round = 0; finished < 3 && round < 60; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(Convert({.format = WeightFormat::kInt8, .workers = 2}).ok() ? 0 : 1);
    usleep(static_cast<useconds_t>(2000 + 3000 * round));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      ++finished;
    }
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path() != out()) continue;
      for (const auto& file : fs::directory_iterator(out())) {
        if (file.path().extension() == ".numoe") {
          EXPECT_TRUE(VerifyShard(file.path(), pool_, nullptr).ok()) << file.path();
        }
      }
    }
  }
  EXPECT_GE(finished, 1);
  EXPECT_EQ(*Convert({.format = WeightFormat::kInt8, .workers = 2}), 0);
  EXPECT_TRUE(Inspect({.model = out(), .verify = true}).ok());
}

TEST_F(ConvertTest, AFolderOfSomethingElseIsRefused) {
  Store(MatrixFormat::kBF16);
  ASSERT_TRUE(Convert({.workers = 2}).ok());
  EXPECT_THAT(ConvertError({.format = WeightFormat::kInt8, .workers = 2}),
              HasSubstr("as bf16 for 2 workers by intermediate, asked"));
  EXPECT_THAT(ConvertError({.workers = 1}), HasSubstr("give --out another folder, or empty this one"));
  Store(MatrixFormat::kFp8Block);
  EXPECT_THAT(ConvertError({.format = WeightFormat::kBf16, .workers = 2}), HasSubstr("holds shards of"));
}

// Its headers are the same, byte for byte, but shards of both together are not a model.
TEST_F(ConvertTest, AnotherModelOfTheSameSizesIsRefused) {
  Store(MatrixFormat::kBF16, /*seed=*/1);
  ASSERT_TRUE(Convert({.workers = 2}).ok());
  fs::remove(Shard(1, 2, 2));
  Store(MatrixFormat::kBF16, /*seed=*/2);
  EXPECT_THAT(ConvertError({.workers = 2}), HasSubstr("holds shards of model"));
  Store(MatrixFormat::kBF16, /*seed=*/1);
  EXPECT_EQ(*Convert({.workers = 2}), 1);
}

TEST_F(ConvertTest, APackedModelIsItsCheckpointAndDoesNotNeedIt) {
  for (const int seed : {1, 2}) {
    Store(MatrixFormat::kInt4Group, static_cast<uint32_t>(seed));
    const absl::StatusOr<uint64_t> expected = (*Checkpoint::Open(model()))->Fingerprint();
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(Convert({.workers = 2}).ok());
    fs::remove_all(model());
    EXPECT_EQ(ReadManifest(out())->model_fingerprint, *expected) << seed;
    EXPECT_TRUE(LoadPacked({.worker_index = 1, .worker_count = 2}, true).ok());
    fs::remove_all(out());
  }
}

TEST_F(ConvertTest, ShardsOfAnOlderProgramAreNotServedAndAreConvertedAgain) {
  Store(MatrixFormat::kBF16);
  ASSERT_TRUE(Convert({.workers = 2}).ok());
  const fs::path manifest = out() / kManifestName;
  std::string text = *ReadTextFile(manifest, 1 << 20);
  text.replace(text.find("\"version\": 2"), 12, "\"version\": 1");
  std::ofstream(manifest) << text;
  EXPECT_THAT(LoadError({.worker_count = 2}),
              HasSubstr("numoe-pack.json: version is 1, expected 2: an older program packed it; convert the "
                        "checkpoint again into the same folder"));
  EXPECT_THAT(ConvertError({.workers = 1}), HasSubstr("an older program packed of another"));
  EXPECT_EQ(*Convert({.workers = 2}), 4) << "all of them";
  EXPECT_TRUE(LoadPacked({.worker_count = 2}, true).ok());
}

TEST_F(ConvertTest, OneProcessAtATimeWorksInAFolder) {
  Store(MatrixFormat::kBF16);
  fs::create_directories(out());
  const FileDescriptor other(open(out().c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(flock(other.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_THAT(ConvertError({.workers = 2}), HasSubstr("another numoe-pack works in this folder"));
}

TEST_F(ConvertTest, ModelsThatCannotBeConvertedAreNamed) {
  EXPECT_THAT(ConvertError({}), HasSubstr("expected the folder of a checkpoint"));
  Store(MatrixFormat::kBF16);
  EXPECT_THAT(ConvertError({.format = WeightFormat::kRawInt4}), HasSubstr("raw_int4 needs pack-quantized"));
  EXPECT_THAT(ConvertError({.workers = 7}), HasSubstr("use --slice=expert"));
  fs::remove_all(out());
  std::ofstream(out()) << "a file, not a folder";
  EXPECT_THAT(ConvertError({}), HasSubstr("cannot be created or opened as a folder"));
}

TEST_F(ConvertTest, AWorkerRefusesShardsOfOtherWorkers) {
  Store(MatrixFormat::kInt4Group);
  ASSERT_TRUE(Convert({.workers = 2}).ok());
  EXPECT_THAT(
      LoadError({.worker_count = 3}),
      HasSubstr("packed for 2 workers by intermediate, this is one of 3 by intermediate; start workers as"));
  EXPECT_THAT(LoadError({.mode = SliceMode::kExpert, .worker_count = 2}), HasSubstr("--slice expert"));
  EXPECT_THAT(LoadError({.worker_count = 2}, WeightFormat::kInt8),
              HasSubstr("packed as raw_int4, --format=int8; leave --format"));
  fs::rename(Shard(1, 2, 1), Shard(0, 2, 1));
  EXPECT_THAT(LoadError({.worker_count = 2}),
              HasSubstr("packed for worker 1 of 2 by intermediate, this is worker 0 of 2"));
  EXPECT_THAT(LoadError({.worker_index = 1, .worker_count = 2}), HasSubstr("the conversion did not finish"));
}

TEST_F(ConvertTest, SharedWeightsAreCopiedNotMapped) {
  Store(MatrixFormat::kBF16);
  ASSERT_TRUE(Convert({.workers = 1}).ok());
  EXPECT_THAT(LoadShared(/*map=*/true).status().ToString(),
              ::testing::AllOf(HasSubstr("--share-experts"), HasSubstr("--packed=copy")));
  const auto shared = LoadShared(/*map=*/false), mapped = LoadPacked({}, /*map=*/true);
  ASSERT_TRUE(shared.ok() && mapped.ok()) << shared.status();
  ASSERT_GE(shared->memory.fd(), 0);
  EXPECT_EQ(mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, shared->memory.fd(), 0), MAP_FAILED)
      << "a process that has the descriptor must not be able to write to the weights";
  ExpectSameWeights(*shared, *mapped);
}

TEST_F(ConvertTest, ADamagedShardIsNotServed) {
  Store(MatrixFormat::kBF16);
  ASSERT_TRUE(Convert({.workers = 2}).ok());
  const fs::path shard = Shard(1, 2, 2);
  const SliceSpec spec{.worker_index = 1, .worker_count = 2};
  const uint64_t size = fs::file_size(shard);
  for (const uint64_t at : {kShardDataOffset, kShardDataOffset + 4097, size - 1}) {
    Damage(shard, at);
    EXPECT_THAT(LoadError(spec),
                HasSubstr(shard.string() + ": block 0 of 1 (from byte 0 of layer 2's weights)"));
    Damage(shard, at);  // as it was
  }
  EXPECT_TRUE(LoadPacked(spec, true).ok());
  fs::resize_file(shard, size - 1);
  EXPECT_THAT(LoadError(spec), HasSubstr("is the file truncated?"));
  fs::resize_file(shard, 10);
  EXPECT_THAT(LoadError(spec), HasSubstr(shard.string() + ": 10 bytes, expected a packed shard"));
  fs::remove(shard);
  EXPECT_THAT(LoadError(spec), HasSubstr("run numoe-pack convert again, it continues where it stopped"));
}

TEST_F(ConvertTest, AnOldKernelMapsAndChecksTheSame) {
  Store(MatrixFormat::kBF16);
  ASSERT_TRUE(Convert({.workers = 1}).ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (!ForbidPopulating()) _exit(2);
    if (!LoadPacked({}, /*map=*/true).ok()) _exit(3);
    Damage(Shard(0, 1, 2), kShardDataOffset + 12345);
    _exit(absl::IsDataLoss(LoadPacked({}, /*map=*/true).status()) ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ConvertTest, ManifestsAreReadAsWrittenAndCheckedCompletely) {
  Store(MatrixFormat::kBF16);
  ASSERT_TRUE(Convert({.workers = 2}).ok());
  const absl::StatusOr<PackedModel> packed = ReadManifest(out());
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ(packed->config.layer_is_moe, (std::vector<bool>{false, true, true}));
  const std::string text = SerialiseManifest(*packed);
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return std::string(ParseManifest(changed.replace(at, from.size(), to), "m").status().message());
  };
  for (const char* other : {"3", "0", "2.0", "null", "\"2\""}) {
    EXPECT_THAT(
        error("\"version\": 2", fmt::format("\"version\": {}", other)),
        ::testing::AllOf(HasSubstr("m: version is "), HasSubstr("expected 2: another program's numoe-pack")));
  }
  EXPECT_THAT(error("\"worker_count\": 2", "\"worker_count\": 0"), HasSubstr("worker_count is 0"));
  EXPECT_THAT(error("intermediate\"", "layers\""), HasSubstr("expected intermediate or expert"));
  EXPECT_THAT(error("\"num_layers\": 3", "\"num_layers\": 2"), HasSubstr("moe_layers"));
  EXPECT_THAT(error("\"hidden_size\"", "\"hidden\""), HasSubstr("hidden_size is missing"));
  EXPECT_THAT(error("\"bf16\"", "\"bf17\""), HasSubstr("bf17"));
  EXPECT_THAT(std::string(ParseManifest("[]", "m").status().message()), HasSubstr("version is missing"));
}

TEST_F(ConvertTest, InspectDescribesTheModelAndItsMemory) {
  Store(MatrixFormat::kFp8Block);
  const absl::StatusOr<std::string> report = Inspect({.model = model(), .workers = 4});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(*report, HasSubstr("qwen3_moe, 3 layers, 2 of them with 6 experts of 384 x 160"));
  EXPECT_THAT(*report, HasSubstr("experts as block FP8: 36 matrices"));
  EXPECT_THAT(*report, HasSubstr("fp8      by intermediate not possible"));
  EXPECT_THAT(*report, HasSubstr("fp8      by expert"));
  EXPECT_THAT(*report, ::testing::Not(HasSubstr("raw_int4")));
  ASSERT_TRUE(Convert({.format = WeightFormat::kInt8, .workers = 2}).ok());
  EXPECT_THAT(*Inspect({.model = out()}), HasSubstr("packed as int8 for 2 workers by intermediate"));
  fs::remove(Shard(0, 2, 1));
  EXPECT_THAT(std::string(Inspect({.model = out()}).status().message()), HasSubstr("1 shards are missing"));
}

}  // namespace
}  // namespace numoe::worker
