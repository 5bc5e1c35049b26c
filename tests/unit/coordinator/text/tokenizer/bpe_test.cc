// Byte-pair encoding is compared with a simple implementation of its definition on strings, for random
// vocabularies.
#include "coordinator/text/tokenizer/bpe.h"

#include <algorithm>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text {
namespace {

// Returns the rank of merging two parts, kNoMerge if they cannot be merged.
using RankOf = std::function<int32_t(const std::string& left, const std::string& right)>;

std::vector<std::string> MergeByDefinition(const std::string& piece, const RankOf& rank) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  for (;;) {
    int32_t best = kNoMerge;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      if (const int32_t r = rank(parts[i], parts[i + 1]); r < best) {
        best = r;
        at = i;
      }
    }
    if (best == kNoMerge) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

std::vector<std::string> AllBytes() {
  std::vector<std::string> bytes;
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  return bytes;
}

std::string RandomPiece(std::mt19937& random, size_t size) {
  std::string piece;
  for (size_t i = 0; i < size; ++i) piece += static_cast<char>('a' + random() % 3);
  return piece;
}

// Sizes near those at which the encoder uses another algorithm.
const size_t kSizes[] = {1, 2, 3, 5, 15, 16, 17, 31, 64, 100, 127, 128, 129, 300};

TEST(BytePairEncoderTest, RanksOfAnyVocabularyMergeAsDefined) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> tokens = AllBytes();
    for (int i = 0; i < 40; ++i) {
      const std::string token = RandomPiece(random, 2 + random() % 5);
      if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
    }
    std::shuffle(tokens.begin(), tokens.end(), random);  // long tokens may come before their parts
    std::map<std::string, TokenId> ids;
    for (size_t id = 0; id < tokens.size(); ++id) ids[tokens[id]] = static_cast<TokenId>(id);
    const BytePairEncoder encoder = BytePairEncoder::FromRanks(tokens);
    BytePairEncoder::Scratch scratch;
    for (const size_t size : kSizes) {
      const std::string piece = RandomPiece(random, size);
      std::vector<TokenId> expected;
      if (ids.count(piece) != 0) {
        expected = {ids[piece]};
      } else {
        for (const std::string& part : MergeByDefinition(piece, [&](const auto&left, const auto&right) {
               const auto it = ids.find(left + right);
               return it == ids.end() ? kNoMerge : it->second;
             }))
          expected.push_back(ids[part]);
      }
      std::vector<TokenId> found;
      encoder.Encode(piece, scratch, found);
      ASSERT_EQ(found, expected) << "round " << round << ": " << piece;
    }
  }
}

TEST(BytePairEncoderTest, ListsOfMergesMergeAsDefined) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const bool whole_first = round % 2 == 0;
    std::vector<std::string> tokens = AllBytes();
    std::vector<std::pair<std::string, std::string>> pairs;
    for (int i = 0; i < 60; ++i) {
      // A part is a letter or an earlier token.
      const auto part = [&] {
        const size_t n = random() % (3 + tokens.size() - 256);
        return n < 3 ? std::string(1, static_cast<char>('a' + n)) : tokens[256 + n - 3];
      };
      pairs.emplace_back(part(), part());
      const std::string token = pairs.back().first + pairs.back().second;
      if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
    }
    tokens.push_back("abcabcabc");  // possibly not the result of any merges
    std::shuffle(pairs.begin(), pairs.end(), random);
    std::map<std::string, TokenId> ids;
    std::vector<std::pair<std::string_view, TokenId>> vocabulary;
    for (const std::string& token : tokens) {
      if (ids.emplace(token, static_cast<TokenId>(3 * ids.size())).second)
        vocabulary.emplace_back(token, ids[token]);
    }
    std::map<std::pair<std::string, std::string>, int32_t> ranks;
    std::vector<Merge> merges;
    for (const auto& [left, right] : pairs) {
      const auto rank = static_cast<int32_t>(merges.size());
      merges.push_back({ids[left], ids[right], rank, ids[left + right]});
      ranks.emplace(std::pair(left, right), rank);
    }
    const BytePairEncoder encoder = BytePairEncoder::FromMerges(vocabulary, merges, whole_first);
    BytePairEncoder::Scratch scratch;
    std::vector<std::string> pieces(tokens.begin() + 256, tokens.end());
    for (const size_t size : kSizes) pieces.push_back(RandomPiece(random, size));
    for (const std::string& piece : pieces) {
      std::vector<TokenId> expected;
      if (whole_first && ids.count(piece) != 0) {
        expected = {ids[piece]};
      } else {
        for (const std::string& part : MergeByDefinition(piece, [&](const auto&left, const auto&right) {
               const auto it = ranks.find({left, right});
               return it == ranks.end() ? kNoMerge : it->second;
             }))
          expected.push_back(ids[part]);
      }
      std::vector<TokenId> found;
      encoder.Encode(piece, scratch, found);
      ASSERT_EQ(found, expected) << "round " << round << ": " << piece;
    }
  }
}

TEST(BytePairEncoderTest, AMillionBytesOfOneLetterAreNotQuadratic) {
  std::vector<std::string> tokens = AllBytes();
  for (const size_t size : {2u, 4u, 8u, 3u}) tokens.emplace_back(size, 'a');
  const BytePairEncoder encoder = BytePairEncoder::FromRanks(tokens);
  BytePairEncoder::Scratch scratch;
  std::vector<TokenId> ids;
  encoder.Encode(std::string(1'000'003, 'a'), scratch, ids);
  ASSERT_EQ(ids.size(), 125'001u);
  EXPECT_EQ(ids[0], 258);
  EXPECT_EQ(ids.back(), 259) << "2 and 1 are merged to 3";
}

}  // namespace
}  // namespace numoe::text
