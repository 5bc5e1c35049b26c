#include "coordinator/http/access.h"

#include <fmt/format.h>

#include <fstream>

#include "common/base/log.h"
#include "common/base/status.h"

namespace numoe {
namespace {

bool ConstantTimeEqual(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

absl::StatusOr<std::vector<std::string>> ReadKeys(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    line.erase(0, line.find_first_not_of(" \t\r"));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty() && line[0] != '#') keys.push_back(line);
  }
  if (keys.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "--api-key-file: {} has no key, or cannot be read; expected one key a line", path.string()));
  }
  return keys;
}

std::string KeyOf(const HttpRequest& request) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view authorization = request.Header("authorization");
  if (authorization.substr(0, kBearer.size()) == kBearer)
    return std::string(authorization.substr(kBearer.size()));
  return std::string(request.Header("x-api-key"));
}

}  // namespace

Access::Slot::~Slot() {
  const MutexLock lock(access_.mutex_);
  const auto it = access_.running_.find(key_);
  if (--it->second == 0) access_.running_.erase(it);
}

Access::Access(AccessOptions options) : options_(std::move(options)), watched_(options_.key_file) {}

absl::StatusOr<std::unique_ptr<Access>> Access::Create(AccessOptions options) {
  auto access = std::unique_ptr<Access>(new Access(std::move(options)));
  if (!access->options_.key_file.empty()) {
    const MutexLock lock(access->mutex_);
    ASSIGN_OR_RETURN(access->file_keys_, ReadKeys(access->options_.key_file));
  }
  return access;
}

void Access::Refresh() {
  if (!watched_.Changed()) return;
  absl::StatusOr<std::vector<std::string>> keys = ReadKeys(options_.key_file);
  if (!keys.ok()) {
    LogError("{}; the keys stay as they were", std::string(keys.status().message()));
    return;
  }
  LogInfo("--api-key-file: {} changed, {} keys", options_.key_file.string(), keys->size());
  file_keys_ = *std::move(keys);
}

bool Access::Known(std::string_view key) const {
  bool found = false;
  for (const auto* list : {&options_.keys, &file_keys_}) {
    for (const std::string& known : *list) found = ConstantTimeEqual(known, key) || found;
  }
  return found;
}

absl::StatusOr<std::shared_ptr<Access::Slot>> Access::Enter(const HttpRequest& request, bool counted) {
  const MutexLock lock(mutex_);
  Refresh();
  std::string key;  // everybody's, where there are none
  if (!options_.keys.empty() || !file_keys_.empty()) {
    key = KeyOf(request);
    if (!Known(key))
      return absl::UnauthenticatedError(
          "missing or wrong API key: send Authorization: Bearer KEY, or x-api-key: KEY");
    if (!counted) return nullptr;
    int& running = running_[key];
    if (options_.requests_per_key_max > 0 && running >= options_.requests_per_key_max) {
      return absl::ResourceExhaustedError(fmt::format(
          "{} requests of this key are running, as many as may; try again when one has ended", running));
    }
  }
  if (!counted) return nullptr;
  ++running_[key];
  return std::make_shared<Slot>(*this, std::move(key));
}

}  // namespace numoe
