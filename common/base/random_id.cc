#include "common/base/random_id.h"

#include <sys/random.h>

#include "common/base/check.h"

namespace numoe {

uint64_t RandomId() {
  uint64_t id = 0;
  NUMOE_CHECK(getentropy(&id, sizeof id) == 0) << "the kernel gives no random numbers";
  return id | 1;
}

}  // namespace numoe
