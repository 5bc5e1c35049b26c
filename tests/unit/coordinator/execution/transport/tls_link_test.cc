// Mutual TLS between a coordinator and real worker services: which peers are accepted, which are refused and
// with which message, and certificates that are renewed in service.
#include <grpcpp/grpcpp.h>

#include <csignal>
#include <thread>

#include "coordinator/execution/transport/expert_fan_out.h"
#include "coordinator/execution/transport/tls_probe.h"
#include "expert_worker/service/worker_service.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/test_authority.h"

namespace numoe::execution {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kTlsLinkPatienceMs = 120'000;

class Ones final : public LayerExecutor {
 public:
  absl::Status Execute(const LayerCallView&, absl::Span<float> out) override {
    std::fill(out.begin(), out.end(), 1.0f);
    return absl::OkStatus();
  }
};

class TlsLinkTest : public ::testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }

  // Starts a service with the certificate of `pair` that trusts `ca_pem`.
  void Serve(const TestPair& pair, const std::string& ca_pem, const std::string& listen = "127.0.0.1:0") {
    Serve(WriteIdentity(folder_.path(), "worker", pair, ca_pem), listen);
  }
  void Serve(const TlsFiles& tls = {}, const std::string& listen = "127.0.0.1:0") {
    auto service = worker::WorkerService::Start(ones_, {.listen = listen,
                                                        .hidden_size = 4,
                                                        .num_experts = 2,
                                                        .experts_per_token = 1,
                                                        .description = "ones",
                                                        .tls = tls});
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
  }
  // Returns the coordinator's certificate and the CAs that it trusts.
  std::shared_ptr<TlsIdentityWatch> Coordinator(const TestPair& pair, const std::string& ca_pem) {
    auto tls = TlsIdentityWatch::Open(WriteIdentity(folder_.path(), "coordinator", pair, ca_pem, "worker-"),
                                      TlsRole::kClient);
    EXPECT_TRUE(tls.ok()) << tls.status();
    return tls.ok() ? *tls : nullptr;
  }
  absl::StatusOr<std::unique_ptr<ExpertFanOut>> Connect(const std::shared_ptr<TlsIdentityWatch>& tls,
                                                        const std::string& address = "") {
    return ExpertFanOut::Connect({.addresses = {address.empty() ? service_->address() : address},
                                  .link = {.data_path = DataPath::kGrpc,
                                           .hidden_size = 4,
                                           .num_experts = 2,
                                           .call_deadline_ms = kTlsLinkPatienceMs,
                                           .heartbeat_deadline_ms = kTlsLinkPatienceMs,
                                           .tls = tls},
                                  .start_deadline_ms = kTlsLinkPatienceMs},
                                 metrics_);
  }
  // Returns the error with which the start is refused; the tests check its words.
  std::string Refusal(const std::shared_ptr<TlsIdentityWatch>& tls, const std::string& address = "") {
    const auto workers = Connect(tls, address);
    EXPECT_TRUE(absl::IsFailedPrecondition(workers.status())) << workers.status();
    return workers.status().ToString();
  }
  std::string LocalhostAddress() const {
    return "localhost" + service_->address().substr(service_->address().rfind(':'));
  }
  static absl::Status Call(ExpertFanOut& workers) {
    const std::vector<float> hidden(4), weights(1);
    const std::vector<ExpertId> experts(1);
    std::vector<float> out(4);
    const absl::Status begun = workers.Start({.layer = 0,
                                              .tokens = 1,
                                              .experts_per_token = 1,
                                              .hidden = hidden,
                                              .experts = experts,
                                              .weights = weights});
    if (!begun.ok()) return begun;
    const absl::Status status = workers.Finish(absl::MakeSpan(out));
    if (status.ok()) {
      EXPECT_EQ(out, std::vector<float>(4, 1.0f));
    }
    return status;
  }

  Metrics metrics_{MetricOwner::kCoordinator};
  TemporaryFolder folder_;
  TestAuthority ours_{"our root"}, other_{"other root"};
  const TestPair worker_ = ours_.Issue({.name = "worker", .usage = "serverAuth"});
  const TestPair client_ = ours_.Issue({.name = "coordinator", .names = "", .usage = "clientAuth"});
  Ones ones_;
  std::unique_ptr<worker::WorkerService> service_;
};

TEST_F(TlsLinkTest, PeersOfTheSameCaConnectByAddressAndByName) {
  Serve(worker_, ours_.pem());
  const auto tls = Coordinator(client_, ours_.pem());
  for (const std::string& address : {service_->address(), LocalhostAddress()}) {
    const auto workers = Connect(tls, address);
    ASSERT_TRUE(workers.ok()) << workers.status();
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(Call(**workers).ok());
  }
}

TEST_F(TlsLinkTest, UnixSocketsUseNoTls) {
  const std::string socket = "unix:" + (folder_.path() / "w.sock").string();
  Serve(worker_, ours_.pem(), socket);
  for (const auto& tls : {Coordinator(client_, ours_.pem()), std::shared_ptr<TlsIdentityWatch>()}) {
    const auto workers = Connect(tls);
    ASSERT_TRUE(workers.ok()) << workers.status();
    EXPECT_TRUE(Call(**workers).ok());
  }
}

TEST_F(TlsLinkTest, AWorkerOfAnotherCaIsRefused) {
  Serve(other_.Issue({.name = "stranger"}), ours_.pem());
  EXPECT_THAT(Refusal(Coordinator(client_, ours_.pem())),
              AllOf(HasSubstr("worker " + service_->address()), HasSubstr("CN=stranger"),
                    HasSubstr("issued by CN=other root"), HasSubstr("no CA of --worker-ssl-ca-certs")));
}

TEST_F(TlsLinkTest, AWorkerOfAnotherNameIsRefused) {
  Serve(ours_.Issue({.names = "DNS:w0.example"}), ours_.pem());
  const auto tls = Coordinator(client_, ours_.pem());
  EXPECT_THAT(Refusal(tls), HasSubstr("is for w0.example, expected 127.0.0.1, the name in --workers"));
  EXPECT_THAT(Refusal(tls, LocalhostAddress()), HasSubstr("expected localhost"));
}

TEST_F(TlsLinkTest, AWorkerWhoseCertificateHasExpiredIsRefused) {
  Serve(ours_.Issue({.from_s = -7'000, .until_s = -60}), ours_.pem());
  EXPECT_THAT(
      Refusal(Coordinator(client_, ours_.pem())),
      AllOf(HasSubstr("its certificate has expired at"), HasSubstr("renew the file of its --ssl-certfile")));
}

TEST_F(TlsLinkTest, ACoordinatorOfAnotherCaIsRefused) {
  Serve(worker_, ours_.pem());
  const TestPair stranger = other_.Issue({.name = "stranger"});
  EXPECT_THAT(Refusal(Coordinator(stranger, ours_.pem())),
              AllOf(HasSubstr("refuses this coordinator's certificate"), HasSubstr("CN=stranger"),
                    HasSubstr("issued by CN=other root"), HasSubstr("the worker's --ssl-ca-certs")));
}

TEST_F(TlsLinkTest, ACoordinatorWithACertificateForServersIsRefused) {
  Serve(worker_, ours_.pem());
  // TlsIdentityWatch::Open refuses such a certificate at the start, so its check is bypassed here.
  const TlsFiles files = WriteIdentity(folder_.path(), "coordinator", worker_, ours_.pem(), "worker-");
  const auto tls = TlsIdentityWatch::Open(files, TlsRole::kServer);
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_THAT(Refusal(*tls), HasSubstr("refuses this coordinator's certificate"));
}

TEST_F(TlsLinkTest, ACoordinatorWithoutTlsIsRefused) {
  Serve(worker_, ours_.pem());
  EXPECT_THAT(Refusal(nullptr), AllOf(HasSubstr("it speaks TLS, expected plain text"),
                                      HasSubstr("--worker-ssl-certfile"), HasSubstr(service_->address())));
}

TEST_F(TlsLinkTest, AWorkerWithoutTlsIsRefused) {
  Serve();
  EXPECT_THAT(Refusal(Coordinator(client_, ours_.pem())),
              AllOf(HasSubstr("it does not speak TLS"), HasSubstr("start it with --ssl-certfile")));
}

// A client that trusts the worker but has no certificate is refused.
TEST_F(TlsLinkTest, AClientWithoutACertificateIsRefused) {
  Serve(worker_, ours_.pem());
  const auto channel = grpc::CreateChannel(
      LocalhostAddress(),
      grpc::SslCredentials({.pem_root_certs = ours_.pem(), .pem_private_key = "", .pem_cert_chain = ""}));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(kTlsLinkPatienceMs));
  v1::StatsReply reply;
  const grpc::Status asked = v1::ExpertWorker::NewStub(channel)->GetStats(&context, {}, &reply);
  EXPECT_EQ(asked.error_code(), grpc::StatusCode::UNAVAILABLE) << asked.error_message();
}

TEST_F(TlsLinkTest, TheProbeReturnsOkIfNothingIsWrong) {
  constexpr std::chrono::milliseconds kPatience(kTlsLinkPatienceMs);
  Serve(worker_, ours_.pem());
  const auto tls = Coordinator(client_, ours_.pem());
  EXPECT_TRUE(ProbeTls(service_->address(), tls->Current().get(), kPatience).ok());
  const std::string address = service_->address();
  service_.reset();
  EXPECT_TRUE(ProbeTls(address, tls->Current().get(), kPatience).ok())
      << "if nothing listens, TLS is not the problem";
  EXPECT_TRUE(ProbeTls("nowhere.invalid:1", tls->Current().get(), kPatience).ok());
  Serve();
  EXPECT_TRUE(ProbeTls(service_->address(), nullptr, kPatience).ok());
}

TEST_F(TlsLinkTest, BothPeersUseRenewedCertificatesOfAnotherCa) {
  Serve(worker_, ours_.pem());
  const auto tls = Coordinator(client_, ours_.pem());
  const auto workers = Connect(tls);
  ASSERT_TRUE(workers.ok()) << workers.status();
  // A CA is replaced in these steps: both CAs are trusted, then the certificates change, then the old CA is
  // no longer trusted.
  const std::string both = ours_.pem() + other_.pem();
  const TestPair fresh_worker = other_.Issue({.name = "fresh worker"});
  const TestPair fresh_client = other_.Issue({.name = "fresh coordinator"});
  const std::string address = service_->address();
  WriteIdentity(folder_.path(), "worker", fresh_worker, both);
  WriteIdentity(folder_.path(), "coordinator", fresh_client, other_.pem(), "worker-");
  EXPECT_TRUE(Call(**workers).ok()) << "the existing session continues";
  // New sessions are refused until the service has read its files again.
  for (int i = 0; i < kTlsLinkPatienceMs / 100; ++i) {
    if (tls->Current()->certificate_pem == fresh_client.certificate_pem && Connect(tls).ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const auto renewed = Connect(tls);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_TRUE(Call(**renewed).ok());
  EXPECT_TRUE(Call(**workers).ok());
}

TEST_F(TlsLinkTest, AServiceWithMismatchedFilesRecoversWhenTheyMatch) {
  Serve(worker_, ours_.pem());
  const auto tls = Coordinator(client_, ours_.pem());
  const TestPair fresh = ours_.Issue({.name = "fresh"});
  WriteIdentity(folder_.path(), "worker", {worker_.certificate_pem, fresh.key_pem}, ours_.pem());
  std::this_thread::sleep_for(std::chrono::milliseconds(1'500));  // it reads its files once a second
  WriteIdentity(folder_.path(), "worker", fresh, ours_.pem());
  const auto workers = Connect(tls);
  for (int i = 0; i < kTlsLinkPatienceMs / 100 && !Connect(tls).ok(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto healed = Connect(tls);
  ASSERT_TRUE(healed.ok()) << healed.status();
  EXPECT_TRUE(Call(**healed).ok());
}

}  // namespace
}  // namespace numoe::execution
