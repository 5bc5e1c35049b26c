// Ignored fields: names the request fields that the reader of a dialect did not look up.
//
// A misspelled or unsupported field must not be dropped without a word. The answer names such fields in the
// header X-NUMoE-Ignored-Fields, and the log in at most one line per minute. Not named are a field that is
// null, a refused field whose value means "off" (refused_fields.h), and a field that cannot change an answer
// (metadata, caching hints, parameters of a sampler that is off). Names come from the client: only names that
// consist of letters, digits, '_', '-' and '.' are repeated, and others are shown as '?', so that neither a
// header nor the log can contain a part of a prompt. Any thread.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/serving/api/json_fields.h"

namespace numoe::serving {

/// The names of the ignored fields in the order of the request, at most limits::kIgnoredFieldsMax of them;
/// the last one is "..." if there are more. Call it after everything else has been read.
std::vector<std::string> IgnoredFields(const JsonFields& in);

/// The answer's additional headers: one that names the fields, or none if no field was ignored.
std::vector<std::pair<std::string, std::string>> IgnoredFieldsHeaders(const std::vector<std::string>& names);

/// Logs the fields of a request, unless none was ignored or the last such line is less than a minute old.
/// Returns whether it wrote a line.
bool LogIgnoredFields(const std::string& request_id, const std::vector<std::string>& names,
                      std::chrono::steady_clock::time_point now);

}  // namespace numoe::serving
