#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace numoe {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << file << ":" << line << ": check failed: " << condition << " ";
}

CheckFailure::~CheckFailure() {
  const std::string message = stream_.str();
  std::fprintf(stderr, "numoe: %s\n", message.c_str());
  std::abort();
}

}  // namespace numoe
