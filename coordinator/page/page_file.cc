#include "coordinator/page/page_file.h"

#include "coordinator/page/embedded_files.h"

namespace numoe {

const PageFile* FindPageFile(std::string_view path) {
  for (const PageFile& file : EmbeddedFiles()) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace numoe
