// Converts absl::Status and grpc::Status into each other, in this one place; their codes are the same
// numbers.
//
// Thread-safe, pure.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace numoe {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace numoe
