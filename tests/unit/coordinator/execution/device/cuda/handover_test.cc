// Kernels send layer calls to real expert workers through shared memory: the sums are those of the workers'
// executors bit for bit in every step, and if a worker dies, hangs or refuses, the device's wait ends with a
// recorded fault.
#include "coordinator/execution/device/cuda/kernels/handover.h"

#include <cmath>
#include <cstring>
#include <thread>

#include "common/formats/bf16.h"
#include "coordinator/execution/transport/expert_fan_out.h"
#include "expert_worker/service/worker_service.h"
#include "gtest/gtest.h"
#include "tests/cuda_host/simulated_runtime.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kHandoverHidden = 64;
constexpr int kHandoverExperts = 8;
constexpr int kHandoverPerToken = 3;
constexpr int kRowsMax = 24;
constexpr int kWorkers = 2;
constexpr int kRefusedLayer = 99;
constexpr int kPatienceMs = 120'000;

// Returns sums that are different for every slice, layer, expert and channel.
class Formula final : public LayerExecutor {
 public:
  explicit Formula(int slice) : slice_(slice) {}
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    if (call.layer == kRefusedLayer) return absl::InvalidArgumentError("the layer does not exist");
    std::fill(out.begin(), out.end(), 0.0f);
    for (int t = 0; t < call.tokens; ++t) {
      for (int k = 0; k < call.experts_per_token; ++k) {
        const auto entry = static_cast<size_t>(t * call.experts_per_token + k);
        const ExpertId expert = call.experts[entry];
        if (expert == kNoExpert) continue;
        const float weight = call.weights[entry];
        for (int c = 0; c < kHandoverHidden; ++c) {
          const auto at = static_cast<size_t>(t * kHandoverHidden + c);
          out[at] +=
              weight * std::sin(call.hidden[at] * static_cast<float>(expert + 1 + slice_ + call.layer));
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  const int slice_;
};

class HandoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> addresses;
    for (int w = 0; w < kWorkers; ++w) {
      addresses.push_back("unix:" + ::testing::TempDir() + "/handover-" + std::to_string(getpid()) + "-" +
                          std::to_string(w));
      Serve(w, addresses.back());
    }
    auto workers = ExpertFanOut::Connect({.addresses = addresses,
                                          .link = {.data_path = DataPath::kSharedMemory,
                                                   .hidden_size = kHandoverHidden,
                                                   .num_experts = kHandoverExperts,
                                                   .call_deadline_ms = kPatienceMs},
                                          .start_deadline_ms = kPatienceMs},
                                         metrics_);
    ASSERT_TRUE(workers.ok()) << workers.status();
    workers_ = *std::move(workers);
    stream_ = *runtime_->NewStream();
    hidden_ = New(kRowsMax * kHandoverHidden * 2);
    experts_ = New(kRowsMax * kHandoverPerToken * 4);
    weights_ = New(kRowsMax * kHandoverPerToken * 4);
    residual_ = New(kRowsMax * kHandoverHidden * 4);
    step_ = New(sizeof(HandoverStep));
    counters_ = New(kEndpointsMax * 4);
    std::memset(counters_->device(), 0, counters_->bytes());
    fault_ = *runtime_->AllocateHost(sizeof(HandoverFault));
    release_ = *runtime_->AllocateHost(64);
  }

  void Serve(int index, const std::string& address) {
    formulas_.push_back(std::make_unique<Formula>(index));
    auto service = worker::WorkerService::Start(*formulas_.back(), {.listen = address,
                                                                    .worker_index = index,
                                                                    .worker_count = kWorkers,
                                                                    .hidden_size = kHandoverHidden,
                                                                    .num_experts = kHandoverExperts,
                                                                    .experts_per_token = kHandoverPerToken});
    ASSERT_TRUE(service.ok()) << service.status();
    services_.push_back(*std::move(service));
  }
  std::unique_ptr<Memory> New(size_t bytes) { return *runtime_->Allocate(bytes); }
  std::atomic<uint32_t>* Release() { return reinterpret_cast<std::atomic<uint32_t>*>(release_->host()); }
  const HandoverFault& Fault() const { return *reinterpret_cast<HandoverFault*>(fault_->host()); }

  void FillInputs(int rows, int seed) {
    for (int i = 0; i < kRowsMax * kHandoverHidden; ++i) {
      reinterpret_cast<uint16_t*>(hidden_->device())[i] =
          EncodeBf16(std::sin(static_cast<float>(i * (seed + 1))));
      reinterpret_cast<float*>(residual_->device())[i] = static_cast<float>(i % 13);
    }
    for (int i = 0; i < kRowsMax * kHandoverPerToken; ++i) {
      const bool none = i / kHandoverPerToken >= rows || (i + seed) % 5 == 0;
      reinterpret_cast<int32_t*>(experts_->device())[i] =
          none ? kNoExpert : (i % kHandoverPerToken) * 2 + (i / kHandoverPerToken + seed) % 2;
      reinterpret_cast<float*>(weights_->device())[i] = none ? 0.0f : 0.25f * static_cast<float>(i % 4 + 1);
    }
  }

  // residual + slice 0's sums + slice 1's, in that order.
  std::vector<float> Expected(int rows, int layer) {
    const auto values = static_cast<size_t>(rows * kHandoverHidden);
    std::vector<float> hidden(values), out(values), part(values);
    for (size_t i = 0; i < values; ++i) {
      hidden[i] = DecodeBf16(reinterpret_cast<uint16_t*>(hidden_->device())[i]);
      out[i] = reinterpret_cast<float*>(residual_->device())[i];
    }
    const auto entries = static_cast<size_t>(rows * kHandoverPerToken);
    const LayerCallView call{.layer = layer,
                             .tokens = rows,
                             .experts_per_token = kHandoverPerToken,
                             .hidden = hidden,
                             .experts = {reinterpret_cast<int32_t*>(experts_->device()), entries},
                             .weights = {reinterpret_cast<float*>(weights_->device()), entries}};
    for (int w = 0; w < kWorkers; ++w) {
      EXPECT_TRUE(Formula(w).Execute(call, absl::MakeSpan(part)).ok());
      for (size_t i = 0; i < values; ++i) out[i] += part[i];
    }
    return out;
  }

  void Begin(int rows, const DirectStep& direct) {
    auto& step = *reinterpret_cast<HandoverStep*>(step_->device());
    step = {.first_call_id = direct.first_call_id,
            .rows = rows,
            .endpoint_count = static_cast<int>(direct.endpoints.size())};
    for (size_t p = 0; p < direct.endpoints.size(); ++p) {
      const MailboxEndpoint& endpoint = direct.endpoints[p];
      step.endpoints[p] = {.instance = endpoint.instance,
                           .request = endpoint.request.data(),
                           .request_published = endpoint.request_published,
                           .request_length = endpoint.request_length,
                           .reply = endpoint.reply.data(),
                           .reply_published = endpoint.reply_published,
                           .deferred_reply = endpoint.deferred_reply.data(),
                           .deferred_published = endpoint.deferred_published,
                           .requests = endpoint.requests,
                           .replies = endpoint.replies,
                           .deferred = endpoint.deferred};
    }
    std::memset(fault_->host(), 0, fault_->bytes());
  }
  void EnqueueCall(int call, int layer) {
    EnqueueSend(call, layer, /*deferred_experts=*/0);
    EnqueueAdd(call, call, /*deferred=*/false);
  }
  void EnqueueSend(int call, int layer, int deferred_experts) {
    const auto* step = reinterpret_cast<HandoverStep*>(step_->device());
    auto* fault = reinterpret_cast<HandoverFault*>(fault_->device());
    LaunchSendCalls({.step = step,
                     .fault = fault,
                     .blocks_done = reinterpret_cast<uint32_t*>(counters_->device()),
                     .hidden = reinterpret_cast<Bf16*>(hidden_->device()),
                     .experts = reinterpret_cast<int32_t*>(experts_->device()),
                     .weights = reinterpret_cast<float*>(weights_->device()),
                     .hidden_size = kHandoverHidden,
                     .experts_per_token = kHandoverPerToken,
                     .deferred_experts = deferred_experts,
                     .rows_max = kRowsMax,
                     .endpoints_max = kWorkers,
                     .layer = layer,
                     .call = call},
                    stream_);
  }
  void EnqueueAdd(int call, int reply, bool deferred) {
    const auto* step = reinterpret_cast<HandoverStep*>(step_->device());
    auto* fault = reinterpret_cast<HandoverFault*>(fault_->device());
    LaunchAwaitReplies({.step = step,
                        .fault = fault,
                        .release = reinterpret_cast<uint32_t*>(release_->device()),
                        .call = call,
                        .reply = reply,
                        .deferred = deferred},
                       stream_);
    LaunchAddReplies({.step = step,
                      .fault = fault,
                      .residual = reinterpret_cast<float*>(residual_->device()),
                      .hidden_size = kHandoverHidden,
                      .rows_max = kRowsMax,
                      .deferred = deferred},
                     stream_);
  }

  Metrics metrics_{MetricOwner::kCoordinator};
  std::vector<std::unique_ptr<Formula>> formulas_;
  std::vector<std::unique_ptr<worker::WorkerService>> services_;
  std::unique_ptr<ExpertFanOut> workers_;
  std::unique_ptr<Runtime> runtime_ = NewSimulatedRuntime();
  Stream stream_ = nullptr;
  std::unique_ptr<Memory> hidden_, experts_, weights_, residual_, step_, counters_, fault_, release_;
};

TEST_F(HandoverTest, AGraphOfCallsGivesTheWorkersSums) {
  // The graph is captured once and replayed with other rows, counters and inputs.
  ASSERT_TRUE(runtime_->BeginCapture(stream_).ok());
  for (int call = 0; call < 3; ++call) EnqueueCall(call, /*layer=*/call + 4);
  const auto graph = runtime_->EndCapture(stream_);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const int rows : {1, 24, 7}) {
    FillInputs(rows, rows);
    std::vector<float> expected;
    for (int call = 0; call < 3; ++call) {
      // The residual is not sent, so the calls do not depend on each other and their sums add up.
      std::vector<float> sums = Expected(rows, call + 4);
      if (call > 0) {
        for (size_t i = 0; i < sums.size(); ++i)
          sums[i] += expected[i] - reinterpret_cast<float*>(residual_->device())[i];
      }
      expected = std::move(sums);
    }
    const auto direct = workers_->BeginDirect(Release());
    ASSERT_TRUE(direct.ok()) << direct.status();
    Begin(rows, *direct);
    runtime_->Launch(**graph, stream_);
    ASSERT_TRUE(runtime_->Synchronize(stream_).ok());
    EXPECT_EQ(Fault().kind, 0u);
    ASSERT_TRUE(workers_->EndDirect(3, 0, absl::OkStatus()).ok());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(reinterpret_cast<float*>(residual_->device())[i], expected[i], 1e-4) << i;
  }
}

TEST_F(HandoverTest, OneCallIsBitForBitWhatTheHostAddsUp) {
  for (int round = 0; round < 3; ++round) {
    FillInputs(5, round);
    const std::vector<float> expected = Expected(5, 2);
    const auto direct = workers_->BeginDirect(Release());
    ASSERT_TRUE(direct.ok()) << direct.status();
    Begin(5, *direct);
    EnqueueCall(0, 2);
    ASSERT_TRUE(runtime_->Synchronize(stream_).ok());
    ASSERT_TRUE(workers_->EndDirect(1, 0, absl::OkStatus()).ok());
    const auto* residual = reinterpret_cast<float*>(residual_->device());
    EXPECT_EQ(std::vector<float>(residual, residual + expected.size()), expected);
    EXPECT_EQ(residual[expected.size()], static_cast<float>(expected.size() % 13)) << "a padding row changed";
  }
}

// A graph with three calls, two of which defer experts; each deferred reply is added before the next call is
// sent. The result is bit for bit what the host adds up in that order, and the counters of both mailboxes
// continue in the next step.
TEST_F(HandoverTest, DeferredSumsArriveSeparately) {
  ASSERT_TRUE(runtime_->BeginCapture(stream_).ok());
  for (int call = 0, deferring = 0; call < 3; ++call) {
    const bool defers = call != 1;
    EnqueueSend(call, call + 4, defers ? 2 : 0);
    EnqueueAdd(call, call, false);
    if (defers) EnqueueAdd(call, deferring++, true);
  }
  const auto graph = runtime_->EndCapture(stream_);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (const int rows : {3, 24, 1}) {
    FillInputs(rows, rows);
    const auto values = static_cast<size_t>(rows * kHandoverHidden),
               entries = static_cast<size_t>(rows * kHandoverPerToken);
    auto* residual = reinterpret_cast<float*>(residual_->device());
    std::vector<float> hidden(values), expected(residual, residual + values), part(values);
    for (size_t i = 0; i < values; ++i)
      hidden[i] = DecodeBf16(reinterpret_cast<uint16_t*>(hidden_->device())[i]);
    for (int call = 0; call < 3; ++call) {
      SplitCall split;
      split.Split({.layer = call + 4,
                   .tokens = rows,
                   .experts_per_token = kHandoverPerToken,
                   .deferred_experts = call != 1 ? 2 : 0,
                   .hidden = hidden,
                   .experts = {reinterpret_cast<int32_t*>(experts_->device()), entries},
                   .weights = {reinterpret_cast<float*>(weights_->device()), entries}});
      for (const ReplyPart reply : {ReplyPart::kImmediate, ReplyPart::kDeferred}) {
        for (int w = 0; w < kWorkers && split.part(reply).tokens > 0; ++w) {
          ASSERT_TRUE(Formula(w).Execute(split.part(reply), absl::MakeSpan(part)).ok());
          for (size_t i = 0; i < values; ++i) expected[i] += part[i];
        }
      }
    }
    const auto direct = workers_->BeginDirect(Release());
    ASSERT_TRUE(direct.ok()) << direct.status();
    Begin(rows, *direct);
    runtime_->Launch(**graph, stream_);
    ASSERT_TRUE(runtime_->Synchronize(stream_).ok());
    EXPECT_EQ(Fault().kind, 0u);
    ASSERT_TRUE(workers_->EndDirect(3, 2, absl::OkStatus()).ok());
    EXPECT_EQ(std::vector<float>(residual, residual + values), expected) << rows << " rows";
  }
}

TEST_F(HandoverTest, AWorkersRefusalIsRecordedAndTheRestOfTheStepDoesNothing) {
  FillInputs(4, 1);
  const auto direct = workers_->BeginDirect(Release());
  ASSERT_TRUE(direct.ok()) << direct.status();
  Begin(4, *direct);
  EnqueueCall(0, kRefusedLayer);
  EnqueueCall(1, 2);
  ASSERT_TRUE(runtime_->Synchronize(stream_).ok());
  EXPECT_EQ(static_cast<FaultKind>(Fault().kind), FaultKind::kRefused);
  EXPECT_EQ(Fault().call, 0u);
  EXPECT_EQ(Fault().status, static_cast<uint32_t>(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(*direct->endpoints[0].request_published, direct->endpoints[0].requests + 1)
      << "nothing may be sent after it";
  EXPECT_TRUE(absl::IsUnavailable(workers_->EndDirect(1, 0, absl::InternalError("refused"))));
}

TEST_F(HandoverTest, ADeadWorkerEndsTheDevicesWait) {
  FillInputs(4, 1);
  const auto direct = workers_->BeginDirect(Release());
  ASSERT_TRUE(direct.ok()) << direct.status();
  services_[1].reset();
  Begin(4, *direct);
  EnqueueCall(0, 2);
  EnqueueCall(1, 3);
  ASSERT_TRUE(runtime_->Synchronize(stream_).ok());
  EXPECT_EQ(static_cast<FaultKind>(Fault().kind), FaultKind::kReleased);
  EXPECT_TRUE(absl::IsUnavailable(workers_->EndDirect(2, 0, absl::UnavailableError("released"))));
}

}  // namespace
}  // namespace numoe::execution::cuda
