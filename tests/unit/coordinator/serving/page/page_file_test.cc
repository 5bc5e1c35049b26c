// The embedded page: every file is found by its path, the files refer only to embedded files, and nothing in
// them refers to other servers or turns text into markup.
#include "coordinator/serving/page/page_file.h"

#include <fstream>
#include <iterator>
#include <set>

#include "coordinator/serving/page/embedded_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the text between `before` and the next quote, at every occurrence.
std::vector<std::string> Quoted(std::string_view text, std::string_view before) {
  std::vector<std::string> found;
  for (size_t at = text.find(before); at != text.npos; at = text.find(before, at + 1)) {
    const size_t begin = at + before.size();
    found.emplace_back(text.substr(begin, text.find('"', begin) - begin));
  }
  return found;
}

TEST(PageFileTest, TheRootIsThePage) {
  const PageFile* page = FindPageFile("/");
  ASSERT_NE(page, nullptr);
  EXPECT_STREQ(page->type, "text/html; charset=utf-8");
  EXPECT_EQ(page->content.substr(0, 15), "<!doctype html>");
  std::ifstream source("coordinator/serving/page/index.html", std::ios::binary);
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
    const std::string_view etag = file.etag;
    EXPECT_EQ(etag.size(), 34u) << etag;
    EXPECT_EQ(etag.find_first_not_of("0123456789abcdef", 1), 33u) << etag;
    EXPECT_TRUE(etag.front() == '"' && etag.back() == '"') << etag;
    EXPECT_EQ(FindPageFile(file.path), &file);
    const bool script = file.path.find(".js") != std::string_view::npos;
    EXPECT_EQ(file.type == std::string("text/javascript; charset=utf-8"), script) << file.path;
  }
}

TEST(PageFileTest, FilesReferToEmbeddedFiles) {
  size_t references = 0;
  for (const PageFile& file : EmbeddedFiles()) {
    std::vector<std::string> names;
    for (const char* attribute : {"src=\"", "href=\""}) {
      for (const std::string& address : Quoted(file.content, attribute)) {
        if (address.rfind("/", 0) == 0) names.push_back(address);
      }
    }
    for (const std::string& module : Quoted(file.content, "from \"./")) names.push_back("/page/" + module);
    for (const std::string& name : names) EXPECT_NE(FindPageFile(name), nullptr) << file.path << ": " << name;
    references += names.size();
  }
  EXPECT_GT(references, 3u);
}

TEST(PageFileTest, NothingRefersToOtherServersOrBecomesMarkup) {
  for (const PageFile& file : EmbeddedFiles()) {
    const std::string text(file.content);
    for (const char* loader : {"src=\"", "href=\"", "url(", "import(\"", "fetch(\"", "from \""}) {
      for (const std::string& address : Quoted(text, loader))
        EXPECT_THAT(address, Not(HasSubstr("//"))) << file.path << ": " << loader;
    }
    for (const char* sink :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=\""})
      EXPECT_THAT(text, Not(HasSubstr(sink))) << file.path;
  }
  EXPECT_THAT(kPageSecurityPolicy, HasSubstr("default-src 'self';"));
  EXPECT_THAT(kPageSecurityPolicy, Not(HasSubstr("unsafe")));
}

}  // namespace
}  // namespace numoe::serving
