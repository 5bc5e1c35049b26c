// The cache shares grammars, drops the least recently used, and is used by many threads, as are masks
// computed on first use.
#include "coordinator/text/grammar/grammar_cache.h"

#include <thread>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"

namespace numoe::text {
namespace {

GrammarSource Numbered(int i) { return {Kind::kRegex, "abc" + std::to_string(i)}; }

TEST(GrammarCacheTest, SharesEqualSources) {
  GrammarCache cache(SmallVocabulary());
  const auto a = cache.Get({Kind::kRegex, "[0-9]+"});
  const auto b = cache.Get({Kind::kRegex, "[0-9]+"});
  const auto c = cache.Get({Kind::kJsonSchema, "[0-9]+"});
  const auto d = cache.Get({Kind::kRegex, "[0-8]+"});
  ASSERT_TRUE(a.ok() && b.ok() && d.ok());
  EXPECT_EQ(*a, *b);
  EXPECT_NE(*a, *d);
  EXPECT_FALSE(c.ok());
  EXPECT_EQ(cache.size(), 2u);
  const auto framed = cache.Get({.kind = Kind::kRegex, .text = "[0-9]+", .before = {"x"}});
  ASSERT_TRUE(framed.ok());
  EXPECT_NE(*a, *framed);
  EXPECT_EQ(cache.size(), 3u);
}

TEST(GrammarCacheTest, DropsTheLeastRecentlyUsed) {
  const size_t one = (*GrammarCache(SmallVocabulary()).Get(Numbered(0)))->bytes();
  GrammarCache cache(SmallVocabulary(), one * 7 / 2);
  const auto first = *cache.Get(Numbered(0));
  const auto second = *cache.Get(Numbered(1));
  ASSERT_TRUE(cache.Get(Numbered(2)).ok());
  EXPECT_EQ(*cache.Get(Numbered(0)), first);
  ASSERT_TRUE(cache.Get(Numbered(3)).ok());  // drops 1
  EXPECT_EQ(*cache.Get(Numbered(0)), first);
  EXPECT_NE(*cache.Get(Numbered(1)), second);
  EXPECT_TRUE(Accepts(second, "abc1"));
}

TEST(GrammarCacheTest, ThreadsShareGrammarsAndTheirMasks) {
  GrammarCache cache(SmallVocabulary(), 100'000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache] {
      for (int i = 0; i < 30; ++i) {
        const auto grammar = cache.Get(i % 2 == 0 ? GrammarSource{Kind::kJsonObject, ""} : Numbered(i));
        ASSERT_TRUE(grammar.ok()) << grammar.status();
        std::mt19937_64 random(static_cast<uint64_t>(i));
        EXPECT_NE(RandomText(*grammar, random), "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(GrammarCacheTest, MasksComputedByManyThreadsAreTheSame) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"pattern":"^[a-c]{1,30}$"},"b":{"type":"number"}}})";
  GrammarLimits cold;
  cold.warm_steps = 0;
  const auto grammar = *CompiledGrammar::Compile({Kind::kJsonSchema, schema}, SmallVocabulary(), cold);
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&grammar, &text] {
      std::mt19937_64 random(7);
      for (int i = 0; i < 10; ++i) text += RandomText(grammar, random) + "\n";
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
}

}  // namespace
}  // namespace numoe::text
