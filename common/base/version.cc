#include "common/base/version.h"

namespace numoe {

std::string_view Version() { return NUMOE_VERSION; }

}  // namespace numoe
