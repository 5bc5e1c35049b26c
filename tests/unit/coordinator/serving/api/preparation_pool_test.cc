// The queue of the preparing threads, with a real server's exchanges: tenants take turns, a request whose
// client has gone is skipped and keeps its slot until then, and nothing holds a connection once the pool has
// stopped.
#include "coordinator/serving/api/preparation_pool.h"

#include <atomic>
#include <boost/asio.hpp>
#include <chrono>
#include <latch>
#include <mutex>
#include <string>
#include <thread>

#include "coordinator/net/http/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/becomes.h"

namespace numoe::serving {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PreparationPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    urls_.Add({.method = "GET",
               .pattern = "/prepared/{}",
               .summary = "",
               .handle = [this](const std::shared_ptr<net::Exchange>& e) {
                 const auto gone = std::make_shared<std::atomic<bool>>(false);
                 e->OnGone([this, gone] {
                   gone->store(true);
                   ++gone_;
                 });
                 {
                   const std::lock_guard lock(mutex_);
                   last_ = e;
                 }
                 pool_.AddRequest(e, gone, [this, e] { return Work(e); });
                 ++asked_;
               }});
    access_ = *net::Access::Create({.keys = {"a", "b"}, .requests_per_key_max = 4});
    auto server = net::Server::Create(urls_, *access_, metrics_, {.host = "127.0.0.1", .port = 0});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->Start().ok());
  }
  void TearDown() override {
    if (!opened_) Open();
    if (server_ != nullptr) server_->Stop();
    pool_.Stop();
  }

  // The first job waits until Open.
  PreparationPool::Then Work(const std::shared_ptr<net::Exchange>& e) {
    const std::string name = e->request().captures[0];
    if (name == "first") {
      begun_.count_down();
      open_.wait();
    }
    const std::lock_guard lock(mutex_);
    worked_.push_back(name);
    return [e, name] { e->Reply({.body = name}); };
  }
  void Open() {
    opened_ = true;
    open_.count_down();
  }

  tcp::socket Ask(const std::string& key, const std::string& name) {
    tcp::socket socket(context_);
    socket.connect({asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server_->port())});
    const std::string request = "GET /prepared/" + name +
                                " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-api-key: " + key + "\r\n\r\n";
    const int before = asked_;
    asio::write(socket, asio::buffer(request));
    EXPECT_TRUE(name == "refused" || Becomes([&] { return asked_ > before; }));
    return socket;
  }
  static std::string Read(tcp::socket& socket) {
    std::string text;
    boost::system::error_code error;
    asio::read(socket, asio::dynamic_buffer(text), error);
    return text;
  }
  std::vector<std::string> Worked() {
    const std::lock_guard lock(mutex_);
    return worked_;
  }

  asio::io_context context_;
  net::UrlTable urls_;
  std::unique_ptr<net::Access> access_;
  Metrics metrics_{MetricOwner::kCoordinator};
  std::atomic<int> asked_{0}, gone_{0};
  std::latch begun_{1}, open_{1};
  bool opened_ = false;
  std::mutex mutex_;
  std::vector<std::string> worked_;
  std::weak_ptr<net::Exchange> last_;  // the latest request's
  PreparationPool pool_{1};
  std::unique_ptr<net::Server> server_;
};

TEST_F(PreparationPoolTest, TenantsTakeTurns) {
  std::vector<tcp::socket> clients;
  clients.push_back(Ask("a", "first"));
  begun_.wait();
  for (const char* name : {"a1", "a2", "a3"}) clients.push_back(Ask("a", name));
  clients.push_back(Ask("b", "b1"));
  const engine::TenantLines lines = pool_.Lines();
  EXPECT_EQ(lines.at(1).requests, 4) << "the request that is being prepared counts";
  EXPECT_EQ(lines.at(2).requests, 1);
  Open();
  for (tcp::socket& client : clients) EXPECT_THAT(Read(client), HasSubstr("200 OK"));
  EXPECT_THAT(Worked(), ElementsAre("first", "b1", "a1", "a2", "a3"));
  EXPECT_TRUE(Becomes([this] { return pool_.Lines().empty(); }));
}

TEST_F(PreparationPoolTest, ARequestWithoutClientIsSkippedAndKeepsItsSlotUntilThen) {
  tcp::socket first = Ask("a", "first");
  begun_.wait();
  for (const char* name : {"a1", "a2", "a3"}) Ask("a", name);  // and closes the connection
  EXPECT_TRUE(Becomes([this] { return gone_ == 3; }));
  tcp::socket fifth = Ask("a", "refused");
  EXPECT_THAT(Read(fifth), HasSubstr("429 ")) << "four slots are taken";
  Open();
  EXPECT_THAT(Read(first), HasSubstr("200 OK"));
  EXPECT_TRUE(Becomes([this] { return pool_.Lines().empty(); }));
  tcp::socket next = Ask("a", "next");
  EXPECT_THAT(Read(next), HasSubstr("200 OK")) << "they are free again";
  EXPECT_THAT(Worked(), ElementsAre("first", "next"));
}

TEST_F(PreparationPoolTest, AfterTheStopNothingHoldsAConnection) {
  tcp::socket first = Ask("a", "first");
  begun_.wait();
  tcp::socket second = Ask("a", "second");
  server_->Stop();
  Open();
  pool_.Stop();
  server_.reset();  // destroys the connections' io_context
  EXPECT_TRUE(last_.expired());
}

}  // namespace
}  // namespace numoe::serving
