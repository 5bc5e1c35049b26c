#include "coordinator/text/grammar/json_formats.h"

#include <map>

namespace numoe::text::grammar {
namespace {

// Years are 0001 to 9999; 29 February is valid only in leap years.
const std::string kYear = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
const std::string kLeapYear =
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
const std::string kDate = "(?:" + kYear +
                          "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
                          "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
                          "|02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
                          kLeapYear + "-02-29)";
const std::string kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const std::string kDuration =
    "P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}D)"
    "(?:T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))?"
    "|T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S))";
const std::string kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const std::string kHost = kLabel + "(?:\\." + kLabel + ")*";
const std::string kEmail = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" +
                           kLabel + "(?:\\." + kLabel + ")+";
const std::string kOctet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const std::string kIpv4 = "(?:" + kOctet + "\\.){3}" + kOctet;

std::string Ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  std::string any = "(?:" + group + ":){7}" + group;  // all eight groups
  for (int before = 0; before <= 7; ++before) {       // "::" after `before` groups
    any += "|";
    if (before > 0) any += group + "(?::" + group + "){" + std::to_string(before - 1) + "}";
    any += "::";
    const int after = 7 - before;
    if (after > 0) any += "(?:" + group + "(?::" + group + "){0," + std::to_string(after - 1) + "})?";
  }
  return "(?:" + any + ")";
}

std::string Uri(bool reference) {
  const std::string encoded = "%[0-9A-Fa-f]{2}";
  const std::string plain = "A-Za-z0-9._~!$&'()*+,;=\\-";
  const std::string segment = "(?:[" + plain + ":@]|" + encoded + ")";
  const std::string tail =
      "(?:\\?(?:[" + plain + ":@/?]|" + encoded + ")*)?(?:#(?:[" + plain + ":@/?]|" + encoded + ")*)?";
  const std::string authority =
      "//(?:(?:[" + plain + "]|" + encoded + ")+@)?" + kHost + "(?::[0-9]{1,5})?(?:/" + segment + "*)*";
  const std::string rootless = segment + "+(?:/" + segment + "*)*";
  const std::string absolute = "[A-Za-z][A-Za-z0-9+.-]*:(?:" + authority + "|" + rootless + ")" + tail;
  if (!reference) return absolute;
  return "(?:" + absolute + "|/(?:" + rootless + ")?" + tail + ")";
}

}  // namespace

std::optional<std::string> FormatRegex(const std::string& format) {
  static const std::map<std::string, std::string>* const kFormats = new std::map<std::string, std::string>{
      {"date", kDate},
      {"time", kTime},
      {"date-time", kDate + "T" + kTime},
      {"duration", kDuration},
      {"email", kEmail},
      {"idn-email", kEmail},
      {"hostname", kHost},
      {"idn-hostname", kHost},
      {"ipv4", kIpv4},
      {"ipv6", Ipv6()},
      {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
      {"uri", Uri(false)},
      {"iri", Uri(false)},
      {"uri-reference", Uri(true)},
      {"iri-reference", Uri(true)},
      {"json-pointer", "(?:/(?:[^~/]|~[01])*)*"}};
  const auto found = kFormats->find(format);
  if (found == kFormats->end()) return std::nullopt;
  return found->second;
}

}  // namespace numoe::text::grammar
