#include "coordinator/tokenizer/bpe.h"

#include <queue>
#include <tuple>

#include "common/base/check.h"

namespace numoe {
namespace {

struct Part {
  int begin = 0;
  int length = 0;  // 0: merged into its left neighbour
  int left = -1;
  int right = -1;
};

struct Candidate {
  int32_t rank;
  int part;    // left part of the pair
  int length;  // of both parts when the candidate was made; stale if it changed
  bool operator>(const Candidate& other) const {
    return std::tie(rank, part) > std::tie(other.rank, other.part);
  }
};

}  // namespace

std::vector<int> MergeBytes(std::string_view piece, const std::vector<int>& initial,
                            absl::FunctionRef<int32_t(std::string_view left, std::string_view right)> rank) {
  std::vector<Part> parts;
  int begin = 0;
  for (size_t i = 0; i < initial.size(); ++i) {
    parts.push_back(
        {begin, initial[i], static_cast<int>(i) - 1, i + 1 < initial.size() ? static_cast<int>(i) + 1 : -1});
    begin += initial[i];
  }
  NUMOE_DCHECK(begin == static_cast<int>(piece.size()));
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto offer = [&](int p) {
    if (p < 0 || parts[p].right < 0) return;
    const Part& left = parts[p];
    const Part& right = parts[left.right];
    const int32_t r = rank(piece.substr(left.begin, left.length), piece.substr(right.begin, right.length));
    if (r != kNoMerge) heap.push({r, p, left.length + right.length});
  };
  for (size_t i = 0; i + 1 < parts.size(); ++i) offer(static_cast<int>(i));
  while (!heap.empty()) {
    const Candidate best = heap.top();
    heap.pop();
    Part& left = parts[best.part];
    if (left.length == 0 || left.right < 0 || left.length + parts[left.right].length != best.length) continue;
    Part& right = parts[left.right];
    left.length = best.length;
    left.right = right.right;
    right.length = 0;
    if (left.right >= 0) parts[left.right].left = best.part;
    offer(left.left);
    offer(best.part);
  }
  std::vector<int> lengths;
  for (const Part& part : parts) {
    if (part.length > 0) lengths.push_back(part.length);
  }
  return lengths;
}

}  // namespace numoe
