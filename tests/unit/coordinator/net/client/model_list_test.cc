#include "coordinator/net/client/model_list.h"

#include <gtest/gtest.h>

#include "tests/support/canned_server.h"

namespace numoe::net {
namespace {

TEST(ModelList, ReadsWhatServersAnswer) {
  std::string reply =
      R"({"object":"list","data":[{"id":"kimi","max_model_len":131072,"owned_by":"x"},{"id":7},{"id":"other"}]})";
  CannedServer server([&](const CannedRequest& request) {
    EXPECT_EQ(request.target, "/v1/models");
    return JsonReply(200, reply);
  });
  const auto client = *HttpClient::Create(*ParseUrl(server.url()), "");
  const auto models = ListModels(*client);
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->size(), 2u);
  EXPECT_EQ((*models)[0].id, "kimi");
  EXPECT_EQ((*models)[0].max_model_len, 131072);
  EXPECT_EQ((*models)[1].max_model_len, 0);
  for (const char* wrong : {"", "[]", "{}", R"({"data":[]})", R"({"data":7})", R"({"data":[5]})"}) {
    reply = wrong;
    EXPECT_EQ(ListModels(*client).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace numoe::net
