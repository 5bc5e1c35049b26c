// The one place where absl::Status and grpc::Status are converted into each other; their codes are the same
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
