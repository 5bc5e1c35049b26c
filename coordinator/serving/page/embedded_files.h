// EmbeddedFiles: the table that embed.cmake writes when the program is built, one entry for each file of the
// page in this folder.
//
// index.html has the path "/", and every other file NAME has "/page/NAME". The table lives as long as the
// program. Thread-safe.
#pragma once

#include "absl/types/span.h"
#include "coordinator/serving/page/page_file.h"

namespace numoe::serving {

absl::Span<const PageFile> EmbeddedFiles();

}  // namespace numoe::serving
