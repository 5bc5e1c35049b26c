#include "expert_worker/service/health_probe.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_unary_call.h>

#include <vector>

#include "common/base/check.h"

namespace numoe::worker {
namespace {

// The two messages of grpc.health.v1 have one field each. No other field is needed here:
// HealthCheckRequest{string service = 1}, HealthCheckResponse{ServingStatus status = 1}.
constexpr char kServiceField = 0x0a, kStatusField = 0x08, kServing = 1;
constexpr size_t kServiceBytesMax = 127;  // its length is encoded in one byte
static_assert(kServiceBytesMax < 128, "the length of a longer one is encoded in two bytes");

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

bool IsServing(const grpc::ByteBuffer& reply) {
  std::vector<grpc::Slice> slices;
  if (!reply.Dump(&slices).ok() || slices.empty() || slices[0].size() < 2) return false;
  return slices[0].begin()[0] == kStatusField && slices[0].begin()[1] == kServing;
}

}  // namespace

HealthProbe::HealthProbe(const std::string& address) : address_(address), channel_(Connect(address)) {}

absl::Status HealthProbe::Ask(const std::string& service, std::chrono::milliseconds patience) const {
  NUMOE_CHECK_GT(patience.count(), 0);
  if (service.size() > kServiceBytesMax)
    return absl::InvalidArgumentError(fmt::format("\"{}\" is not the name of a service", service));
  std::string request;
  if (!service.empty()) request = std::string{kServiceField, static_cast<char>(service.size())} + service;
  const grpc::Slice slice(request);
  const grpc::ByteBuffer question(&slice, 1);
  grpc::ByteBuffer reply;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  const grpc::internal::RpcMethod method("/grpc.health.v1.Health/Check",
                                         grpc::internal::RpcMethod::NORMAL_RPC);
  const grpc::Status status = grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel_.get(), method, &context, question, &reply);
  if (!status.ok())
    return absl::UnavailableError(fmt::format("{} does not answer: {}", address_, status.error_message()));
  if (IsServing(reply)) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{} answers that it is not serving", address_));
}

}  // namespace numoe::worker
