// The embedded page: every file is found by its path, all that the files refer to is among them, and nothing
// in them leads elsewhere or turns text into markup.
#include "coordinator/page/page_file.h"

#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "coordinator/page/embedded_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What the pattern's first group matches, in every place.
std::vector<std::string> All(std::string_view text, const char* pattern) {
  const std::string copy(text);
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(copy.begin(), copy.end(), regex), end; it != end; ++it)
    found.push_back((*it)[1]);
  return found;
}

TEST(PageFileTest, TheRootIsThePage) {
  const PageFile* page = FindPageFile("/");
  ASSERT_NE(page, nullptr);
  EXPECT_STREQ(page->type, "text/html; charset=utf-8");
  EXPECT_EQ(page->content.substr(0, 15), "<!doctype html>");
  std::ifstream source("coordinator/page/index.html", std::ios::binary);
  EXPECT_EQ(page->content, std::string(std::istreambuf_iterator<char>(source), {})) << "byte for byte";
}

TEST(PageFileTest, NothingElseIsFound) {
  for (const char* path :
       {"", "/page", "/page/", "/page/index.html", "/index.html", "/page/../main.cc", "//"})
    EXPECT_EQ(FindPageFile(path), nullptr) << path;
}

TEST(PageFileTest, TypesAndTagsAreThoseOfTheContent) {
  std::set<std::string_view> tags, paths;
  for (const PageFile& file : EmbeddedFiles()) {
    EXPECT_TRUE(paths.insert(file.path).second) << file.path;
    EXPECT_TRUE(tags.insert(file.etag).second) << file.path;
    EXPECT_TRUE(std::regex_match(file.etag, std::regex("\"[0-9a-f]{32}\""))) << file.etag;
    EXPECT_EQ(FindPageFile(file.path), &file);
    const bool script = file.path.find(".js") != std::string_view::npos;
    EXPECT_EQ(file.type == std::string("text/javascript; charset=utf-8"), script) << file.path;
  }
}

TEST(PageFileTest, WhatFilesReferToIsEmbedded) {
  size_t references = 0;
  for (const PageFile& file : EmbeddedFiles()) {
    std::vector<std::string> names = All(file.content, R"re((?:src|href)="(/[^"#]*)")re");
    if (std::string(file.type).rfind("text/javascript", 0) == 0) {
      for (const std::string& name : All(file.content, R"re(from "\./([a-z_]+\.js)")re"))
        names.push_back("/page/" + name);
    }
    for (const std::string& name : names) EXPECT_NE(FindPageFile(name), nullptr) << file.path << ": " << name;
    references += names.size();
  }
  EXPECT_GT(references, 3u);
}

TEST(PageFileTest, NothingLeadsElsewhereOrBecomesMarkup) {
  for (const PageFile& file : EmbeddedFiles()) {
    const std::string text(file.content);
    EXPECT_THAT(All(text, R"re((?:src|href|url\(|import|fetch\()[=( ]*["'`]?((?:https?:)?//))re"),
                ::testing::IsEmpty())
        << file.path;
    for (const char* sink :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=\""})
      EXPECT_THAT(text, Not(HasSubstr(sink))) << file.path;
  }
  EXPECT_THAT(kPageSecurityPolicy, HasSubstr("default-src 'self';"));
  EXPECT_THAT(kPageSecurityPolicy, Not(HasSubstr("unsafe")));
}

}  // namespace
}  // namespace numoe
