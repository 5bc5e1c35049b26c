// LyingWorker: a worker service whose handshake has contents that no worker of this release sends.
//
// It serves only the handshake, at an address that it chooses or that it is given. A test chooses the
// contents and counts the handshakes. gRPC's threads call it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>

#include "common/transport/call_codec.h"
#include "common/transport/host_id.h"
#include "gtest/gtest.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"

namespace numoe::execution {

class LyingWorker final : public v1::ExpertWorker::Service {
 public:
  explicit LyingWorker(int slice_mode, int worker_count = 1, uint32_t protocol = kProtocolVersion)
      : slice_mode_(slice_mode), worker_count_(worker_count), protocol_(protocol) {}
  void Listen(const std::string& address = "127.0.0.1:0") {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  const std::string& address() const { return address_; }
  grpc::Status Handshake(grpc::ServerContext*, const v1::HandshakeRequest*,
                         v1::HandshakeReply* reply) override {
    reply->set_protocol_version(protocol_);
    reply->set_slice_mode(static_cast<v1::SliceMode>(slice_mode_));
    reply->set_worker_count(worker_count_);
    ++handshakes;
    reply->set_hidden_size(4);
    reply->set_num_experts(2);
    if (!mailbox_socket.empty()) {
      reply->set_host_id(HostId());
      reply->set_mailbox_socket(mailbox_socket);
    }
    if (unavailable) return {grpc::StatusCode::UNAVAILABLE, "not now"};
    return grpc::Status::OK;
  }
  std::atomic<int> handshakes{0};
  std::atomic<bool> unavailable{false};
  std::string mailbox_socket;  // the name that the handshake gives

 private:
  const int slice_mode_;
  const int worker_count_;
  const uint32_t protocol_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace numoe::execution
