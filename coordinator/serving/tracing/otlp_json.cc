#include "coordinator/serving/tracing/otlp_json.h"

#include <fmt/format.h>

#include <iterator>

#include "common/base/version.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {
namespace {

// The text is written directly: a request's spans would cost ten times as much as a tree of JSON values.
using Out = std::back_insert_iterator<std::string>;

constexpr int kStatusError = 2;
constexpr const char* kScope = "numoe";

std::string Quoted(const std::string& text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

struct WriteValue {
  std::string& out;

  void operator()(const std::string& text) const {
    fmt::format_to(Out(out), R"({{"stringValue":{}}})", Quoted(text));
  }
  void operator()(int64_t number) const { fmt::format_to(Out(out), R"({{"intValue":"{}"}})", number); }
  void operator()(double number) const {
    fmt::format_to(Out(out), R"({{"doubleValue":{}}})", nlohmann::json(number).dump());
  }
  void operator()(bool flag) const { fmt::format_to(Out(out), R"({{"boolValue":{}}})", flag); }
  void operator()(const std::vector<std::string>& texts) const {
    out += R"({"arrayValue":{"values":[)";
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i > 0) out += ',';
      (*this)(texts[i]);
    }
    out += "]}}";
  }
};

void Write(const Attributes& attributes, std::string& out) {
  out += '[';
  for (const auto& [key, value] : attributes) {
    if (out.back() != '[') out += ',';
    fmt::format_to(Out(out), R"({{"key":{},"value":)", Quoted(key));
    std::visit(WriteValue{out}, value);
    out += '}';
  }
  out += ']';
}

void Write(const Span& span, std::string& out) {
  fmt::format_to(Out(out), R"({{"traceId":{},"spanId":{},)", Quoted(span.trace_id), Quoted(span.span_id));
  if (!span.parent_id.empty()) fmt::format_to(Out(out), R"("parentSpanId":{},)", Quoted(span.parent_id));
  fmt::format_to(Out(out),
                 R"("name":{},"kind":{},"startTimeUnixNano":"{}","endTimeUnixNano":"{}","attributes":)",
                 Quoted(span.name), static_cast<int>(span.kind), span.start_ns, span.end_ns);
  Write(span.attributes, out);
  if (!span.error.empty()) {
    fmt::format_to(Out(out), R"(,"status":{{"code":{},"message":{}}})", kStatusError, Quoted(span.error));
  }
  out += '}';
}

}  // namespace

std::string ToOtlpJson(const std::vector<Span>& spans, const Attributes& resource) {
  std::string out = R"({"resourceSpans":[{"resource":{"attributes":)";
  Write(resource, out);
  fmt::format_to(Out(out), R"(}},"scopeSpans":[{{"scope":{{"name":"{}","version":{}}},"spans":[)", kScope,
                 Quoted(std::string(Version())));
  for (const Span& span : spans) {
    if (&span != &spans.front()) out += ',';
    Write(span, out);
  }
  return out + "]}]}]}";
}

}  // namespace numoe::serving
