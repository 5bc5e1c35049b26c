// The page's routes: they need no key, serve every file under its path, and reply with a security policy and
// an ETag. A starting server shows its state to a browser and refuses programs.
#include "coordinator/serving/page/page_routes.h"

#include "coordinator/serving/page/embedded_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

// Keeps the one reply of a handler.
class FakeExchange final : public net::Exchange {
 public:
  explicit FakeExchange(net::HttpRequest request) : request_(std::move(request)) {}
  const net::HttpRequest& request() const override { return request_; }
  std::string TakeBody() override { return request_.body; }
  void Reply(net::HttpReply given) override { reply = std::move(given); }
  void ReplyError(const net::ApiError& error) override {
    reply = net::HttpReply{.status = error.http_status, .body = error.message};
  }
  void BeginStream() override { ADD_FAILURE(); }
  void BeginBody(net::HttpReply) override { ADD_FAILURE(); }
  void Send(std::string) override { ADD_FAILURE(); }
  void EndStream() override { ADD_FAILURE(); }
  void Break() override { ADD_FAILURE(); }
  void OnSent(std::function<void()>) override { ADD_FAILURE(); }
  void OnGone(std::function<void()>) override { ADD_FAILURE(); }
  void Post(std::function<void()>) override { ADD_FAILURE(); }
  boost::asio::any_io_executor Executor() override { return {}; }
  std::shared_ptr<net::ConcurrencySlot> Slot() override { return nullptr; }
  void CountTokens(int) override { ADD_FAILURE(); }

  net::HttpReply reply;

 private:
  const net::HttpRequest request_;
};

using Headers = std::vector<std::pair<std::string, std::string>>;

net::HttpReply Ask(const net::UrlTable& urls, const std::string& path, const Headers& headers) {
  const auto found = urls.Find("GET", path);
  if (const auto* error = std::get_if<net::ApiError>(&found)) return {.status = error->http_status};
  const net::Route& route = *std::get<net::RouteMatch>(found).route;
  EXPECT_TRUE(route.open);
  const auto exchange =
      std::make_shared<FakeExchange>(net::HttpRequest{.method = "GET", .path = path, .headers = headers});
  route.handle(exchange);
  return exchange->reply;
}

net::HttpReply Get(const std::string& path, const Headers& headers = {}) {
  net::UrlTable urls;
  AddPageRoutes(urls);
  return Ask(urls, path, headers);
}

net::HttpReply GetWhileStarting(const std::string& path, const Headers& headers = {}) {
  net::UrlTable urls;
  urls.RefuseOthers({.http_status = 503, .message = "no model yet", .code = "starting"});
  AddStartingPage(urls);
  return Ask(urls, path, headers);
}

TEST(PageRoutesTest, EveryFileIsServedUnderItsPath) {
  for (const PageFile& file : EmbeddedFiles()) {
    const net::HttpReply reply = Get(std::string(file.path));
    EXPECT_EQ(reply.status, 200) << file.path;
    EXPECT_EQ(reply.type, file.type);
    EXPECT_EQ(reply.body, file.content);
    EXPECT_THAT(reply.headers, Contains(Pair("ETag", file.etag)));
    EXPECT_THAT(reply.headers, Contains(Pair("Content-Security-Policy", HasSubstr("default-src 'self'"))));
    EXPECT_THAT(reply.headers, Contains(Pair("X-Content-Type-Options", "nosniff")));
  }
}

TEST(PageRoutesTest, AFileThatTheBrowserHasIsNotSentAgain) {
  const std::string etag = FindPageFile("/")->etag;
  EXPECT_EQ(Get("/", {{"if-none-match", etag}}).status, 304);
  EXPECT_EQ(Get("/", {{"if-none-match", "\"other\""}}).status, 200);
  EXPECT_EQ(Get("/page/app.js", {{"if-none-match", etag}}).status, 200);
}

TEST(PageRoutesTest, AStartingServerShowsABrowserItsState) {
  const net::HttpReply reply =
      GetWhileStarting("/", {{"accept", "text/html,application/xhtml+xml,*/*;q=0.8"}});
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.type, "text/html; charset=utf-8");
  EXPECT_EQ(reply.body, FindPageFile("/page/starting.html")->content);
  EXPECT_THAT(reply.headers, Contains(Pair("Cache-Control", "no-store")));
  EXPECT_THAT(reply.headers, Contains(Pair("Content-Security-Policy", HasSubstr("default-src 'self'"))));
  EXPECT_EQ(GetWhileStarting("/page/starting.js").status, 200);
}

TEST(PageRoutesTest, AStartingServerRefusesPrograms) {
  for (const Headers& headers :
       {Headers{}, Headers{{"accept", "*/*"}}, Headers{{"accept", "application/json"}}}) {
    const net::HttpReply reply = GetWhileStarting("/", headers);
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.body, "no model yet");
  }
  EXPECT_EQ(GetWhileStarting("/v1/models", {{"accept", "text/html"}}).status, 503);
}

TEST(PageRoutesTest, NothingElseIsThere) {
  for (const char* path : {"/page", "/page/", "/page/nothing.js", "/page/a/b.js", "/index.html"})
    EXPECT_EQ(Get(path).status, 404) << path;
}

}  // namespace
}  // namespace numoe::serving
