#include "coordinator/net/http/request_body.h"

#include <algorithm>
#include <charconv>

#include "common/base/check.h"
#include "common/base/limits.h"

namespace numoe::net {
namespace {

constexpr size_t kSizeDigitsMax = 16;  // hexadecimal digits of 64 bits

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

RequestBody::RequestBody(AnnouncedBody announced, size_t bytes_max)
    : bytes_max_(bytes_max),
      chunked_(announced.chunked),
      part_(announced.chunked ? Part::kSize : Part::kData),
      missing_(announced.bytes) {
  NUMOE_CHECK(chunked_ ? missing_ == 0 : missing_ <= bytes_max) << "larger bodies are refused by their head";
  if (!chunked_ && missing_ == 0) state_ = State::kWhole;
}

size_t RequestBody::Take(std::string_view bytes) {
  NUMOE_CHECK(state_ == State::kMore);
  std::string_view rest = bytes;
  while (state_ == State::kMore && !rest.empty()) {
    if (part_ == Part::kData) {
      TakeData(rest);
    } else if (TakeLine(rest)) {
      state_ = OnLine();
      line_.clear();
    }
  }
  return bytes.size() - rest.size();
}

void RequestBody::TakeData(std::string_view& bytes) {
  const size_t count = std::min<uint64_t>(missing_, bytes.size());
  text_.append(bytes.substr(0, count));
  bytes.remove_prefix(count);
  missing_ -= count;
  NUMOE_DCHECK_LE(text_.size() + missing_, bytes_max_);
  if (missing_ > 0) return;
  part_ = Part::kDataEnd;
  if (!chunked_) state_ = State::kWhole;
}

bool RequestBody::TakeLine(std::string_view& bytes) {
  const size_t end = bytes.find('\n');
  line_.append(bytes.substr(0, end));
  bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
  if (overhead_ + line_.size() > limits::kHttpHeaderBytesMax) state_ = State::kTooLarge;
  if (state_ != State::kMore || end == std::string_view::npos) return false;
  // Other programs could take a CR elsewhere for the end of a line.
  if (line_.find('\r') != line_.size() - 1 || line_.empty()) {
    state_ = State::kMalformed;
    return false;
  }
  line_.pop_back();
  return true;
}

RequestBody::State RequestBody::OnLine() {
  switch (part_) {
    case Part::kSize:
      return OnSize();
    case Part::kDataEnd:
      part_ = Part::kSize;
      return line_.empty() ? State::kMore : State::kMalformed;
    default:
      NUMOE_CHECK(part_ == Part::kTrailer);
      overhead_ += line_.size();
      if (line_.empty()) return State::kWhole;
      return IsFieldLine(line_) ? State::kMore : State::kMalformed;
  }
}

RequestBody::State RequestBody::OnSize() {
  const char* const end = line_.data() + line_.size();
  const auto read = std::from_chars(line_.data(), end, missing_, 16);
  const auto digits = static_cast<size_t>(read.ptr - line_.data());
  if (read.ec != std::errc() || digits > kSizeDigitsMax) return State::kMalformed;
  // The rest of the line after the length is an extension, or empty.
  const std::string_view extension = std::string_view(line_).substr(digits);
  const size_t mark = std::min(
      static_cast<size_t>(std::find_if_not(extension.begin(), extension.end(), IsBlank) - extension.begin()),
      extension.size());
  const bool is_extension = mark < extension.size() && extension[mark] == ';' &&
                            std::none_of(extension.begin(), extension.end(),
                                         [](unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7f; });
  if (!extension.empty() && !is_extension) return State::kMalformed;
  overhead_ += extension.size();
  if (missing_ > bytes_max_ - text_.size()) return State::kTooLarge;
  part_ = missing_ > 0 ? Part::kData : Part::kTrailer;
  return State::kMore;
}

}  // namespace numoe::net
