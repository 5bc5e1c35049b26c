#include "coordinator/net/http/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/net/http/lower_case.h"

namespace numoe::net {
namespace {

bool ConstantTimeEqual(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

// Whether a header can carry the text as one word.
bool IsKey(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= limits::kApiKeyNameBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                  c == '_' || c == '.';
         });
}

constexpr std::string_view kName = "name=", kWeight = "weight=";

// Reads one of the attributes that follow a key; returns false if it is unknown or its value is wrong.
bool ReadWord(std::string_view word, Caller& caller) {
  if (word.starts_with(kName)) {
    caller.name = std::string(word.substr(kName.size()));
    return IsName(caller.name);
  }
  if (!word.starts_with(kWeight)) return false;
  word.remove_prefix(kWeight.size());
  const auto read = std::from_chars(word.data(), word.data() + word.size(), caller.weight);
  return read.ec == std::errc() && read.ptr == word.data() + word.size() && caller.weight >= 1 &&
         caller.weight <= limits::kApiKeyWeightMax;
}

// Reads all attributes of a key. Returns what is wrong with one of them, or "". The message must not quote
// it: it may be a key.
std::string_view ReadWords(std::istringstream& words, Caller& caller) {
  bool named = false, weighted = false;
  for (std::string word; words >> word && word[0] != '#';) {
    if (!ReadWord(word, caller)) return "is not understood";
    // If such names were allowed, a new key could be given the automatic name of another one (key-3). That
    // would make the whole file wrong, and a key that the same edit removes would stay accepted.
    if (caller.name.starts_with("key-")) return "has a name that is reserved for keys without one (key-...)";
    if (std::exchange(word.starts_with(kName) ? named : weighted, true)) return "comes twice";
  }
  return "";
}

// The flags that have caused an error: "--api-key", or "--api-key and --admin-api-key".
std::string Flags(std::string_view first, std::string_view second) {
  return first == second ? std::string(first) : fmt::format("{} and {}", first, second);
}

// Returns the file's text; nullopt if it is not a regular file, is too long, or cannot be read.
std::optional<std::string> ReadWhole(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;  // reading a pipe would block
  std::ifstream file(path, std::ios::binary);
  std::string text(limits::kApiKeyFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.eof()) return std::nullopt;
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // a byte order mark, which some editors begin with
  return text;
}

std::string KeyOf(const HttpRequest& request) {
  constexpr std::string_view kBearer = "bearer ";  // the case of a scheme does not matter (RFC 9110, 11.1)
  const std::string_view authorization = request.Header("authorization");
  if (LowerCase(authorization.substr(0, kBearer.size())) == kBearer) {
    const size_t key = authorization.find_first_not_of(' ', kBearer.size());  // 1*SP (RFC 9110, 11.4)
    return std::string(authorization.substr(std::min(key, authorization.size())));
  }
  return std::string(request.Header("x-api-key"));
}

}  // namespace

Access::Slot::~Slot() {
  if (!counted_) return;
  const MutexLock lock(access_.mutex_);
  const auto it = access_.running_.find(caller_.tenant);
  NUMOE_CHECK(it != access_.running_.end() && it->second >= sequences_) << "tenant " << caller_.tenant;
  it->second -= sequences_;
  if (it->second == 0) access_.running_.erase(it);
}

bool Access::Slot::Widen(int sequences) {
  if (!counted_) return true;
  const int most = access_.options_.requests_per_key_max;
  const MutexLock lock(access_.mutex_);
  const int wanted = most > 0 ? std::min(sequences, most) : sequences;
  int& running = access_.running_.at(caller_.tenant);
  NUMOE_CHECK(sequences_ >= 1 && running >= sequences_);
  const int more = std::max(0, wanted - sequences_);
  // Without keys, one client cannot be told from another.
  if (most > 0 && caller_.tenant != 0 && running + more > most) return false;
  running += more;
  sequences_ += more;
  return true;
}

Access::Access(AccessOptions options)
    : options_(std::move(options)), guarded_(!options_.keys.empty() || !options_.key_file.empty()) {
  for (const bool admin : {false, true}) {
    const std::filesystem::path& path = admin ? options_.admin_key_file : options_.key_file;
    if (!path.empty())
      files_.push_back(
          {admin ? "--admin-api-key-file" : "--api-key-file", path, admin, WatchedFile(path), {}});
  }
}

absl::StatusOr<std::unique_ptr<Access>> Access::Create(AccessOptions options) {
  const bool admins = !options.admin_keys.empty() || !options.admin_key_file.empty();
  if (admins && options.keys.empty() && options.key_file.empty()) {
    return absl::InvalidArgumentError(
        "--admin-api-key without --api-key-file: expected keys for the other callers as well, because "
        "without "
        "them everybody is an administrator; add --api-key-file");
  }
  auto access = std::unique_ptr<Access>(new Access(std::move(options)));
  const MutexLock lock(access->mutex_);
  for (KeyFile& file : access->files_) {
    ASSIGN_OR_RETURN(file.keys, ReadKeys(file));
    if (file.keys.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {} has no key; expected one key per line", file.flag, file.path.string()));
    }
  }
  RETURN_IF_ERROR(access->Rebuild());
  return access;
}

absl::StatusOr<std::vector<Access::Key>> Access::ReadKeys(const KeyFile& file) {
  const std::string where = fmt::format("{}: {}", file.flag, file.path.string());
  const std::optional<std::string> text = ReadWhole(file.path);
  if (!text) {
    return absl::NotFoundError(
        fmt::format("{} cannot be read; expected a regular file of at most {} bytes with one "
                    "key a line",
                    where, limits::kApiKeyFileBytesMax));
  }
  std::vector<Key> keys;
  std::istringstream lines(*text);
  int number = 1;
  for (std::string line; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word[0] == '#') continue;
    if (!IsKey(word)) {
      return absl::InvalidArgumentError(
          fmt::format("{}, line {}: the key has characters that no header can carry; expected visible ASCII",
                      where, number));
    }
    keys.push_back({word, {.admin = file.admin}, file.flag});
    if (const std::string_view wrong = ReadWords(words, keys.back().caller); !wrong.empty()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}, line {}: a word after the key {}; expected at most one name=NAME of letters, digits, "
          "'-', '_' and '.', and one weight=N from 1 to {}",
          where, number, wrong, limits::kApiKeyWeightMax));
    }
  }
  return keys;
}

absl::StatusOr<std::vector<Access::Key>> Access::FlagKeys() const {
  std::vector<Key> keys;
  for (const bool admin : {false, true}) {
    const char* const flag = admin ? "--admin-api-key" : "--api-key";
    for (const std::string& key : admin ? options_.admin_keys : options_.keys) {
      if (!IsKey(key)) {
        return absl::InvalidArgumentError(
            fmt::format("{}: found a key that is empty or has characters that no header can carry; expected "
                        "visible ASCII (is a variable of the shell unset?)",
                        flag));
      }
      keys.push_back({key, {.admin = admin}, flag});
    }
  }
  return keys;
}

// Combines the keys of flags and files. A key that stays or comes back keeps its number, and a number is
// never given to another key.
absl::Status Access::Rebuild() {
  ASSIGN_OR_RETURN(std::vector<Key> keys, FlagKeys());
  for (const KeyFile& file : files_) keys.insert(keys.end(), file.keys.begin(), file.keys.end());
  if (keys.size() > limits::kApiKeysMax) {
    return absl::InvalidArgumentError(fmt::format("{}: found {} keys together, expected at most {}",
                                                  Flags(keys.front().flag, keys.back().flag), keys.size(),
                                                  limits::kApiKeysMax));
  }
  int last = last_tenant_;
  std::map<std::string_view, const char*> texts, names;  // with the flags that they came from
  for (Key& key : keys) {
    if (const auto [first, once] = texts.emplace(key.text, key.flag); !once) {
      return absl::InvalidArgumentError(
          fmt::format("{}: a key comes twice; expected each once", Flags(first->second, key.flag)));
    }
    const auto old = numbers_.find(key.text);
    key.caller.tenant = old != numbers_.end() ? old->second : ++last;
    if (key.caller.name.empty()) key.caller.name = fmt::format("key-{}", key.caller.tenant);
    if (const auto [first, once] = names.emplace(key.caller.name, key.flag); !once) {
      return absl::InvalidArgumentError(
          fmt::format("{}: two keys have the name {}; expected a different name for each",
                      Flags(first->second, key.flag), key.caller.name));
    }
  }
  NUMOE_CHECK(names.size() == keys.size() && last >= last_tenant_) << "numbers are not given twice";
  last_tenant_ = last;
  if (numbers_.size() + keys.size() > 4 * limits::kApiKeysMax) numbers_.clear();
  for (const Key& key : keys) numbers_[key.text] = key.caller.tenant;
  keys_ = std::move(keys);
  return absl::OkStatus();
}

// Files that change at the same time, such as those of one Kubernetes secret, take effect together. A file
// with an error is read again later: it may be half written, or may fit only with the other file.
void Access::Refresh() {
  bool stale = false;
  for (KeyFile& file : files_) {
    file.stale |= file.watched.Changed();
    stale |= file.stale;
    if (file.watched.missing() && !file.gone) {
      LogError("{}: {} does not exist any more; its keys stay valid. Empty the file to revoke them",
               file.flag, file.path.string());
    }
    file.gone = file.watched.missing();
  }
  if (stale && std::chrono::steady_clock::now() >= next_try_) Reread();
}

void Access::Reread() {
  next_try_ = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  std::vector<std::vector<Key>> before;
  std::vector<KeyFile*> taken;
  absl::Status wrong;
  for (KeyFile& file : files_) {
    before.push_back(file.keys);
    if (!file.stale) continue;
    absl::StatusOr<std::vector<Key>> keys = ReadKeys(file);
    wrong.Update(keys.status());
    if (!keys.ok()) continue;
    file.keys = *std::move(keys);
    taken.push_back(&file);
  }
  if (const absl::Status together = Rebuild(); !together.ok()) {
    NUMOE_CHECK_EQ(before.size(), files_.size());
    wrong = together;
    taken.clear();
    for (size_t i = 0; i < files_.size(); ++i) files_[i].keys = std::move(before[i]);
  }
  const std::string said = wrong.ok() ? "" : std::string(wrong.message());
  if (std::exchange(last_problem_, said) != said && !wrong.ok())
    LogError("{}; the keys stay as they were", said);
  for (KeyFile* const file : taken) {
    file->stale = false;
    if (file->keys.empty()) {
      LogWarning("{}: {} is empty now: its keys are no longer accepted", file->flag, file->path.string());
    } else {
      LogInfo("{}: {} has changed and has {} keys", file->flag, file->path.string(), file->keys.size());
    }
  }
}

const Caller* Access::Find(std::string_view key) const {
  const Caller* found = nullptr;
  for (const Key& known : keys_) {
    if (ConstantTimeEqual(known.text, key)) found = &known.caller;
  }
  return found;
}

absl::StatusOr<std::shared_ptr<Access::Slot>> Access::Enter(const HttpRequest& request, bool counted) {
  const MutexLock lock(mutex_);
  Refresh();
  Caller caller{.admin = true};  // everybody is an administrator if no flag names a source of keys
  if (guarded_) {
    const Caller* const known = Find(KeyOf(request));
    if (known == nullptr)
      return absl::UnauthenticatedError(
          "missing or wrong API key: send Authorization: Bearer KEY, or x-api-key: KEY");
    caller = *known;
    const auto running = running_.find(caller.tenant);
    if (counted && options_.requests_per_key_max > 0 && running != running_.end() &&
        running->second >= options_.requests_per_key_max) {
      return absl::ResourceExhaustedError(fmt::format(
          "this key has {} running requests, which is its limit; try again when one of them has ended",
          running->second));
    }
  }
  if (counted) ++running_[caller.tenant];
  return std::make_shared<Slot>(*this, std::move(caller), counted);
}

}  // namespace numoe::net
