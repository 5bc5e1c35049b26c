#include "coordinator/clients/serving_load/load_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace numoe::clients {
namespace {

constexpr double kWidth = 960, kHeight = 796;
constexpr double kLeft = 92, kRight = 32, kTop = 96, kPanelHeight = 286, kPanelGap = 62;
constexpr double kLogFrom = 20;  // ratio of the largest to the smallest latency
constexpr int kTicksWanted = 6;

// The text has a contrast of at least 4.5 to 1 to the background in both themes.
constexpr char kStyle[] = R"(<style>
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 14px; fill: #1f2933; }
.back { fill: #ffffff; } .title { font-size: 20px; font-weight: 600; } .quiet { fill: #52606d; }
.point { font-size: 12px; fill: #52606d; stroke: #ffffff; stroke-width: 4; stroke-linejoin: round; paint-order: stroke; } .grid { stroke: #e1e6eb; stroke-width: 1; } .axis { stroke: #7b8794; stroke-width: 1; }
.line { fill: none; stroke-width: 2.25; stroke-linejoin: round; }
.median { stroke: #0b69a3; } .median-mark { fill: #0b69a3; }
.p95 { stroke: #9a5b00; stroke-dasharray: 9 4; } .p95-mark { fill: #9a5b00; }
.p99 { stroke: #b01e5b; stroke-dasharray: 2 4; } .p99-mark { fill: #b01e5b; }
@media (prefers-color-scheme: dark) {
text { fill: #e4e9ee; } .back { fill: #14191f; } .quiet, .point { fill: #a9b4bf; } .point { stroke: #14191f; } .grid { stroke: #2a333d; } .axis { stroke: #7b8794; }
.median { stroke: #5cb8ff; } .median-mark { fill: #5cb8ff; } .p95 { stroke: #f0b04a; } .p95-mark { fill: #f0b04a; }
.p99 { stroke: #ff86b3; } .p99-mark { fill: #ff86b3; }
}
</style>
)";

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (static_cast<unsigned char>(c) < ' ') {
      escaped += ' ';
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string TickText(double value) {
  if (value < 1000 || value >= 1e9) return fmt::format("{:g}", value);
  std::string digits = fmt::format("{:.0f}", value);
  for (size_t left = digits.size(); left > 3; left -= 3) digits.insert(left - 3, ",");
  return digits;
}

// Returns the smallest of 1, 2 or 5 times a power of ten that is at least `step`.
double RoundStep(double step) {
  NUMOE_CHECK(step > 0 && std::isfinite(step)) << step;
  const double power = std::pow(10, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

struct Axis {
  double low = 0, high = 1;   // values at the axis's ends
  double begin = 0, end = 1;  // pixels at its ends
  bool logarithmic = false;
  std::vector<double> ticks;

  double At(double value) const {
    NUMOE_DCHECK(low < high && begin != end && (low > 0 || !logarithmic));
    const auto place = [this](double v) { return logarithmic ? std::log10(std::max(v, low)) : v; };
    return begin + (place(value) - place(low)) / (place(high) - place(low)) * (end - begin);
  }
};

Axis LinearAxis(double most, double begin, double end) {
  Axis axis{.begin = begin, .end = end};
  const double step = RoundStep(std::max(most, 1e-9) / kTicksWanted);
  axis.high = step * std::ceil(most * 1.02 / step);
  if (axis.high <= 0) axis.high = step;
  for (int i = 0; i * step <= axis.high * (1 + 1e-9); ++i) axis.ticks.push_back(i * step);
  return axis;
}

// REQUIRES: `values` are above 0.
Axis LatencyAxis(const std::vector<double>& values, double begin, double end) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (values.empty() || *most < *least * kLogFrom) return LinearAxis(values.empty() ? 1 : *most, begin, end);
  std::vector<double> steps;
  for (int power = static_cast<int>(std::floor(std::log10(*least))); power <= std::ceil(std::log10(*most));
       ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) steps.push_back(factor * std::pow(10, power));
  }
  const auto below = std::prev(std::upper_bound(steps.begin(), steps.end(), *least));
  const auto above = std::lower_bound(steps.begin(), steps.end(), *most);
  NUMOE_CHECK(above != steps.end() && *below <= *least && *above >= *most);
  Axis axis{.low = *below, .high = *above, .begin = begin, .end = end, .logarithmic = true};
  const bool decades_only = above - below > 3 * kTicksWanted;
  for (auto step = below; step <= above; ++step) {
    if (!decades_only || (step - steps.begin()) % 3 == 0) axis.ticks.push_back(*step);
  }
  return axis;
}

struct Series {
  const char* style;
  const char* name;
  double Spread::*value;
};
constexpr Series kSeries[] = {{"median", "median", &Spread::median},
                              {"p95", "95th percentile", &Spread::p95},
                              {"p99", "99th percentile", &Spread::p99}};

std::string Marker(const std::string& style, double x, double y) {
  if (style == "median")
    return fmt::format("<circle class=\"median-mark\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\"/>\n", x, y);
  const double turn = style == "p99" ? 45 : 0;  // degrees: a square, or a square on its corner
  return fmt::format(
      "<rect class=\"{}-mark\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"8\" height=\"8\" transform=\"rotate({} "
      "{:.1f} {:.1f})\"/>\n",
      style, x - 4, y - 4, turn, x, y);
}

class Plot {
 public:
  explicit Plot(const std::vector<LoadPoint>& points) : points_(points) {
    double most = 0;
    for (const LoadPoint& point : points) most = std::max(most, Throughput(point));
    x_ = LinearAxis(most, kLeft, kWidth - kRight);
  }

  std::string Draw(const std::string& title, const std::string& subtitle) {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
        "height=\"{1:g}\" role=\"img\">\n"
        "<title>{2}</title>\n<desc>Latency against output throughput, one point for each load.</desc>\n",
        kWidth, kHeight, Escape(title));
    svg_ += kStyle;
    svg_ += "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n";
    Text("title", kLeft, 36, "start", title);
    Text("quiet", kLeft, 58, "start", subtitle);
    Legend();
    Panel("Time to first token (ms)", kTop, &LoadReport::ttft);
    Panel("Time per output token (ms)", kTop + kPanelHeight + kPanelGap, &LoadReport::tpot);
    Text("", (x_.begin + x_.end) / 2, kHeight - 16, "middle", "Output throughput (tokens/s)");
    return svg_ + "</svg>\n";
  }

 private:
  static double Throughput(const LoadPoint& point) {
    return point.report.PerSecond(point.report.total_output_tokens);
  }

  void Text(const char* style, double x, double y, const char* anchor, const std::string& text) {
    svg_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", style,
                        x, y, anchor, Escape(text));
  }
  void Line(const char* style, double x1, double y1, double x2, double y2) {
    svg_ += fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", style, x1, y1, x2, y2);
  }

  void Legend() {
    double x = kWidth - kRight - 472;
    for (const Series& series : kSeries) {
      Line(fmt::format("line {}", series.style).c_str(), x, 80, x + 34, 80);
      svg_ += Marker(series.style, x + 17, 80);
      Text("", x + 42, 85, "start", series.name);
      x += series.style == std::string("median") ? 124 : 178;
    }
  }

  void Panel(const char* name, double top, Spread LoadReport::*latency) {
    const double bottom = top + kPanelHeight;
    std::vector<double> values;
    for (const LoadPoint& point : points_) {
      for (const Series& series : kSeries) {
        if (const double value = point.report.*latency.*series.value; value > 0) values.push_back(value);
      }
    }
    const Axis y = LatencyAxis(values, bottom, top);
    for (const double tick : y.ticks) {
      Line("grid", x_.begin, y.At(tick), x_.end, y.At(tick));
      Text("quiet", x_.begin - 10, y.At(tick) + 5, "end", TickText(tick));
    }
    for (const double tick : x_.ticks) {
      Line("axis", x_.At(tick), bottom, x_.At(tick), bottom + 5);
      Text("quiet", x_.At(tick), bottom + 22, "middle", TickText(tick));
    }
    Line("axis", x_.begin, bottom, x_.end, bottom);
    Line("axis", x_.begin, top, x_.begin, bottom);
    svg_ += fmt::format(
        "<text text-anchor=\"middle\" transform=\"translate(26 {:.1f}) rotate(-90)\">{}{}</text>\n",
        (top + bottom) / 2, name, y.logarithmic ? ", log scale" : "");
    // Labels cover lines, whose course is clear without a piece, and markers cover labels.
    std::string markers;
    for (const Series& series : kSeries) markers += Curve(series, latency, y);
    Labels(latency, y);
    svg_ += markers;
  }

  // Draws the line and returns its markers.
  std::string Curve(const Series& series, Spread LoadReport::*latency, const Axis& y) {
    std::string path, markers;
    for (const LoadPoint& point : points_) {
      const double value = point.report.*latency.*series.value;
      if (value <= 0) continue;
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_.At(Throughput(point)), y.At(value));
      markers += Marker(series.style, x_.At(Throughput(point)), y.At(value));
    }
    if (!path.empty()) svg_ += fmt::format("<path class=\"line {}\" d=\"{}\"/>\n", series.style, path);
    return markers;
  }

  // Writes each label near the median's point; leaves out a label that would cover another.
  void Labels(Spread LoadReport::*latency, const Axis& y) {
    std::vector<std::pair<double, double>> taken;
    for (const LoadPoint& point : points_) {
      const double value = (point.report.*latency).median;
      if (value <= 0) continue;
      const double half = 3.4 * static_cast<double>(point.label.size());
      const double x = std::clamp(x_.At(Throughput(point)), x_.begin + half + 4, x_.end - half);
      const double at = y.At(value) + (y.At(value) > y.begin - 24 ? -12 : 20);
      const bool free = std::none_of(taken.begin(), taken.end(), [&](const auto& other) {
        return std::abs(other.first - x) < 2 * half + 4 && std::abs(other.second - at) < 14;
      });
      if (!free) continue;
      taken.emplace_back(x, at);
      Text("point", x, at, "middle", point.label);
    }
  }

  const std::vector<LoadPoint>& points_;
  Axis x_;
  std::string svg_;
};

}  // namespace

std::string DrawLoadPlot(const std::string& title, const std::string& subtitle,
                         const std::vector<LoadPoint>& points) {
  NUMOE_CHECK(!points.empty());
  return Plot(points).Draw(title, subtitle);
}

}  // namespace numoe::clients
