// FindModel: where the model is that somebody names, on this host.
//
// A name is a folder, a .gguf file, a folder of Hugging Face's cache (hub/models--ORG--NAME), or a repository
// ORG/NAME that this cache has. The cache keeps each revision in snapshots/COMMIT, of links to its files, and
// in refs/main the commit that `main` was when it was downloaded. Layout and variables (HF_HUB_CACHE,
// HF_HOME, XDG_CACHE_HOME): https://huggingface.co/docs/huggingface_hub/guides/manage-cache. Nothing is
// downloaded here.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace numoe {

struct ModelPlace {
  std::string path;  // of the folder or file
  std::string name;  // what an API may call it: the folder's or file's name, or ORG/NAME
};

/// NOT_FOUND or INVALID_ARGUMENT names what was asked for, where it was looked for, and what to do. What is
/// in the place is checked by whoever reads it.
absl::StatusOr<ModelPlace> FindModel(const std::string& asked);

}  // namespace numoe
