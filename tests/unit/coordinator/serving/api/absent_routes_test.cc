// Routes of other servers: their 404 says why they are absent and what to use instead.
#include "coordinator/serving/api/absent_routes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Message(const net::UrlTable& urls, const char* method, const std::string& path) {
  const auto found = urls.Find(method, path);
  const auto* error = std::get_if<net::ApiError>(&found);
  if (error == nullptr) return "(found)";
  EXPECT_EQ(error->http_status, 404) << path;
  EXPECT_EQ(error->code, "not_found") << path;
  return error->message;
}

TEST(AbsentRoutesTest, RoutesOutOfScopeSayWhatToUseInstead) {
  net::UrlTable urls;
  ExplainAbsentRoutes(urls);
  for (const char* path :
       {"/v1/embeddings", "/embeddings", "/embedding", "/pooling", "/api/embed", "/api/embeddings"})
    EXPECT_THAT(Message(urls, "POST", path), HasSubstr("use a server that runs an embedding model")) << path;
  for (const char* path : {"/v1/score", "/score", "/v1/rerank", "/rerank", "/v2/rerank", "/classify"})
    EXPECT_THAT(Message(urls, "POST", path), HasSubstr("does not score, classify or rerank")) << path;
  for (const char* path : {"/v1/audio/speech", "/v1/audio/transcriptions", "/audio/translations"})
    EXPECT_THAT(Message(urls, "POST", path), HasSubstr("neither speech nor transcription")) << path;
  for (const char* path : {"/v1/images/generations", "/v1/images/edits"})
    EXPECT_THAT(Message(urls, "POST", path), HasSubstr("generates no images")) << path;
}

TEST(AbsentRoutesTest, OllamasRoutesPointToTheOpenAiApi) {
  net::UrlTable urls;
  ExplainAbsentRoutes(urls);
  EXPECT_EQ(Message(urls, "POST", "/api/chat"),
            "no such path: /api/chat; this is an Ollama route, and NUMoE speaks the OpenAI API; use POST "
            "/v1/chat/completions");
  EXPECT_THAT(Message(urls, "POST", "/api/generate"), HasSubstr("use POST /v1/completions"));
  for (const char* path :
       {"/api/tags", "/api/ps", "/api/show", "/api/pull", "/api/delete", "/api/blobs/sha256:0"})
    EXPECT_THAT(Message(urls, "GET", path), HasSubstr("GET /v1/models")) << path;
}

TEST(AbsentRoutesTest, ThePathsStayUnknown) {
  net::UrlTable urls;
  ExplainAbsentRoutes(urls);
  EXPECT_TRUE(urls.routes().empty());
  EXPECT_EQ(urls.Allowed("/v1/embeddings"), "");
  for (const char* path : {"/api/other", "/v1/embeddings2", "/v1/audio"})
    EXPECT_THAT(Message(urls, "GET", path), HasSubstr("GET /openapi.json lists the paths")) << path;
  EXPECT_THAT(Message(urls, "GET", "/v1/audio/" + std::string(1000, 'x')),
              StartsWith("no such path: /v1/audio/xxx"));
}

}  // namespace
}  // namespace numoe::serving
