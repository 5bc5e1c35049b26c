#include "coordinator/text/tokenizer/bpe.h"

#include <algorithm>
#include <functional>

#include "common/base/check.h"
#include "common/weights/weights_limits.h"

namespace numoe::text {
namespace {

// The scan compares numbers of 31 bits that contain a rank and a place.
constexpr size_t kScanBytes = 128;
constexpr int kPlaceBits = 7;
static_assert(kScanBytes == 1 << kPlaceBits && limits::kVocabularyMax <= 1 << (31 - kPlaceBits));
constexpr size_t kScanStep =
    16;  // places are scanned in steps of this number, which become vector instructions

}  // namespace

BytePairEncoder::BytePairEncoder(const TokenTable& vocabulary, const std::vector<Merge>& merges)
    : byte_ids_(), pairs_(merges) {
  for (size_t b = 0; b < byte_ids_.size(); ++b) {
    const char c = static_cast<char>(b);
    byte_ids_[b] = vocabulary.Find({&c, 1});
    NUMOE_CHECK_GE(byte_ids_[b], 0) << "byte " << b << " is not a token";
  }
  byte_pairs_.reserve(byte_ids_.size() * byte_ids_.size());
  for (const TokenId first : byte_ids_) {
    for (const TokenId second : byte_ids_) {
      const Merge& merge = pairs_.Find(first, second);
      byte_pairs_.push_back({merge.rank, merge.merged});
    }
  }
}

BytePairEncoder BytePairEncoder::FromRanks(const std::vector<std::string>& tokens) {
  NUMOE_CHECK_LE(tokens.size(), static_cast<size_t>(limits::kVocabularyMax));
  TokenTable vocabulary(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) vocabulary.Add(tokens[id], static_cast<TokenId>(id));
  std::vector<Merge> merges;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string_view token = tokens[id];
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const TokenId left = vocabulary.Find(token.substr(0, cut));
      if (left == kNoToken) continue;
      const TokenId right = vocabulary.Find(token.substr(cut));
      if (right == kNoToken) continue;
      merges.push_back({left, right, static_cast<int32_t>(id), static_cast<TokenId>(id)});
    }
  }
  BytePairEncoder encoder(vocabulary, merges);
  encoder.whole_ = std::move(vocabulary);
  return encoder;
}

BytePairEncoder BytePairEncoder::FromMerges(
    const std::vector<std::pair<std::string_view, TokenId>>& vocabulary, const std::vector<Merge>& merges,
    bool whole_first) {
  TokenTable table(vocabulary.size());
  for (const auto& [bytes, id] : vocabulary) table.Add(bytes, id);
  BytePairEncoder encoder(table, merges);
  if (whole_first) {
    encoder.whole_ = std::move(table);
    return encoder;
  }
  // Collects the tokens that result from merging their own bytes. For these, looking up the piece has the
  // same result and is faster.
  TokenTable whole(vocabulary.size());
  Scratch scratch;
  std::vector<TokenId> ids;
  for (const auto& [bytes, id] : vocabulary) {
    ids.clear();
    encoder.Encode(bytes, scratch, ids);
    if (ids.size() == 1 && ids[0] == id) whole.Add(bytes, id);
  }
  encoder.whole_ = std::move(whole);
  return encoder;
}

void BytePairEncoder::Encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& ids) const {
  NUMOE_DCHECK(!piece.empty());
  if (const TokenId id = whole_.Find(piece); id != kNoToken) {
    ids.push_back(id);
  } else if (piece.size() <= kScanBytes) {
    EncodeByScan(piece, ids);
  } else {
    EncodeByHeap(piece, scratch, ids);
  }
}

void BytePairEncoder::EncodeByScan(std::string_view piece, std::vector<TokenId>& ids) const {
  const size_t size = piece.size();
  const size_t padded = (size + kScanStep - 1) / kScanStep * kScanStep;
  NUMOE_DCHECK(0 < size && size <= kScanBytes) << size;
  // A part is stored at the index of its first byte. `keys` has the rank and place of merging it with the
  // next part.
  alignas(64) int32_t keys[kScanBytes];
  TokenId parts[kScanBytes];
  TokenId merged[kScanBytes];
  uint8_t left[kScanBytes];
  uint8_t right[kScanBytes];  // `size` for the last part
  std::fill_n(keys, padded, kNoMerge);
  const auto set = [&](size_t at, int32_t rank, TokenId id) {
    keys[at] = rank == kNoMerge ? kNoMerge : rank << kPlaceBits | static_cast<int32_t>(at);
    merged[at] = id;
  };
  const auto offer = [&](size_t at) {
    if (right[at] == size) return set(at, kNoMerge, kNoToken);
    const Merge& merge = pairs_.Find(parts[at], parts[right[at]]);
    set(at, merge.rank, merge.merged);
  };
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(piece[i]); };
  for (size_t i = 0; i < size; ++i) {
    parts[i] = byte_ids_[byte(i)];
    left[i] = static_cast<uint8_t>(i - 1);
    right[i] = static_cast<uint8_t>(i + 1);
    if (i + 1 == size) break;
    const Joined& joined = byte_pairs_[byte(i) * 256u + byte(i + 1)];
    set(i, joined.rank, joined.id);
  }
  for (;;) {
    int32_t best = kNoMerge;
    for (size_t i = 0; i < padded; ++i) best = std::min(best, keys[i]);
    if (best == kNoMerge) break;
    const size_t at = static_cast<size_t>(best) % kScanBytes;
    const size_t gone = right[at];
    NUMOE_DCHECK(at < size && gone < size) << at << " joins " << gone;
    parts[at] = merged[at];
    right[at] = right[gone];
    if (right[at] < size) left[right[at]] = static_cast<uint8_t>(at);
    keys[gone] = kNoMerge;
    offer(at);
    if (at > 0) offer(left[at]);
  }
  for (size_t at = 0; at < size; at = right[at]) ids.push_back(parts[at]);
}

void BytePairEncoder::EncodeByHeap(std::string_view piece, Scratch& scratch,
                                   std::vector<TokenId>& ids) const {
  std::vector<Scratch::Part>& parts = scratch.parts;
  std::vector<uint64_t>& heap = scratch.heap;
  const auto size = static_cast<int32_t>(piece.size());
  NUMOE_CHECK_LT(piece.size(), static_cast<size_t>(INT32_MAX));
  parts.resize(piece.size());
  heap.clear();
  const auto rank = [&](const Scratch::Part& part) {
    return part.right == size ? kNoMerge
                              : pairs_.Find(part.id, parts[static_cast<size_t>(part.right)].id).rank;
  };
  const auto key = [](int32_t of_rank, int32_t at) {
    return uint64_t{static_cast<uint32_t>(of_rank)} << 32 | static_cast<uint32_t>(at);
  };
  for (int32_t i = 0; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(piece[static_cast<size_t>(i)]);
    parts[static_cast<size_t>(i)] = {byte_ids_[byte], kNoMerge, i - 1, i + 1};
  }
  for (int32_t i = 0; i < size; ++i) {
    Scratch::Part& part = parts[static_cast<size_t>(i)];
    part.rank = rank(part);
    if (part.rank != kNoMerge) heap.push_back(key(part.rank, i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto offer = [&](int32_t at) {
    Scratch::Part& part = parts[static_cast<size_t>(at)];
    part.rank = rank(part);
    if (part.rank == kNoMerge) return;
    heap.push_back(key(part.rank, at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    const uint64_t best = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto at = static_cast<int32_t>(best & 0xFFFFFFFF);
    Scratch::Part& part = parts[static_cast<size_t>(at)];
    if (part.rank != static_cast<int32_t>(best >> 32))
      continue;  // one of the two parts has been merged since
    NUMOE_DCHECK(part.right < size) << "the last part has no right neighbour";
    Scratch::Part& gone = parts[static_cast<size_t>(part.right)];
    part.id = pairs_.Find(part.id, gone.id).merged;
    part.right = gone.right;
    gone.rank = kNoMerge;
    if (part.right < size) parts[static_cast<size_t>(part.right)].left = at;
    offer(at);
    if (part.left >= 0) offer(part.left);
  }
  for (int32_t at = 0; at < size; at = parts[static_cast<size_t>(at)].right)
    ids.push_back(parts[static_cast<size_t>(at)].id);
}

}  // namespace numoe::text
