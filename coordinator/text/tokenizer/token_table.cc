#include "coordinator/text/tokenizer/token_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/check.h"

namespace numoe::text {
namespace {

constexpr size_t kKeyBytes = 8;
constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio (Fibonacci hashing)

uint64_t Load(const char* from, size_t length) {
  uint64_t word = 0;
  std::memcpy(&word, from, length);
  return word;
}

// Loads up to eight bytes as a number, using only loads of fixed sizes.
uint64_t LoadShort(const char* from, size_t length) {
  NUMOE_DCHECK(0 < length && length <= kKeyBytes) << length;
  if (length == 8) return Load(from, 8);
  if (length >= 4) return Load(from, 4) | Load(from + length - 4, 4) << (8 * (length - 4));
  if (length >= 2) return Load(from, 2) | Load(from + length - 2, 2) << (8 * (length - 2));
  return static_cast<unsigned char>(*from);
}

uint64_t Mix(uint64_t word) {
  word *= kMultiplier;
  return word ^ word >> 32;
}

}  // namespace

TokenTable::TokenTable(size_t tokens)
    : slots_(std::bit_ceil(tokens + tokens / 2 + 1)), begins_(slots_.size()), mask_(slots_.size() - 1) {}

uint64_t TokenTable::Key(std::string_view bytes) {
  if (bytes.size() <= kKeyBytes) return LoadShort(bytes.data(), bytes.size());
  uint64_t hash = bytes.size();
  size_t at = 0;
  for (; at + kKeyBytes < bytes.size(); at += kKeyBytes)
    hash = Mix(hash ^ Load(bytes.data() + at, kKeyBytes));
  return Mix(hash ^ Load(bytes.data() + bytes.size() - kKeyBytes, kKeyBytes));
}

size_t TokenTable::Place(std::string_view bytes) const {
  NUMOE_DCHECK_LT(size_, slots_.size());
  const uint64_t key = Key(bytes);
  size_t at = Mix(key ^ bytes.size()) & mask_;
  for (;; at = (at + 1) & mask_) {
    const Slot& slot = slots_[at];
    if (slot.length == 0) return at;
    if (slot.key != key || slot.length != bytes.size()) continue;
    if (bytes.size() <= kKeyBytes || text_.compare(begins_[at], bytes.size(), bytes) == 0) return at;
  }
}

bool TokenTable::Add(std::string_view bytes, TokenId id) {
  NUMOE_CHECK(!bytes.empty() && id >= 0 && 3 * size_ < 2 * slots_.size());
  const size_t at = Place(bytes);
  if (slots_[at].length != 0) return false;
  slots_[at] = {Key(bytes), static_cast<uint32_t>(bytes.size()), id};
  if (bytes.size() > kKeyBytes) {
    begins_[at] = text_.size();
    text_ += bytes;
  }
  length_max_ = std::max(length_max_, bytes.size());
  ++size_;
  return true;
}

TokenId TokenTable::Find(std::string_view bytes) const {
  if (bytes.empty() || bytes.size() > length_max_) return kNoToken;
  return slots_[Place(bytes)].id;
}

}  // namespace numoe::text
