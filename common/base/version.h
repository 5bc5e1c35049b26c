// The program's version, from CMake's project(): in metrics, in /version and in handshakes between daemons.
//
// Semantic Versioning 2.0.0.
#pragma once

#include <string_view>

namespace numoe {

std::string_view Version();

}  // namespace numoe
