#include "coordinator/net/http/request_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "coordinator/net/http/authority.h"
#include "coordinator/net/http/lower_case.h"

namespace numoe::net {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;
using Wrong = std::optional<ApiError>;

ApiError Refusal(int http_status, const std::string& message) {
  return {.http_status = http_status, .message = message};
}
ApiError Malformed(const std::string& message) { return Refusal(400, message); }

bool IsTokenCharacter(unsigned char c) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         kMarks.find(static_cast<char>(c)) != std::string_view::npos;
}
bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenCharacter);
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsControl(unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; }

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// Takes the bytes up to the next CR LF, and the CR LF. REQUIRES: there is one.
std::string_view TakeLine(std::string_view& bytes) {
  const size_t end = bytes.find("\r\n");
  NUMOE_CHECK(end != std::string_view::npos);
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(end + 2);
  return line;
}

// The elements of a comma-separated list, in lower case.
std::vector<std::string> ListOf(std::string_view value) {
  std::vector<std::string> elements;
  for (size_t end = 0; end != std::string_view::npos; value.remove_prefix(std::min(value.size(), end + 1))) {
    end = value.find(',');
    elements.push_back(LowerCase(Trim(value.substr(0, end))));
  }
  return elements;
}

std::vector<std::string_view> ValuesOf(const Fields& fields, std::string_view name) {
  std::vector<std::string_view> values;
  for (const auto& [key, value] : fields)
    if (key == name) values.push_back(value);
  return values;
}

Wrong ReadVersion(std::string_view version, RequestHead& head) {
  constexpr std::string_view kHttp = "HTTP/";
  const std::string_view number = version.substr(std::min(version.size(), kHttp.size()));
  const bool is_version = version.starts_with(kHttp) && number.size() == 3 && IsDigit(number[0]) &&
                          number[1] == '.' && IsDigit(number[2]);
  if (!is_version)
    return Malformed(fmt::format("the request line ends in {}; expected HTTP/1.1", Shown(version)));
  if (number[0] != '1')
    return Refusal(505, fmt::format("{} is not supported; expected HTTP/1.1 or HTTP/1.0", Shown(version)));
  head.http10 = number[2] == '0';
  return std::nullopt;
}

// Reads "http://HOST[:PORT]/path?query": sets the authority, and a target in the usual form.
Wrong ReadAbsoluteTarget(std::string_view target, RequestHead& head) {
  constexpr std::string_view kMark = "://";
  const size_t mark = target.find(kMark);
  const std::string scheme = LowerCase(target.substr(0, mark));
  if (mark == std::string_view::npos || (scheme != "http" && scheme != "https")) {
    return Malformed(
        fmt::format("the request target is {}; expected a path that begins with '/', or a complete http:// "
                    "or https:// URL",
                    Shown(target)));
  }
  target.remove_prefix(mark + kMark.size());
  const size_t end = std::min(target.find_first_of("/?"), target.size());
  head.authority = std::string(target.substr(0, end));
  const auto authority = ReadAuthority(head.authority);
  if (!authority || authority->host.empty()) {
    return Malformed(fmt::format("the request target names the server {}; expected HOST or HOST:PORT",
                                 Shown(head.authority)));
  }
  target.remove_prefix(end);
  head.target = (target.starts_with('/') ? "" : "/") + std::string(target);
  return std::nullopt;
}

Wrong ReadTarget(std::string_view target, RequestHead& head) {
  const auto is_visible = [](unsigned char c) { return c > ' ' && c != 0x7f && c != '#'; };
  if (target.empty() || !std::all_of(target.begin(), target.end(), is_visible)) {
    return Malformed(fmt::format(
        "the request target is {}; expected one without spaces, control characters and '#', which "
        "must be percent-encoded, as in %20",
        Shown(target)));
  }
  if (head.method == "CONNECT") return Refusal(501, "CONNECT is not supported: this server is not a proxy");
  if (target[0] != '/' && !(target == "*" && head.method == "OPTIONS"))
    return ReadAbsoluteTarget(target, head);
  head.target = std::string(target);
  return std::nullopt;
}

Wrong ReadRequestLine(std::string_view line, RequestHead& head) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == last || !IsToken(line.substr(0, first))) {
    return Malformed(fmt::format(
        "the request line is {}; expected METHOD TARGET HTTP/1.1 with one space between the parts",
        Shown(line)));
  }
  head.method = std::string(line.substr(0, first));
  if (Wrong wrong = ReadVersion(line.substr(last + 1), head)) return wrong;
  return ReadTarget(line.substr(first + 1, last - first - 1), head);
}

Wrong ReadFields(std::string_view bytes, Fields& fields) {
  for (std::string_view line = TakeLine(bytes); !line.empty(); line = TakeLine(bytes)) {
    if (line[0] == ' ' || line[0] == '\t')
      return Malformed(
          "a header field is continued on a line that begins with a space; expected it on one line");
    if (!IsFieldLine(line))
      return Malformed(fmt::format(
          "the header line is {}; expected NAME: VALUE, without a space before the colon", Shown(line)));
    const size_t colon = line.find(':');
    fields.emplace_back(LowerCase(line.substr(0, colon)), Trim(line.substr(colon + 1)));
  }
  return std::nullopt;
}

Wrong ReadHost(RequestHead& head) {
  const auto hosts = ValuesOf(head.fields, "host");
  if (hosts.size() > 1 || (hosts.empty() && !head.http10))
    return Malformed(fmt::format("the request has {} Host headers; expected one", hosts.size()));
  if (hosts.empty()) return std::nullopt;
  if (!ReadAuthority(hosts[0]))
    return Malformed(fmt::format("the Host header is {}; expected HOST or HOST:PORT", Shown(hosts[0])));
  if (head.authority.empty()) head.authority = std::string(hosts[0]);
  return std::nullopt;
}

// RFC 9112, 6.1 and 6.3: only a program that knows the last coding can tell where the body ends.
Wrong ReadTransferCoding(RequestHead& head) {
  const auto lines = ValuesOf(head.fields, "transfer-encoding");
  if (lines.empty()) return std::nullopt;
  if (lines.size() > 1)
    return Malformed(fmt::format("the request has {} Transfer-Encoding headers; expected one", lines.size()));
  if (head.http10) return Malformed("HTTP/1.0 has no Transfer-Encoding; expected Content-Length");
  if (!ValuesOf(head.fields, "content-length").empty())
    return Malformed("the request has Transfer-Encoding and Content-Length; expected only one of them");
  const std::vector<std::string> codings = ListOf(lines[0]);
  const bool once = std::count(codings.begin(), codings.end(), "chunked") == 1 && codings.back() == "chunked";
  if (!once || !std::all_of(codings.begin(), codings.end(), IsToken))
    return Malformed(fmt::format("the Transfer-Encoding header is {}; expected chunked", Shown(lines[0])));
  if (codings.size() > 1) {
    return Refusal(501, fmt::format("the Transfer-Encoding {} is not supported; expected only chunked",
                                    Shown(lines[0])));
  }
  head.body.chunked = true;
  return std::nullopt;
}

Wrong ReadLength(RequestHead& head) {
  const auto lengths = ValuesOf(head.fields, "content-length");
  if (lengths.empty()) return std::nullopt;
  const char* const end = lengths[0].data() + lengths[0].size();
  const auto read = std::from_chars(lengths[0].data(), end, head.body.bytes);
  // from_chars accepts '-' only for signed numbers and never '+', so a sign is refused.
  if (lengths.size() == 1 && read.ec == std::errc() && read.ptr == end) return std::nullopt;
  return Malformed(
      lengths.size() > 1
          ? fmt::format("the request has {} Content-Length headers; expected one", lengths.size())
          : fmt::format("the Content-Length header is {}; expected a number of bytes", Shown(lengths[0])));
}

void ReadConnection(RequestHead& head) {
  bool close = false, keep_alive = false;
  for (const std::string_view line : ValuesOf(head.fields, "connection")) {
    for (const std::string& option : ListOf(line)) {
      close = close || option == "close";
      keep_alive = keep_alive || option == "keep-alive";
    }
  }
  head.keep_alive = !close && (keep_alive || !head.http10);
}

Wrong ReadExpectation(RequestHead& head) {
  if (head.http10) return std::nullopt;  // RFC 9110, 10.1.1: HTTP/1.0 has no interim answers
  for (const std::string_view expected : ValuesOf(head.fields, "expect")) {
    if (LowerCase(expected) != "100-continue")
      return Refusal(417, fmt::format("the Expect header is {}; expected 100-continue", Shown(expected)));
    head.awaits_continue = true;
  }
  return std::nullopt;
}

ApiError HeadTooLarge(std::string_view bytes) {
  const bool one_line = bytes.substr(0, limits::kHttpHeaderBytesMax).find('\n') == std::string_view::npos;
  return {.http_status = one_line ? 414 : 431,
          .message = fmt::format("the request's {} larger than {} bytes",
                                 one_line ? "target is" : "headers are", limits::kHttpHeaderBytesMax),
          .code = "request_too_large"};
}

// Returns the length of the head at the beginning of `bytes`, including its empty line; 0 if the head is
// incomplete. The first `looked` bytes were checked by an earlier call. Returns an error as soon as the bytes
// cannot begin a head.
std::variant<size_t, ApiError> FindHead(std::string_view bytes, size_t looked) {
  NUMOE_CHECK_LE(looked, bytes.size());
  // Begins one byte earlier, because a CR at the end is checked together with the next byte.
  for (size_t i = looked > 0 ? looked - 1 : 0; i < bytes.size(); ++i) {
    const bool after_cr = i > 0 && bytes[i - 1] == '\r';
    if (after_cr != (bytes[i] == '\n'))
      return Malformed("a line of the request's head does not end in CR LF, which HTTP/1.1 requires");
    if (bytes[i] == '\n') {
      if (i >= 3 && bytes[i - 3] == '\r') return i + 1;
      RequestHead head;  // checks the request line at once, without waiting for the rest of the head
      if (bytes.find('\n') == i)
        if (Wrong wrong = ReadRequestLine(bytes.substr(0, i - 1), head)) return *std::move(wrong);
    } else if (bytes[i] != '\r' && IsControl(static_cast<unsigned char>(bytes[i]))) {
      return Malformed(fmt::format("the request's head contains the control character {:#04x}; expected none",
                                   static_cast<unsigned char>(bytes[i])));
    }
  }
  return size_t{0};
}

std::variant<RequestHead, ApiError> ReadRequestHead(std::string_view bytes) {
  NUMOE_CHECK(bytes.ends_with("\r\n\r\n"));
  RequestHead head;
  Wrong wrong = ReadRequestLine(TakeLine(bytes), head);
  if (!wrong) wrong = ReadFields(bytes, head.fields);
  if (!wrong) wrong = ReadHost(head);
  if (!wrong) wrong = ReadTransferCoding(head);
  if (!wrong) wrong = ReadLength(head);
  if (!wrong) wrong = ReadExpectation(head);
  if (wrong) return *std::move(wrong);
  ReadConnection(head);
  return head;
}

}  // namespace

bool IsFieldLine(std::string_view line) {
  const size_t colon = line.find(':');
  return colon != std::string_view::npos && IsToken(line.substr(0, colon)) &&
         std::none_of(line.begin(), line.end(), IsControl);
}

std::string Shown(std::string_view text) {
  constexpr size_t kShown = 60;
  return "'" + std::string(text.substr(0, kShown)) + (text.size() > kShown ? "...'" : "'");
}

std::optional<std::variant<RequestHead, ApiError>> HeadReader::Read(std::string_view bytes, size_t& used) {
  // Empty lines before a request are skipped (RFC 9112, 2.2).
  while (bytes.starts_with("\r\n")) {
    bytes.remove_prefix(2);
    used += 2;
    looked_ = 0;
  }
  const auto found = FindHead(bytes, looked_);
  if (const auto* error = std::get_if<ApiError>(&found)) return *error;
  const size_t end = std::get<size_t>(found);
  if ((end > 0 ? end : bytes.size()) > limits::kHttpHeaderBytesMax) return HeadTooLarge(bytes);
  looked_ = end > 0 ? 0 : bytes.size();
  if (end == 0) return std::nullopt;
  used += end;
  return ReadRequestHead(bytes.substr(0, end));
}

}  // namespace numoe::net
