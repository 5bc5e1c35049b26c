#include "common/observe/metrics_exposer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "prometheus/exposer.h"

namespace numoe {
namespace {

// A connection that is closed at once: makes a listener look up from its poll.
void Knock(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Refused once the listener is gone, or where it listens on no local address: then it stops by its own
  // poll.
  static_cast<void>(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
  close(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsExposer>> MetricsExposer::Start(const Metrics& metrics,
                                                                      const std::string& host, int port) {
  if (port < 0 || port > 65535) {
    return absl::InvalidArgumentError(fmt::format("metrics port is {}, expected 0 to 65535", port));
  }
  const std::string address = fmt::format("{}:{}", host, port);
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address);
    exposer->RegisterCollectable(metrics.collectable());
    return std::unique_ptr<MetricsExposer>(new MetricsExposer(std::move(exposer)));
  } catch (const std::exception&) {  // which says nothing of the cause
    return absl::UnavailableError(
        fmt::format("cannot serve metrics on {}: the port is taken, or the host is none of this machine's; "
                    "choose another "
                    "--metrics-port (0: any) or --metrics-host",
                    address));
  }
}

MetricsExposer::MetricsExposer(std::unique_ptr<prometheus::Exposer> exposer) : exposer_(std::move(exposer)) {}

MetricsExposer::~MetricsExposer() {
  // The HTTP server looks at its stop flag every 2 s or at a connection; a daemon's stop should not wait for
  // it.
  std::atomic<bool> stopped = false;
  std::thread knocker([&stopped, port = port()] {
    while (!stopped.load()) {
      Knock(port);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  exposer_.reset();
  stopped.store(true);
  knocker.join();
}

int MetricsExposer::port() const { return exposer_->GetListeningPorts().front(); }

}  // namespace numoe
