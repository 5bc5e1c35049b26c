#include "common/observe/metric_aliases.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "common/base/check.h"
#include "common/observe/metric_list.h"

namespace numoe {
namespace {

struct AliasSpec {
  std::string_view name, ours;
  std::string_view labels, alias_labels;  // separated by commas, one for one
};
#define NUMOE_ALIAS(name, ours, labels, alias_labels) {name, ours, labels, alias_labels},
constexpr AliasSpec kAliases[] = {NUMOE_METRIC_ALIASES(NUMOE_ALIAS)};
#define NUMOE_LISTED_NAME(id, name, ...) std::string_view(name),
constexpr std::string_view kListed[] = {
    NUMOE_METRICS(NUMOE_LISTED_NAME, NUMOE_LISTED_NAME, NUMOE_LISTED_NAME)};

constexpr bool AliasesExist() {
  return std::all_of(std::begin(kAliases), std::end(kAliases), [](const AliasSpec& alias) {
    return std::find(std::begin(kListed), std::end(kListed), alias.ours) != std::end(kListed);
  });
}
static_assert(AliasesExist(), "an alias must name a metric of the list");

constexpr bool AliasesAreSorted() {
  return std::is_sorted(std::begin(kAliases), std::end(kAliases),
                        [](const AliasSpec& a, const AliasSpec& b) { return a.name < b.name; });
}
static_assert(AliasesAreSorted(), "aliases must be sorted by name");

constexpr bool LabelsAreRenamedOneForOne() {
  return std::all_of(std::begin(kAliases), std::end(kAliases), [](const AliasSpec& alias) {
    return std::count(alias.labels.begin(), alias.labels.end(), ',') ==
           std::count(alias.alias_labels.begin(), alias.alias_labels.end(), ',');
  });
}
static_assert(LabelsAreRenamedOneForOne());

// Returns the word of `words` at the position that `word` has in `of`; `word` itself if `of` does not contain
// it.
std::string_view Renamed(std::string_view word, std::string_view of, std::string_view words) {
  while (!of.empty()) {
    const size_t end = of.find(','), other_end = words.find(',');
    if (of.substr(0, end) == word) return words.substr(0, other_end);
    of.remove_prefix(end == std::string_view::npos ? of.size() : end + 1);
    words.remove_prefix(other_end == std::string_view::npos ? words.size() : other_end + 1);
  }
  return word;
}

prometheus::MetricFamily Under(const AliasSpec& alias, const prometheus::MetricFamily& family,
                               const std::string& model_name) {
  NUMOE_DCHECK_EQ(family.name, alias.ours);
  prometheus::MetricFamily renamed = family;
  renamed.name = alias.name;
  for (prometheus::ClientMetric& metric : renamed.metric) {
    for (auto& label : metric.label) label.name = Renamed(label.name, alias.labels, alias.alias_labels);
    metric.label.push_back({"model_name", model_name});
    if (alias.name.starts_with("sglang:")) {
      metric.label.push_back({"engine_type", "unified"});
    } else {
      metric.label.push_back({"engine", "0"});
    }
  }
  return renamed;
}

}  // namespace

void AddAliases(std::vector<prometheus::MetricFamily>& families, const std::string& model_name) {
  NUMOE_CHECK(!model_name.empty());
  const size_t ours = families.size();
  for (const AliasSpec& alias : kAliases) {
    for (size_t i = 0; i < ours; ++i)
      if (families[i].name == alias.ours) families.push_back(Under(alias, families[i], model_name));
  }
}

}  // namespace numoe
