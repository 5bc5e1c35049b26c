#include "coordinator/serving/page/page_file.h"

#include "common/base/check.h"
#include "coordinator/serving/page/embedded_files.h"

namespace numoe::serving {

const PageFile* FindPageFile(std::string_view path) {
  for (const PageFile& file : EmbeddedFiles()) {
    NUMOE_DCHECK(!file.path.empty() && file.path.front() == '/');
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace numoe::serving
