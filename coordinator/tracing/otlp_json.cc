#include "coordinator/tracing/otlp_json.h"

#include "common/base/version.h"
#include "nlohmann/json.hpp"

namespace numoe {
namespace {

using nlohmann::ordered_json;

constexpr int kStatusError = 2;
constexpr const char* kScope = "numoe";

struct ToValue {
  ordered_json operator()(const std::string& text) const { return {{"stringValue", text}}; }
  ordered_json operator()(int64_t number) const { return {{"intValue", std::to_string(number)}}; }
  ordered_json operator()(double number) const { return {{"doubleValue", number}}; }
  ordered_json operator()(bool flag) const { return {{"boolValue", flag}}; }
  ordered_json operator()(const std::vector<std::string>& texts) const {
    ordered_json values = ordered_json::array();
    for (const std::string& text : texts) values.push_back((*this)(text));
    return {{"arrayValue", {{"values", values}}}};
  }
};

ordered_json ToJson(const Attributes& attributes) {
  ordered_json list = ordered_json::array();
  for (const auto& [key, value] : attributes)
    list.push_back({{"key", key}, {"value", std::visit(ToValue(), value)}});
  return list;
}

ordered_json ToJson(const Span& span) {
  ordered_json json = {{"traceId", span.trace_id}, {"spanId", span.span_id}};
  if (!span.parent_id.empty()) json["parentSpanId"] = span.parent_id;
  json["name"] = span.name;
  json["kind"] = static_cast<int>(span.kind);
  json["startTimeUnixNano"] = std::to_string(span.start_ns);
  json["endTimeUnixNano"] = std::to_string(span.end_ns);
  json["attributes"] = ToJson(span.attributes);
  if (!span.error.empty()) json["status"] = {{"code", kStatusError}, {"message", span.error}};
  return json;
}

}  // namespace

std::string ToOtlpJson(const std::vector<Span>& spans, const Attributes& resource) {
  ordered_json list = ordered_json::array();
  for (const Span& span : spans) list.push_back(ToJson(span));
  const ordered_json scope = {{"scope", {{"name", kScope}, {"version", std::string(Version())}}},
                              {"spans", list}};
  const ordered_json request = {
      {"resourceSpans", {{{"resource", {{"attributes", ToJson(resource)}}}, {"scopeSpans", {scope}}}}}};
  return request.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

}  // namespace numoe
