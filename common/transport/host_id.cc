#include "common/transport/host_id.h"

#include <fstream>

namespace numoe {

std::string HostId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace numoe
