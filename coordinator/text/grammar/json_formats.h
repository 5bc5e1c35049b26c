// JSON Schema's string formats as regular expressions.
//
// The formats are date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid, uri, uri-reference and
// json-pointer. Each expression matches a subset of what the format's RFC allows (time zones and fractions of
// seconds as in RFC 3339, only ASCII in mail addresses and host names), so that generated strings satisfy
// every validator. Other formats are annotations and constrain nothing. A pure function.
#pragma once

#include <optional>
#include <string>

namespace numoe::text::grammar {

/// Returns the expression that the whole string has to match; nullopt for other formats.
std::optional<std::string> FormatRegex(const std::string& format);

}  // namespace numoe::text::grammar
