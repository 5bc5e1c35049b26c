// Statuses keep their code and message over gRPC and back.
#include "common/transport/grpc_status.h"

#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(GrpcStatusTest, EveryCodeAndItsMessageComeBack) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why: é");
    const grpc::Status over = ToGrpc(status);
    EXPECT_EQ(over.error_code(), code);
    EXPECT_EQ(over.error_message(), "why: é");
    EXPECT_EQ(FromGrpc(over), status) << code;
  }
}

TEST(GrpcStatusTest, OkIsOkAndNamesAreTheSame) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
  EXPECT_EQ(ToGrpc(absl::ResourceExhaustedError("")).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(absl::IsUnauthenticated(FromGrpc({grpc::StatusCode::UNAUTHENTICATED, ""})));
}

}  // namespace
}  // namespace numoe
