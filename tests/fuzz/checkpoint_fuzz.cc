// The index of a sharded checkpoint, followed by a NUL and a generation_config.json. The folder is opened,
// with tensors in the shards of the index and defaults within their ranges, or the error is one line.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/check.h"
#include "common/weights/checkpoint.h"
#include "common/weights/model_config.h"

namespace numoe {
namespace {

// A temporary folder with two shards of one tensor each.
class Folder {
 public:
  Folder() {
    std::filesystem::create_directory(path_);
    for (const char* name : {"a", "b"}) {
      const std::string head =
          std::string("{\"") + name + "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
      const uint64_t length = head.size();
      std::string file(sizeof length, 0);
      std::memcpy(file.data(), &length, sizeof length);
      Write(std::string(name) + ".safetensors", file + head + std::string(8, 0));
    }
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  void Write(const std::string& name, std::string_view bytes) const {
    NUMOE_CHECK((std::ofstream(path_ / name, std::ios::binary) << bytes).flush().good());
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("numoe-checkpoint-fuzz-" + std::to_string(getpid()));
};

void CheckMessage(const absl::Status& status) {
  const std::string message(status.message());
  NUMOE_CHECK_EQ(message.find('\n'), std::string::npos) << message;
  NUMOE_CHECK_LT(message.size(), 2000u) << message;
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const numoe::Folder folder;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(text.find('\0'), size);
  folder.Write("model.safetensors.index.json", text.substr(0, end));
  folder.Write("generation_config.json", text.substr(std::min(end + 1, size)));
  const auto checkpoint = numoe::Checkpoint::Open(folder.path());
  if (checkpoint.ok()) {
    for (const char* name : {"a", "b"}) {
      const auto values = (*checkpoint)->ReadVector(name, 2);
      if (values.ok()) NUMOE_CHECK_EQ(values->size(), 2u);
    }
  } else {
    numoe::CheckMessage(checkpoint.status());
  }
  const auto defaults = numoe::ReadGenerationDefaults(folder.path());
  if (!defaults.ok()) {
    numoe::CheckMessage(defaults.status());
    return 0;
  }
  NUMOE_CHECK(defaults->temperature >= 0 && defaults->temperature <= 100 && defaults->top_k >= 0);
  NUMOE_CHECK(defaults->top_p >= 0 && defaults->top_p <= 1 && defaults->min_p >= 0 && defaults->min_p <= 1);
  return 0;
}
