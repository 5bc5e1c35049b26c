// FindModel: finds the model on this host that a user names.
//
// A name is a folder, a .gguf file, a folder of Hugging Face's cache (hub/models--ORG--NAME), or a repository
// ORG/NAME that is in this cache. The cache has each revision in snapshots/COMMIT, which contains links to
// its files, and in refs/main the commit of `main` at the time of the download. Layout and variables
// (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME): https://huggingface.co/docs/huggingface_hub/guides/manage-cache.
// Nothing is downloaded here.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace numoe {

struct ModelPlace {
  std::string path;  // of the folder or file
  std::string name;  // the model's name in an API: the folder's or file's name, or ORG/NAME
};

/// NOT_FOUND or INVALID_ARGUMENT names what was asked for, where it was searched, and what to do. The content
/// is checked by the code that reads it.
absl::StatusOr<ModelPlace> FindModel(const std::string& asked);

}  // namespace numoe
