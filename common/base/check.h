// NUMOE_CHECK: stops the process when something this program itself promised is not true.
//
// For broken invariants only (crashing is the right answer: the supervisor restarts the daemon). Input from
// outside - files, flags, peers, clients - gets an absl::Status instead (status.h). The message carries the
// condition, the place, and whatever is streamed into it. NUMOE_DCHECK is the same in debug builds and
// compiles to nothing in release builds; use it in loops.
#pragma once

#include <sstream>

namespace numoe {

/// Prints the message to stderr and aborts in its destructor. Used through the macros only.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

}  // namespace numoe

#define NUMOE_CHECK(condition) \
  while (!(condition)) ::numoe::CheckFailure(__FILE__, __LINE__, #condition).stream()
#define NUMOE_CHECK_OP(op, a, b) NUMOE_CHECK((a)op(b)) << " (" << (a) << " vs " << (b) << ") "
#define NUMOE_CHECK_EQ(a, b) NUMOE_CHECK_OP(==, a, b)
#define NUMOE_CHECK_NE(a, b) NUMOE_CHECK_OP(!=, a, b)
#define NUMOE_CHECK_LE(a, b) NUMOE_CHECK_OP(<=, a, b)
#define NUMOE_CHECK_LT(a, b) NUMOE_CHECK_OP(<, a, b)
#define NUMOE_CHECK_GE(a, b) NUMOE_CHECK_OP(>=, a, b)
#define NUMOE_CHECK_GT(a, b) NUMOE_CHECK_OP(>, a, b)

#ifdef NDEBUG
#define NUMOE_DCHECK(condition) \
  while (false && !(condition)) ::numoe::CheckFailure(__FILE__, __LINE__, #condition).stream()
#else
#define NUMOE_DCHECK(condition) NUMOE_CHECK(condition)
#endif
#define NUMOE_DCHECK_OP(op, a, b) NUMOE_DCHECK((a)op(b)) << " (" << (a) << " vs " << (b) << ") "
#define NUMOE_DCHECK_EQ(a, b) NUMOE_DCHECK_OP(==, a, b)
#define NUMOE_DCHECK_NE(a, b) NUMOE_DCHECK_OP(!=, a, b)
#define NUMOE_DCHECK_LE(a, b) NUMOE_DCHECK_OP(<=, a, b)
#define NUMOE_DCHECK_LT(a, b) NUMOE_DCHECK_OP(<, a, b)
#define NUMOE_DCHECK_GE(a, b) NUMOE_DCHECK_OP(>=, a, b)
#define NUMOE_DCHECK_GT(a, b) NUMOE_DCHECK_OP(>, a, b)
