// JSON Schema's string formats as regular expressions.
//
// Known: date, time, date-time, duration, email, hostname, ipv4, ipv6, uuid, uri, uri-reference,
// json-pointer. Each is a subset of what its RFC allows (time zones and fractions of seconds as RFC 3339 has
// them, only ASCII in mail addresses and host names), so that what is generated satisfies every validator.
// Others are annotations and constrain nothing. Pure.
#pragma once

#include <optional>
#include <string>

namespace numoe::text::grammar {

/// The expression that the whole string has to match.
std::optional<std::string> FormatRegex(const std::string& format);

}  // namespace numoe::text::grammar
