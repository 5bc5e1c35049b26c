// Every word of a flag becomes its value once, and what makes no sense is refused with the flag's name.
#include "coordinator/startup/serving_options.h"

#include <unistd.h>

#include "gmock/gmock.h"
#include "tests/unit/coordinator/startup/serving_command.h"

namespace numoe::startup {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string RefusalOf(std::vector<std::string> words) {
  words.insert(words.begin(), {"--model", ".", "--workers", "a:1"});
  const absl::StatusOr<ServingCommand> command = ReadServingWords(std::move(words));
  EXPECT_TRUE(absl::IsInvalidArgument(command.status())) << command.status();
  return std::string(command.status().message());
}

TEST(ServingOptionsTest, AModelAndWorkersAreEnough) {
  const ServingOptions options = ServingOptionsOf({}, "unix:/a,host:7070");
  EXPECT_EQ(options.served_model_names, std::vector<std::string>{"tiny-chat"}) << "the directory's";
  EXPECT_THAT(options.workers.addresses, ElementsAre("unix:/a", "host:7070"));
  EXPECT_EQ(options.workers.data_path, execution::DataPath::kAuto);
  EXPECT_EQ(options.device.kind, DeviceKind::kAuto);
  EXPECT_EQ(options.device.isa, SelectIsa("auto").value());
  EXPECT_FALSE(options.device.isa_chosen);
  EXPECT_EQ(options.device.precision, Precision::kFast);
  EXPECT_FALSE(options.device.dense_format || options.device.gpu_memory || options.device.ordinal);
  EXPECT_EQ(options.capacity.kv_type, execution::CacheType::kBf16);
  EXPECT_EQ(options.capacity.gpu_experts, 0);
  EXPECT_TRUE(IsNever(options.capacity.gpu_prefill));
  EXPECT_TRUE(IsMeasured(options.overlap));
  EXPECT_TRUE(options.prefix_caching);
}

TEST(ServingOptionsTest, AModelMayHaveSeveralNames) {
  EXPECT_THAT(ServingOptionsOf({"--served-model-name", "a,b"}).served_model_names, ElementsAre("a", "b"));
}

TEST(ServingOptionsTest, WordsBecomeValues) {
  const ServingOptions options =
      ServingOptionsOf({"--device", "cpu", "--isa", "scalar", "--activations", "fp32", "--dense-format",
                        "int8", "--kv-cache-dtype", "fp8", "--data-path", "grpc", "--two-batch-overlap",
                        "off", "--lock-sampling", "temperature=0.5,top_p=1", "--disable-prefix-caching",
                        "--shared-memory-group", std::to_string(getgid())});
  EXPECT_EQ(options.device.kind, DeviceKind::kCpu);
  EXPECT_EQ(options.device.isa, Isa::kScalar);
  EXPECT_TRUE(options.device.isa_chosen);
  EXPECT_EQ(options.device.precision, Precision::kFloat);
  EXPECT_EQ(options.device.dense_format, WeightFormat::kInt8);
  EXPECT_EQ(options.capacity.kv_type, execution::CacheType::kFp8);
  EXPECT_EQ(options.workers.data_path, execution::DataPath::kGrpc);
  EXPECT_EQ(options.workers.shared_memory_group, getgid());
  EXPECT_TRUE(IsNever(options.overlap));
  ASSERT_EQ(options.api.locked.size(), 2u);
  EXPECT_EQ(options.api.locked[0].name, "temperature");
  EXPECT_EQ(options.api.locked[0].low, 0.5);
  EXPECT_EQ(options.api.locked[1].name, "top_p");
  EXPECT_FALSE(options.prefix_caching);
}

TEST(ServingOptionsTest, OfAGpu) {
  const ServingOptions options =
      ServingOptionsOf({"--device", "cuda:12", "--gpu-memory", "1.5 GiB", "--num-gpu-experts", "auto",
                        "--gpu-prefill-token-threshold", "64", "--two-batch-overlap", "256"});
  EXPECT_EQ(options.device.kind, DeviceKind::kCuda);
  EXPECT_EQ(options.device.ordinal, 12);
  EXPECT_EQ(options.device.gpu_memory->bytes, uint64_t{3} << 29);
  EXPECT_EQ(options.device.gpu_memory->text, "1.5 GiB");
  EXPECT_EQ(options.capacity.gpu_experts, std::nullopt);
  EXPECT_EQ(options.capacity.gpu_prefill, TokenThreshold(FromTokens{64}));
  EXPECT_EQ(options.overlap, TokenThreshold(FromTokens{256}));
  EXPECT_FALSE(ServingOptionsOf({"--gpu-memory", "0"}).device.gpu_memory) << "all that is free";
}

TEST(ServingOptionsTest, DevicesAreNamedAsTheFlagTakesThem) {
  for (const std::string word : {"auto", "cpu", "cuda", "cuda:0", "cuda:999"})
    EXPECT_EQ(DeviceWord(ServingOptionsOf({"--device", word}).device), word);
  for (const std::string word : {"gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda:1000", "cuda0", ""})
    EXPECT_THAT(RefusalOf({"--device", word}),
                HasSubstr("--device: found \"" + word + "\", expected auto, cpu, cuda or cuda:N"));
}

TEST(ServingOptionsTest, SizesOfMemoryHaveUnits) {
  const std::pair<const char*, uint64_t> kSizes[] = {{"80GiB", uint64_t{80} << 30},
                                                     {"24 GB", 24'000'000'000},
                                                     {"512m", uint64_t{512} << 20},
                                                     {"100", 100},
                                                     {"2b", 2},
                                                     {"0.5g", uint64_t{1} << 29}};
  for (const auto& [text, bytes] : kSizes)
    EXPECT_EQ(ServingOptionsOf({"--gpu-memory", text}).device.gpu_memory->bytes, bytes) << text;
  for (const std::string text : {"much", "-1GiB", "1TiB", "GiB", "1e30"})
    EXPECT_THAT(RefusalOf({"--gpu-memory", text}),
                AllOf(HasSubstr("--gpu-memory: found \""), HasSubstr("80GiB")));
}

TEST(ServingOptionsTest, AWordThatIsNoneIsRefusedWithItsFlag) {
  EXPECT_THAT(RefusalOf({"--isa", "neon"}),
              AllOf(HasSubstr("--isa: "), HasSubstr("neon"), HasSubstr("avx2")));
  EXPECT_THAT(RefusalOf({"--activations", "int8"}),
              AllOf(HasSubstr("--activations: "), HasSubstr("int8"), HasSubstr("fp32")));
  EXPECT_THAT(RefusalOf({"--dense-format", "int9"}),
              AllOf(HasSubstr("--dense-format: "), HasSubstr("int9"), HasSubstr("int8")));
  for (const std::string experts : {"many", "-1", "513", "1.5", ""})
    EXPECT_THAT(RefusalOf({"--num-gpu-experts", experts}),
                HasSubstr("--num-gpu-experts: found \"" + experts + "\", expected auto or 0 to 512"));
  EXPECT_THAT(RefusalOf({"--two-batch-overlap", "1"}), HasSubstr("--two-batch-overlap: found \"1\""));
  EXPECT_THAT(RefusalOf({"--gpu-prefill-token-threshold", "yes"}),
              HasSubstr("--gpu-prefill-token-threshold: found \"yes\""));
  EXPECT_THAT(RefusalOf({"--shared-memory-group", "no-such-group"}),
              HasSubstr("--shared-memory-group=no-such-group"));
  EXPECT_THAT(RefusalOf({"--lock-sampling", "temperature"}), HasSubstr("expected NAME=NUMBER"));
}

TEST(ServingOptionsTest, WorkersHaveAddresses) {
  for (const std::string address :
       {"nonsense", "unix:", "host:", "host:0", "host:70000", ":7070", "host:7x"}) {
    const auto command = ReadServingWords({"--model", ".", "--workers", address});
    EXPECT_THAT(std::string(command.status().message()),
                HasSubstr("--workers: found \"" + address + "\", expected HOST:PORT or unix:PATH"));
  }
  EXPECT_THAT(std::string(ReadServingWords({"--model", "."}).status().message()),
              HasSubstr("--workers is missing"));
  EXPECT_TRUE(ReadServingWords({"--model", ".", "--plan"}).ok()) << "a plan needs none";
}

TEST(ServingOptionsTest, WhatContradictsItselfIsRefused) {
  const char* const kPrefill = "--gpu-prefill-token-threshold";
  EXPECT_THAT(RefusalOf({kPrefill, "auto", "--deterministic"}), HasSubstr("with --deterministic"));
  EXPECT_THAT(RefusalOf({kPrefill, "64", "--data-path", "grpc"}), HasSubstr("with --data-path=grpc"));
  EXPECT_THAT(RefusalOf({"--share-prefix-cache", "--disable-prefix-caching"}),
              HasSubstr("expected one of them"));
  EXPECT_THAT(RefusalOf({"--max-num-seqs", "64", "--max-num-batched-tokens", "8"}),
              HasSubstr("--max-num-batched-tokens=8: expected at least --max-num-seqs=64"));
  EXPECT_THAT(RefusalOf({"--deterministic", "--max-deferred-experts-per-token", "1",
                         "--max-num-batched-tokens", "5000"}),
              AllOf(HasSubstr("--max-num-batched-tokens=5000"), HasSubstr("at most 4096")));
  EXPECT_THAT(RefusalOf({"--max-num-batched-tokens", "64", "--two-batch-overlap", "65"}),
              AllOf(HasSubstr("--two-batch-overlap=65"), HasSubstr("at most --max-num-batched-tokens=64")));
  EXPECT_THAT(
      RefusalOf({"--max-num-batched-tokens", "64", kPrefill, "65"}),
      AllOf(HasSubstr("--gpu-prefill-token-threshold=65"), HasSubstr("no step has that many tokens")));
  EXPECT_THAT(RefusalOf({"--ssl-keyfile", "k"}), HasSubstr("--ssl-keyfile is given without --ssl-certfile"));
  EXPECT_THAT(RefusalOf({"--worker-ssl-keyfile", "k"}), HasSubstr("--worker-ssl-keyfile without"));
}

TEST(ServingOptionsTest, WhatTheParserSaidNeedsNoMoreWords) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const auto version = ReadServingWords({"--version"}),
             wrong = ReadServingWords({"--model", ".", "--port", "-1"});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("--port=-1"));
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("numoe-coordinator"));
  ASSERT_TRUE(version.ok() && wrong.ok());
  EXPECT_EQ(std::get<int>(*version), 0);
  EXPECT_EQ(std::get<int>(*wrong), 2);
}

}  // namespace
}  // namespace numoe::startup
