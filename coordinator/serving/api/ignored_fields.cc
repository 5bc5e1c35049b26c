#include "coordinator/serving/api/ignored_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string_view>

#include "absl/strings/ascii.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "coordinator/serving/api/api_limits.h"
#include "coordinator/serving/api/refused_fields.h"

namespace numoe::serving {
namespace {

constexpr char kHeader[] = "X-NUMoE-Ignored-Fields";
constexpr char kMore[] = "...";
constexpr char kUnprintable[] = "?";

// Fields of known APIs that cannot change what this server generates.
constexpr std::string_view kWithoutEffect[] = {
    // OpenAI and Anthropic: who asks, what is billed, and hints for caches and for speed
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "prediction", "cache_control",
    // llama.cpp: which slot and cache it uses, and the parameters of samplers that are off
    "cache_prompt", "id_slot", "timings_per_token", "mirostat_tau", "mirostat_eta", "dry_base",
    "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers", "xtc_threshold", "dynatemp_exponent",
    "repeat_last_n",
    // vLLM: which of its backends compiles a grammar
    "guided_decoding_backend"};

bool HasEffect(std::string_view name) {
  constexpr std::string_view kInner = "sampling_params.";
  if (name.starts_with(kInner)) name.remove_prefix(kInner.size());
  const std::vector<RefusedField>& refused = RefusedFields();
  return std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), name) == std::end(kWithoutEffect) &&
         std::none_of(refused.begin(), refused.end(),
                      [name](const RefusedField& field) { return field.name == name; });
}

std::string Shown(const std::string& name) {
  const bool plain =
      !name.empty() && name.size() <= limits::kIgnoredFieldBytesMax &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
      });
  return plain ? name : kUnprintable;
}

}  // namespace

std::vector<std::string> IgnoredFields(const JsonFields& in) {
  std::vector<std::string> names;
  for (const std::string& name : in.Unread()) {
    if (!HasEffect(name)) continue;
    if (names.size() == limits::kIgnoredFieldsMax) {
      names.back() = kMore;
      break;
    }
    names.push_back(Shown(name));
  }
  NUMOE_DCHECK_LE(names.size(), limits::kIgnoredFieldsMax);
  return names;
}

std::vector<std::pair<std::string, std::string>> IgnoredFieldsHeaders(const std::vector<std::string>& names) {
  NUMOE_DCHECK_LE(names.size(), limits::kIgnoredFieldsMax);
  if (names.empty()) return {};
  return {{kHeader, fmt::format("{}", fmt::join(names, ", "))}};
}

bool LogIgnoredFields(const std::string& request_id, const std::vector<std::string>& names,
                      std::chrono::steady_clock::time_point now) {
  NUMOE_DCHECK(!request_id.empty());
  if (names.empty()) return false;
  using std::chrono::milliseconds;
  // When the next line may be written, in milliseconds of the steady clock.
  static std::atomic<int64_t> next{INT64_MIN};
  const int64_t at = std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count();
  int64_t due = next.load();
  if (at < due || !next.compare_exchange_strong(due, at + limits::kIgnoredFieldsLogSeconds * 1'000))
    return false;
  LogWarning(
      "request {}: the fields {} were ignored, because this API does not define them or this server does not "
      "implement them; check their spelling, or leave them out (at most one such line in {} s)",
      request_id, fmt::join(names, ", "), limits::kIgnoredFieldsLogSeconds);
  return true;
}

}  // namespace numoe::serving
