// Compares attention over the paged cache with double precision, for every instruction set and precision that
// this machine supports, and checks that its bits do not depend on how the batch and the threads divide it.
//
// Tolerance. Rounding a query or a weight to BF16 moves it by 2^-8 of itself at most: a score of magnitude S
// (the sum of |q k|, scaled) by 2^-8 S, so the weights by a factor of up to exp(2^-8 S) and the result by
// 2 * (exp(2^-8 S) - 1 + 2^-8) * the largest value. In fp32, 2^-20 replaces 2^-8 (sums of 128 products). With
// an FP8 cache the same holds relative to the values in the cache: reading them adds no error.
#include "coordinator/execution/device/cpu/cpu_attention.h"

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "common/formats/bf16.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

struct Shape {
  int heads, kv_heads, key_width, value_width;
  bool value_in_key;
  CacheType type = CacheType::kBf16;

  CacheRow Row() const {
    return {kv_heads, key_width, value_in_key ? 0 : value_width, value_in_key ? key_width - value_width : 0};
  }
};
constexpr Shape kGqa = {8, 2, 64, 64, false};
constexpr Shape kMla = {20, 1, 72, 48, true};
constexpr Shape kOdd = {3, 3, 24, 40, false};
// Row lengths of one group, of two and a half groups, and of less than a register.
constexpr Shape kGqaFp8 = {8, 2, 128, 128, false, CacheType::kFp8};
constexpr Shape kMlaFp8 = {20, 1, 344, 320, true, CacheType::kFp8};
constexpr Shape kOddFp8 = {3, 3, 24, 40, false, CacheType::kFp8};
constexpr int kBlockTokens = 16;
constexpr int kLayer = 1;  // of the cache

// Sequences with full caches, whose blocks are in random order, and queries for all their positions.
class World {
 public:
  World(const Shape& shape, const std::vector<int>& contexts) : shape_(shape), contexts_(contexts) {
    int blocks = 0;
    for (const int context : contexts) {
      blocks += (context + kBlockTokens - 1) / kBlockTokens;
      blocks_max_ = std::max(blocks_max_, (context + kBlockTokens - 1) / kBlockTokens);
    }
    EXPECT_TRUE(cache_
                    .Reserve({.layers = 2, .row = shape.Row(), .query_heads = shape.heads},
                             {.type = shape.type, .blocks = blocks, .block_tokens = kBlockTokens})
                    .ok());
    std::vector<KvBlockId> order(static_cast<size_t>(blocks));
    for (int b = 0; b < blocks; ++b) order[static_cast<size_t>(b)] = b;
    std::shuffle(order.begin(), order.end(), random_);
    for (const int context : contexts) {
      for (int b = 0; b < blocks_max_; ++b) {
        const bool owned = b * kBlockTokens < context;
        tables_.push_back(owned ? order.back() : -1);
        if (owned) order.pop_back();
      }
    }
    for (int s = 0; s < static_cast<int>(contexts.size()); ++s) alone_.push_back(Layout({{s, 0, 1}}));
    // Rows after a sequence's end are NaN, so that a result would show if they were read.
    std::memset(cache_.bytes().data(), 0xff, cache_.bytes().size());
    for (size_t s = 0; s < contexts.size(); ++s) {
      for (int p = 0; p < contexts[s]; ++p) {
        for (int h = 0; h < shape.kv_heads; ++h) {
          Store(cache_.keys(), cache_.Key(alone_[s], kLayer, 0, p, h));
          if (!shape.value_in_key) Store(cache_.values(), cache_.Value(alone_[s], kLayer, 0, p, h));
        }
        for (int i = 0; i < shape.heads * shape.key_width; ++i) queries_[s].push_back(normal_(random_));
      }
    }
  }

  struct Piece {
    int sequence, begin, end;
  };
  StepLayout Layout(const std::vector<Piece>& pieces) const {
    StepLayout layout;
    layout.blocks_per_sequence_max = blocks_max_;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto first = tables_.begin() + pieces[i].sequence * blocks_max_;
      layout.block_tables.insert(layout.block_tables.end(), first, first + blocks_max_);
      for (int p = pieces[i].begin; p < pieces[i].end; ++p) {
        layout.tokens.push_back(0);
        layout.positions.push_back(p);
        layout.sequences.push_back(static_cast<int32_t>(i));
      }
    }
    return layout;
  }

  // [tokens][heads * value_width]
  std::vector<float> Attend(Isa isa, Precision precision, int threads, const std::vector<Piece>& pieces) {
    ThreadPool pool({.name = "test", .cpus = std::vector<int>(static_cast<size_t>(threads), 0)});
    CpuAttention attention(isa, pool);
    const StepLayout layout = Layout(pieces);
    std::vector<float> query;
    for (const Piece& piece : pieces) {
      const auto at = queries_[static_cast<size_t>(piece.sequence)].begin();
      const int width = shape_.heads * shape_.key_width;
      query.insert(query.end(), at + piece.begin * width, at + piece.end * width);
    }
    std::vector<float> out(layout.tokens.size() * static_cast<size_t>(shape_.heads * shape_.value_width),
                           -77.0f);
    attention.Attend({.layout = &layout,
                      .cache = &cache_,
                      .args = {.cache = {0, kLayer},
                               .heads = shape_.heads,
                               .key_width = shape_.key_width,
                               .value_width = shape_.value_width,
                               .kv_heads = shape_.kv_heads,
                               .value_in_key = shape_.value_in_key,
                               .scale = kScale},
                      .query = query.data(),
                      .out = out.data(),
                      .precision = precision},
                     PlanAttend(layout, FindRuns(layout),
                                {.heads = shape_.heads, .kv_heads = shape_.kv_heads, .threads = threads}));
    return out;
  }

  // Returns the result of one token's head in double precision, and how far rounding by `unit` may change it.
  std::pair<std::vector<double>, double> Reference(int sequence, int position, int head, double unit) {
    const int kv_head = head / (shape_.heads / shape_.kv_heads);
    const float* query = &queries_[static_cast<size_t>(sequence)]
                                  [static_cast<size_t>((position * shape_.heads + head) * shape_.key_width)];
    std::vector<double> out(static_cast<size_t>(shape_.value_width));
    double sum = 0, magnitude = 0, largest = 0;
    const double* key = Rows(sequence, kv_head, /*values=*/false).data();
    const double* value_rows = Rows(sequence, kv_head, !shape_.value_in_key).data();
    const int value_stride = shape_.value_in_key ? shape_.key_width : shape_.value_width;
    for (int p = 0; p <= position; ++p, key += shape_.key_width, value_rows += value_stride) {
      double score = 0, size = 0;
      for (int i = 0; i < shape_.key_width; ++i) {
        const double product = static_cast<double>(query[i]) * key[i];
        score += product;
        size += std::fabs(product);
      }
      magnitude = std::max(magnitude, size * kScale);
      const double weight = std::exp(score * kScale);
      sum += weight;
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] += weight * value_rows[i];
        largest = std::max(largest, std::fabs(value_rows[i]));
      }
    }
    for (double& v : out) v /= sum;
    return {out, 2 * (std::exp(unit * magnitude) - 1 + unit) * largest};
  }

 private:
  static constexpr float kScale = 0.2f;
  void Store(const CacheRowForm& form, const CacheMemory::Row& row) {
    std::vector<float> values(static_cast<size_t>(form.width));
    for (float& value : values) value = normal_(random_);
    NarrowRow(Isa::kScalar, values.data(), form.coded, reinterpret_cast<uint8_t*>(row.values), row.exponents);
    auto* plain = reinterpret_cast<uint16_t*>(row.values + form.coded);
    for (size_t i = static_cast<size_t>(form.coded); i < values.size(); ++i) *plain++ = EncodeBf16(values[i]);
  }
  // Returns the decoded keys or values of a sequence in the cache, [positions, width]; decodes them only
  // once.
  const std::vector<double>& Rows(int sequence, int head, bool values) {
    std::vector<double>& rows = rows_[{sequence, head, values}];
    if (!rows.empty()) return rows;
    const CacheRowForm& form = values ? cache_.values() : cache_.keys();
    std::vector<uint16_t> wide(static_cast<size_t>(form.width));
    for (int position = 0; position < contexts_[static_cast<size_t>(sequence)]; ++position) {
      const StepLayout& layout = alone_[static_cast<size_t>(sequence)];
      const CacheMemory::Row row = values ? cache_.Value(layout, kLayer, 0, position, head)
                                          : cache_.Key(layout, kLayer, 0, position, head);
      const std::byte* bytes = row.values;
      const uint8_t* exponents = row.exponents;
      WidenRow(
          Isa::kScalar,
          {.rows = &bytes, .count = 1, .width = form.width, .coded = form.coded, .exponents = &exponents}, 0,
          wide.data());
      for (const uint16_t value : wide) rows.push_back(DecodeBf16(value));
    }
    return rows;
  }

  const Shape shape_;
  const std::vector<int> contexts_;
  int blocks_max_ = 0;
  std::vector<KvBlockId> tables_;
  std::vector<StepLayout> alone_;  // a layout for each sequence
  CacheMemory cache_;
  std::mt19937 random_{11};
  std::normal_distribution<float> normal_;
  std::vector<float> queries_[4];
  std::map<std::tuple<int, int, bool>, std::vector<double>> rows_;  // by sequence, head, values
};

struct Case {
  Isa isa;
  Precision precision;
};

class CpuAttentionTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const absl::StatusOr<Isa> usable = SelectIsa(IsaName(GetParam().isa));
    if (!usable.ok()) GTEST_SKIP() << usable.status();
  }
};

TEST_P(CpuAttentionTest, AgreesWithDoublePrecision) {
  const double unit = GetParam().precision == Precision::kFloat ? 0x1p-20 : 0x1p-8;
  for (const Shape& shape : {kGqa, kMla, kOdd, kGqaFp8, kMlaFp8, kOddFp8}) {
    World world(shape, {1300, 40, 700});
    const std::vector<World::Piece> pieces = {{0, 1270, 1300}, {1, 0, 40}, {2, 699, 700}};
    const std::vector<float> out = world.Attend(GetParam().isa, GetParam().precision, 3, pieces);
    size_t at = 0;
    for (const World::Piece& piece : pieces) {
      for (int p = piece.begin; p < piece.end; ++p) {
        for (int h = 0; h < shape.heads; ++h) {
          const auto [expected, tolerance] = world.Reference(piece.sequence, p, h, unit);
          for (const double value : expected) {
            ASSERT_NEAR(out[at++], value, tolerance) << "sequence " << piece.sequence << " position " << p;
          }
        }
      }
    }
  }
}

TEST_P(CpuAttentionTest, ARowsBitsDependOnNothingAroundIt) {
  if (GetParam().precision == Precision::kFast)
    GTEST_SKIP() << "only exact activations (bf16, fp32) promise this";
  for (const Shape& shape : {kGqa, kMla, kGqaFp8, kMlaFp8}) {
    World world(shape, {1100, 600});
    const size_t row = static_cast<size_t>(shape.heads * shape.value_width);
    // A long prompt in one step, whose parts are not scattered, must give the same bits as ...
    const std::vector<float> whole = world.Attend(GetParam().isa, GetParam().precision, 1, {{0, 0, 1100}});
    // ... single tokens and pieces of it, whose parts are scattered over many threads, together with another
    // sequence.
    for (const auto& [begin, end] : {std::pair{1099, 1100}, {511, 512}, {512, 513}, {1020, 1030}, {0, 3}}) {
      for (const int threads : {1, 5}) {
        const std::vector<float> piece =
            world.Attend(GetParam().isa, GetParam().precision, threads, {{1, 590, 600}, {0, begin, end}});
        EXPECT_EQ(0, std::memcmp(&piece[10 * row], &whole[static_cast<size_t>(begin) * row],
                                 static_cast<size_t>(end - begin) * row * sizeof(float)))
            << "tokens " << begin << " to " << end << " on " << threads << " threads";
      }
    }
  }
}

std::string Name(const ::testing::TestParamInfo<Case>& info) {
  constexpr const char* kPrecisions[] = {"fast", "bf16", "fp32"};
  return std::string(IsaName(info.param.isa)) + "_" + kPrecisions[static_cast<size_t>(info.param.precision)];
}
INSTANTIATE_TEST_SUITE_P(
    All, CpuAttentionTest,
    ::testing::Values(Case{Isa::kScalar, Precision::kFloat}, Case{Isa::kAvx2, Precision::kFloat},
                      Case{Isa::kAvx2, Precision::kBf16}, Case{Isa::kAvx512, Precision::kFloat},
                      Case{Isa::kAvx512, Precision::kBf16}, Case{Isa::kAvx512, Precision::kFast}),
    Name);

}  // namespace
}  // namespace numoe::execution
