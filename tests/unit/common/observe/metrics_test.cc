// The registry for metric_list.h: what is served, by which daemon, and in which of the two ways.
#include "common/observe/metrics.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "common/observe/metrics_exposer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

int ConnectTo(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

// Returns what is answered until the server closes.
std::string Ask(int port, const std::string& request) {
  const int fd = ConnectTo(port);
  if (fd < 0) return "cannot connect";
  send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) reply.append(buffer, static_cast<size_t>(n));
  close(fd);
  return reply;
}

std::string HttpGet(int port, const std::string& path) {
  return Ask(port, "GET " + path + " HTTP/1.0\r\nHost: localhost\r\n\r\n");
}

TEST(MetricsTest, PlainMetricsExistFromTheStart) {
  const Metrics metrics(MetricOwner::kCoordinator);
  const std::string text = metrics.Serialise();
  EXPECT_THAT(text, HasSubstr("# TYPE numoe_steps_total counter\nnumoe_steps_total 0\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE numoe_requests_running gauge\nnumoe_requests_running 0\n"));
  EXPECT_THAT(text, HasSubstr("numoe_time_to_first_token_seconds_count 0\n"));
}

TEST(MetricsTest, ADaemonServesItsOwnMetricsOnly) {
  EXPECT_THAT(Metrics(MetricOwner::kCoordinator).Serialise(), Not(HasSubstr("numoe_pinned")));
  EXPECT_THAT(Metrics(MetricOwner::kWorker).Serialise(), HasSubstr("numoe_pinned 0"));
  EXPECT_THAT(Metrics(MetricOwner::kWorker).Serialise(), Not(HasSubstr("numoe_steps_total")));
}

TEST(MetricsTest, VllmsNamesAreServedInAdditionToOurs) {
  Metrics metrics(MetricOwner::kCoordinator);
  EXPECT_THAT(metrics.Serialise(), Not(HasSubstr("vllm:")));
  metrics.ServeAliases("kimi");
  metrics.Set(GaugeId::kKvUsage, 0.25);
  metrics.Add(CounterId::kTokensGenerated, 7);
  metrics.Observe(HistogramId::kTimeToFirstToken, 0.5);
  metrics.With(CounterId::kRequestsFinished, {"stop"}).Increment();
  const std::string text = metrics.Serialise();
  for (const char* line :
       {"# TYPE vllm:num_requests_running gauge\n",
        "vllm:num_requests_waiting{model_name=\"kimi\",engine=\"0\"} 0\n",
        "vllm:kv_cache_usage_perc{model_name=\"kimi\",engine=\"0\"} 0.25\n",
        "vllm:gpu_cache_usage_perc{model_name=\"kimi\",engine=\"0\"} 0.25\n",
        "vllm:generation_tokens_total{model_name=\"kimi\",engine=\"0\"} 7\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"kimi\",engine=\"0\"} 1\n",
        "vllm:time_to_first_token_seconds_bucket{model_name=\"kimi\",engine=\"0\",le=\"+Inf\"} 1\n",
        "vllm:request_success_total{finished_reason=\"stop\",model_name=\"kimi\",engine=\"0\"} 1\n",
        "numoe_kv_usage_ratio 0.25\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(MetricsTest, ValuesAreServed) {
  Metrics metrics(MetricOwner::kCoordinator);
  metrics.Add(CounterId::kSteps);
  metrics.Add(CounterId::kSteps, 2);
  metrics.Set(GaugeId::kRequestsRunning, 5);
  metrics.Observe(HistogramId::kStepTokens, 3);
  const std::string text = metrics.Serialise();
  EXPECT_THAT(text, HasSubstr("\nnumoe_steps_total 3\n"));
  EXPECT_THAT(text, HasSubstr("\nnumoe_requests_running 5\n"));
  EXPECT_THAT(text, HasSubstr("numoe_step_tokens_bucket{le=\"2\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("numoe_step_tokens_bucket{le=\"4\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("numoe_step_tokens_sum 3\n"));
}

TEST(MetricsTest, TheSameLabelsGiveTheSameSeries) {
  Metrics metrics(MetricOwner::kCoordinator);
  prometheus::Counter& ok = metrics.With(CounterId::kHttpRequests, {"/health", "200"});
  EXPECT_EQ(&ok, &metrics.With(CounterId::kHttpRequests, {"/health", "200"}));
  ok.Increment();
  metrics.With(GaugeId::kWorkerUp, {"1"}).Set(1);
  metrics.With(HistogramId::kWorkerCallDuration, {"1"}).Observe(0.003);
  const std::string text = metrics.Serialise();
  EXPECT_THAT(text, HasSubstr("numoe_http_requests_total{path=\"/health\",status=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("numoe_worker_up{worker=\"1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("numoe_worker_call_duration_seconds_count{worker=\"1\"} 1\n"));
}

TEST(MetricsTest, ScrapesReadValuesThatAreStoredElsewhere) {
  Metrics metrics(MetricOwner::kWorker);
  int sessions = 2;
  double hits = 7;
  metrics.OnScrape([&] { metrics.Set(GaugeId::kExpertSessions, sessions); });
  metrics.Expose(CounterId::kExpertRows, [&](SampleSink sink) { sink({"3"}, hits); });
  EXPECT_THAT(metrics.Serialise(), HasSubstr("numoe_expert_sessions 2\n"));
  sessions = 1;
  hits = 8;
  const std::string text = metrics.Serialise();
  EXPECT_THAT(text, HasSubstr("numoe_expert_sessions 1\n"));
  EXPECT_THAT(text, HasSubstr("numoe_expert_rows_total{layer=\"3\"} 8\n"));
  const size_t type = text.find("# TYPE numoe_expert_rows_total");
  EXPECT_EQ(text.find("# TYPE numoe_expert_rows_total", type + 1), std::string::npos)
      << "the family is written twice";
}

TEST(MetricsTest, WhatASourceNoLongerEmitsIsGone) {
  Metrics metrics(MetricOwner::kRouter);
  std::vector<std::string> backends = {"a", "b"};
  metrics.Expose(GaugeId::kRouterBackendUp, [&](SampleSink sink) {
    for (const std::string& backend : backends) sink({backend}, 1);
  });
  EXPECT_THAT(metrics.Serialise(), HasSubstr("# TYPE numoe_router_backend_up gauge\n"));
  EXPECT_THAT(metrics.Serialise(), HasSubstr("numoe_router_backend_up{backend=\"b\"} 1\n"));
  backends.pop_back();
  EXPECT_THAT(metrics.Serialise(), HasSubstr("numoe_router_backend_up{backend=\"a\"} 1\n"));
  EXPECT_THAT(metrics.Serialise(), Not(HasSubstr("backend=\"b\"")));
}

TEST(MetricsTest, HistogramsAddCountsThatWereKeptElsewhere) {
  Metrics metrics(MetricOwner::kWorker);
  std::vector<double> increments(Metrics::BucketBounds(HistogramId::kExpertCallTokens).size() + 1);
  increments[1] = 3;      // 2 tokens
  increments.back() = 1;  // more than the last bound
  for (int i = 0; i < 2; ++i) metrics.Observe(HistogramId::kExpertCallTokens, increments, 9006);
  const std::string text = metrics.Serialise();
  EXPECT_THAT(text, HasSubstr("numoe_expert_call_tokens_count 8\nnumoe_expert_call_tokens_sum 18012\n"));
  EXPECT_THAT(text, HasSubstr("numoe_expert_call_tokens_bucket{le=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("numoe_expert_call_tokens_bucket{le=\"8192\"} 6\n"));
}

TEST(MetricsTest, CountsFromManyThreadsAddUp) {
  Metrics metrics(MetricOwner::kCoordinator);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) {
        metrics.Add(CounterId::kSteps);
        metrics.Observe(HistogramId::kStepTokens, 1);
        if (n % 250 == 0) metrics.Serialise();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = metrics.Serialise();
  EXPECT_THAT(text, HasSubstr("\nnumoe_steps_total 4000\n"));
  EXPECT_THAT(text, HasSubstr("numoe_step_tokens_count 4000\n"));
}

TEST(MetricsDeathTest, MisuseStopsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Metrics metrics(MetricOwner::kCoordinator);
  EXPECT_DEATH(metrics.Set(GaugeId::kPinned, 1), "only by the daemon that owns it");
  EXPECT_DEATH(metrics.Add(CounterId::kHttpRequests), "through With");
  EXPECT_DEATH(metrics.With(CounterId::kHttpRequests, {"one"}), "has labels \"path,status\"");
  EXPECT_DEATH(metrics.With(GaugeId::kExpertSessions, {}), "belongs to another daemon");
}

TEST(MetricsExposerTest, ServesMetricsOnAPortOfTheKernelsChoice) {
  Metrics metrics(MetricOwner::kWorker);
  metrics.Set(GaugeId::kThreads, 16);
  const auto exposer = MetricsExposer::Start(metrics, "127.0.0.1", 0);
  ASSERT_TRUE(exposer.ok()) << exposer.status();
  EXPECT_GT((*exposer)->port(), 0);
  const std::string reply = HttpGet((*exposer)->port(), "/metrics");
  EXPECT_THAT(reply, HasSubstr("200 OK"));
  EXPECT_THAT(reply, HasSubstr("numoe_threads 16\n"));
  EXPECT_THAT(reply, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  const std::string open = Ask((*exposer)->port(),
                               "GET /metrics HTTP/1.1\r\nX: accept: no\r\n"
                               "ACCEPT: application/openmetrics-text\r\n\r\n");
  EXPECT_THAT(open,
              HasSubstr("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
  EXPECT_THAT(open, HasSubstr("numoe_threads 16\n"));
  EXPECT_THAT(open, EndsWith("# EOF\n"));
  const std::string packed =
      Ask((*exposer)->port(), "GET /metrics HTTP/1.1\r\nAccept-Encoding: gzip, deflate\r\n\r\n");
  EXPECT_THAT(packed, HasSubstr("Content-Encoding: gzip\r\n"));
  EXPECT_THAT(packed, HasSubstr("\r\n\r\n\x1f\x8b"));
}

TEST(MetricsExposerTest, SlowAndSilentClientsDoNotKeepAScrapeAway) {
  const Metrics metrics(MetricOwner::kWorker);
  const auto exposer = MetricsExposer::Start(metrics, "127.0.0.1", 0);
  ASSERT_TRUE(exposer.ok()) << exposer.status();
  const int port = (*exposer)->port();
  std::vector<int> slow;
  for (int i = 0; i < 300; ++i) {  // more than it keeps
    slow.push_back(ConnectTo(port));
    ASSERT_GE(slow.back(), 0);
    const std::string half = i % 2 == 0 ? "" : "GET /metrics HTTP/1.1\r\nHost: x\r\nX-";
    EXPECT_EQ(send(slow.back(), half.data(), half.size(), 0), static_cast<ssize_t>(half.size()));
  }
  EXPECT_THAT(HttpGet(port, "/metrics"), HasSubstr("numoe_threads"));
  for (const int fd : slow) close(fd);
  EXPECT_THAT(HttpGet(port, "/metrics"), HasSubstr("numoe_threads"));
}

TEST(MetricsExposerTest, OtherRequestsAreRefused) {
  const Metrics metrics(MetricOwner::kWorker);
  const auto exposer = MetricsExposer::Start(metrics, "127.0.0.1", 0);
  ASSERT_TRUE(exposer.ok()) << exposer.status();
  const int port = (*exposer)->port();
  EXPECT_THAT(HttpGet(port, "/other"), HasSubstr("404 Not Found"));
  EXPECT_THAT(HttpGet(port, "/metrics?name=x"), HasSubstr("200 OK"));
  EXPECT_THAT(Ask(port, "POST /metrics HTTP/1.1\r\n\r\n"), HasSubstr("405 Method Not Allowed"));
  EXPECT_THAT(Ask(port, "\r\n\r\n"), HasSubstr("404 Not Found"));
  const std::string head = Ask(port, "HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("200 OK"));
  EXPECT_THAT(head, Not(HasSubstr("numoe_threads")));
  EXPECT_EQ(Ask(port, std::string(100'000, 'x')), "") << "no head has an end as late as that";
}

TEST(MetricsExposerTest, StopsAtOnce) {
  const Metrics metrics(MetricOwner::kWorker);
  auto exposer = MetricsExposer::Start(metrics, "127.0.0.1", 0);
  ASSERT_TRUE(exposer.ok()) << exposer.status();
  const auto begin = std::chrono::steady_clock::now();
  exposer->reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
}

TEST(MetricsExposerTest, ATakenPortIsAnErrorThatNamesIt) {
  const Metrics metrics(MetricOwner::kWorker);
  const auto first = MetricsExposer::Start(metrics, "127.0.0.1", 0);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = MetricsExposer::Start(metrics, "127.0.0.1", (*first)->port());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().ToString(), HasSubstr("127.0.0.1:" + std::to_string((*first)->port())));
  EXPECT_THAT(MetricsExposer::Start(metrics, "127.0.0.1", 70000).status().ToString(),
              HasSubstr("expected 0 to 65535"));
}

}  // namespace
}  // namespace numoe
