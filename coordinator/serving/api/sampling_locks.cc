#include "coordinator/serving/api/sampling_locks.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/serving/api/sampling_fields.h"
#include "coordinator/serving/api/thinking_fields.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using Mode = SamplingLock::Mode;

std::optional<double> ReadDouble(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

absl::StatusOr<SamplingLock> ParseLock(const std::string& text) {
  constexpr std::pair<std::string_view, Mode> kModes[] = {{"thinking:", Mode::kThinking},
                                                          {"instant:", Mode::kInstant}};
  SamplingLock lock;
  std::string_view rest = text;
  for (const auto& [prefix, mode] : kModes) {
    if (rest.substr(0, prefix.size()) != prefix) continue;
    lock.mode = mode;
    rest.remove_prefix(prefix.size());
    break;
  }
  const size_t equals = rest.find('=');
  const std::string_view value = equals == std::string_view::npos ? "" : rest.substr(equals + 1);
  const size_t dots = value.find("..");
  const auto low = ReadDouble(value.substr(0, dots));
  const auto high = dots == std::string_view::npos ? low : ReadDouble(value.substr(dots + 2));
  if (equals == 0 || !low || !high || !(*low <= *high)) {
    return absl::InvalidArgumentError(
        fmt::format("--lock-sampling: found \"{}\", expected NAME=NUMBER or NAME=LOW..HIGH, with thinking: "
                    "or instant: before "
                    "it to lock only one mode, as in temperature=0.6..1.0 or "
                    "thinking:temperature=1.0,instant:temperature=0.6",
                    text));
  }
  lock.name = std::string(rest.substr(0, equals));
  lock.low = *low;
  lock.high = *high;
  for (const double end : {lock.low, lock.high})
    RETURN_IF_ERROR(Annotate(CheckSamplingValue(lock.name, end), "--lock-sampling"));
  return lock;
}

bool HasMode(const ordered_json& body) {
  return body.contains("messages") || body.contains("input");  // `input` has the messages of /v1/responses
}

// Two parameters have two names each.
std::vector<std::string> NamesOf(const std::string& name) {
  for (const auto& [one, other] :
       {std::pair<const char*, const char*>{"seed", "sampling_seed"}, {"min_tokens", "min_new_tokens"}}) {
    if (name == one || name == other) return {one, other};
  }
  return {name};
}

// Returns the locks that apply to a request: at most one for each parameter.
std::vector<const SamplingLock*> LocksFor(const SamplingLocks& locks, const ordered_json& body,
                                          UnaskedThinking unasked) {
  const Mode mode = !HasMode(body)                 ? Mode::kAny
                    : ThinkingIsOff(body, unasked) ? Mode::kInstant
                                                   : Mode::kThinking;
  std::vector<const SamplingLock*> out;
  for (const SamplingLock& lock : locks) {
    if (lock.mode == Mode::kAny) out.push_back(&lock);
  }
  for (const SamplingLock& lock : locks) {
    if (lock.mode == Mode::kAny || lock.mode != mode) continue;
    const auto same = std::find_if(out.begin(), out.end(), [&](const SamplingLock* other) {
      return NamesOf(other->name) == NamesOf(lock.name);
    });
    same == out.end() ? out.push_back(&lock) : void(*same = &lock);
  }
  return out;
}

double DefaultOf(const std::string& name, const GenerationDefaults& defaults) {
  if (name == "temperature") return defaults.temperature;
  if (name == "top_p") return defaults.top_p;
  if (name == "top_k") return defaults.top_k;
  if (name == "min_p") return defaults.min_p;
  if (name == "repetition_penalty") return defaults.repetition_penalty;
  return name == "n" || name == "best_of" ? 1 : 0;
}

std::string HeldAt(const SamplingLock& lock) {
  if (lock.low == lock.high) return fmt::format("{}", lock.low);
  return fmt::format("{} to {}", lock.low, lock.high);
}

// `given` stays false if no object has the parameter.
std::optional<net::ApiError> CheckGiven(const SamplingLock& lock,
                                        const std::vector<const ordered_json*>& objects, bool& given) {
  for (const ordered_json* fields : objects) {
    for (const std::string& name : NamesOf(lock.name)) {
      const auto value = fields->find(name);
      if (value == fields->end() || value->is_null()) continue;
      given = true;
      if (value->is_number() && value->get<double>() >= lock.low && value->get<double>() <= lock.high)
        continue;
      return net::BadRequest(
          name, fmt::format("'{}': this server has locked it at {}, found {}; leave it out", name,
                            HeldAt(lock), JsonFields::Short(*value)));
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<SamplingLocks> ParseSamplingLocks(const std::vector<std::string>& texts) {
  SamplingLocks locks;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(SamplingLock lock, ParseLock(text));
    for (const SamplingLock& other : locks) {
      if (other.mode == lock.mode && NamesOf(other.name) == NamesOf(lock.name)) {
        return absl::InvalidArgumentError(
            fmt::format("--lock-sampling: found {} twice for the same mode, expected it once", lock.name));
      }
    }
    locks.push_back(std::move(lock));
  }
  return locks;
}

std::optional<net::ApiError> ApplySamplingLocks(const SamplingLocks& locks,
                                                const GenerationDefaults& defaults, ordered_json& body,
                                                UnaskedThinking unasked) {
  if (locks.empty()) return std::nullopt;
  // /generate may have parameters at both levels, and a list at the inner one.
  std::vector<const ordered_json*> objects = {&body};
  if (const auto inner = body.find("sampling_params"); inner != body.end()) {
    if (inner->is_object()) objects.push_back(&*inner);
    if (inner->is_array()) {
      for (const ordered_json& one : *inner) {
        if (one.is_object()) objects.push_back(&one);
      }
    }
  }
  ordered_json held = ordered_json::object();
  for (const SamplingLock* lock : LocksFor(locks, body, unasked)) {
    NUMOE_CHECK_LE(lock->low, lock->high);
    bool given = false;
    if (auto error = CheckGiven(*lock, objects, given)) return error;
    const double otherwise = DefaultOf(lock->name, defaults);
    const bool stays = lock->low < lock->high && otherwise >= lock->low && otherwise <= lock->high;
    if (!given && !stays) held[lock->name] = std::clamp(otherwise, lock->low, lock->high);
  }
  body.update(held);  // no inner object has these parameters, so none can override them
  return std::nullopt;
}

}  // namespace numoe::serving
