// The lines of gRPC that operators see, rephrased so that they say what to do.
#include "common/transport/grpc_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

TEST(GrpcLogTest, RefusedPeersAreExplained) {
  const auto said = [](const std::string& reason) {
    return ExplainGrpcLine("Handshake failed with fatal error SSL_ERROR_SSL: error:0A0000C7:SSL routines::" +
                           reason);
  };
  EXPECT_THAT(said("peer did not return a certificate."), HasSubstr("expected one of --ssl-ca-certs"));
  EXPECT_THAT(said("wrong version number."), HasSubstr("--worker-ssl-certfile"));
  EXPECT_THAT(said("certificate verify failed."), HasSubstr("is not from one of our CAs"));
  EXPECT_THAT(said("tlsv1 alert unknown ca:SSL alert number 48."), HasSubstr("refused our certificate"));
}

TEST(GrpcLogTest, EverythingElseIsLeftAsItIs) {
  EXPECT_EQ(ExplainGrpcLine("no space left"), "gRPC: no space left");
}

}  // namespace
}  // namespace numoe
