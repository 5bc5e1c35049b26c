// A hostile process at the other end of a mailbox segment: it writes any bytes to any place of the segment,
// wakes any waiter and uses the socket, while calls run in the same session and in another one. The worker
// must not die or wait forever, must pass only checked values to its executor, and must answer the other
// session correctly.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/transport/call_layout.h"
#include "common/transport/mailbox_channel.h"
#include "common/transport/mapped_weights.h"
#include "expert_worker/service/mailbox_server.h"

namespace numoe {
namespace {

constexpr int kHidden = 4;
constexpr int kExperts = 8;
constexpr uint64_t kInstance = 0x0123456789abcdef;
constexpr size_t kSlotBytesMax = 1 << 20;
constexpr int kCallsMax = 3;           // calls for one input
constexpr int kOperationsMax = 64;     // operations for one input
constexpr int kCallMs = 5;             // short, because a call with overwritten words may never be answered
constexpr int kBystanderMs = 120'000;  // enough for a busy machine with a sanitizer

// Computes out = hidden. The ids that it reads must be the checked copies, whatever the peer writes
// meanwhile.
class Copies final : public LayerExecutor {
 public:
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    for (const ExpertId expert : call.experts)
      NUMOE_CHECK(expert == kNoExpert || (expert >= 0 && expert < kExperts)) << expert;
    NUMOE_CHECK_EQ(call.experts.size(), static_cast<size_t>(call.tokens) * call.experts_per_token);
    NUMOE_CHECK_EQ(call.hidden.size(), out.size());
    std::copy(call.hidden.begin(), call.hidden.end(), out.begin());
    return absl::OkStatus();
  }
};

struct Session {
  std::unique_ptr<MailboxChannel> channel;
  FileDescriptor socket;  // the socket of the channel
  MailboxSegment
      also;  // another mapping, which cannot be made after the worker knows that the segment is attached
};

// A server that is attacked, and a session that does not belong to the attacker.
class Target {
 public:
  Target() {
    SilenceLog();
    auto server = worker::MailboxServer::Start(
        shared_,
        {.shape = {kHidden, kExperts}, .experts_per_token = 2, .silence_max = std::chrono::hours(24)});
    NUMOE_CHECK(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
    bystander_.emplace(Attach());
  }

  Session Attach() const {
    while (true) {
      FileDescriptor socket = Connect();
      auto fd = ReceiveDescriptor(socket.get());
      if (!fd.ok()) {  // sessions of earlier inputs have not ended yet
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        continue;
      }
      auto segment = MailboxSegment::Attach(*std::move(fd), kSlotBytesMax);
      NUMOE_CHECK(segment.ok()) << segment.status().ToString();
      auto again = MailboxSegment::Attach(FileDescriptor(dup(segment->fd())), kSlotBytesMax);
      NUMOE_CHECK(again.ok()) << again.status().ToString();
      NUMOE_CHECK_EQ(send(socket.get(), &kAttached, 1, MSG_NOSIGNAL), 1);
      FileDescriptor also(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
      return {std::make_unique<MailboxChannel>(*std::move(segment), Side::kCoordinator, std::move(socket)),
              std::move(also), *std::move(again)};
    }
  }
  void CheckBystander() {
    const absl::Status status = Call(*bystander_->channel, ++bystander_calls_, kBystanderMs, /*whole=*/true);
    NUMOE_CHECK(status.ok()) << status.ToString();
  }
  // With `whole`, no attacker writes to the segment, so the answer must be correct.
  static absl::Status Call(MailboxChannel& channel, uint64_t id, int deadline_ms, bool whole) {
    const std::vector<float> hidden = {1, 2, 3, 4, 5, 6, 7, 8}, weights(4, 0.5f);
    const std::vector<ExpertId> experts = {0, 3, kNoExpert, 7};
    channel.Publish(EncodeRequest(id,
                                  {.instance = kInstance,
                                   .tokens = 2,
                                   .experts_per_token = 2,
                                   .hidden = hidden,
                                   .experts = experts,
                                   .weights = weights},
                                  channel.Outgoing()));
    const auto message = channel.Receive(deadline_ms, /*spin_us=*/20);
    if (!message.ok()) return message.status();
    const auto partial = DecodeReply(*message, id, hidden.size());
    if (!partial.ok()) return partial.status();
    NUMOE_CHECK(!whole || std::equal(partial->begin(), partial->end(), hidden.begin(), hidden.end()));
    return absl::OkStatus();
  }

 private:
  FileDescriptor Connect() const {
    const std::string& name = server_->socket_name();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    NUMOE_CHECK_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
    return fd;
  }

  Copies copies_;
  worker::SharedExecutor shared_{copies_, kInstance};
  std::unique_ptr<worker::MailboxServer> server_;
  std::optional<Session> bystander_;
  uint64_t bystander_calls_ = 0;
};

// Reads the input from its beginning; after its end all values are zero.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    if (empty()) return 0;
    --size_;
    return *data_++;
  }
  size_t Number() { return Byte() | size_t{Byte()} << 8 | size_t{Byte()} << 16; }

 private:
  const uint8_t* data_;
  size_t size_;
};

void Write(Input& input, absl::Span<std::byte> area) {
  const size_t at = input.Number() % area.size();
  const size_t length = std::min<size_t>(1 + input.Byte() % 32, area.size() - at);
  for (size_t i = 0; i < length; ++i) area[at + i] = std::byte{input.Byte()};
}

void Wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// Attacks a session as the input says. `segment` is the attacker's own mapping.
void Attack(Input& input, const MailboxSegment& segment, int socket) {
  SegmentHeader& header = segment.header();
  const absl::Span<std::byte> slot = MailboxChannel::Slot(segment, Side::kCoordinator, ReplyPart::kImmediate);
  for (int i = 0; i < kOperationsMax && !input.empty(); ++i) {
    const uint8_t kind = input.Byte();
    if (kind >= 0x80) std::this_thread::yield();
    switch (kind % 7) {
      case 0:
        Write(input, segment.bytes());
        break;
      case 1:
        Write(input, segment.bytes().subspan(0, sizeof(SegmentHeader)));
        break;
      case 2:
        Write(input, slot.subspan(0, 2 * kDescriptorBytes));
        break;
      case 3:
        header.mail[0].published.fetch_add(input.Byte());
        Wake(header.mail[0].published);
        break;
      case 4:
        header.mail[0].length.store(input.Number());
        header.mail[0].awake.store(input.Byte() % 2);
        break;
      case 5:
        for (Mailbox* mail : {&header.mail[0], &header.mail[1], &header.deferred}) Wake(mail->published);
        break;
      default:
        if (const uint8_t byte = input.Byte(); byte < 200) {
          (void)send(socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        } else {
          shutdown(socket, byte < 220 ? SHUT_RD : byte < 240 ? SHUT_WR : SHUT_RDWR);
        }
    }
  }
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static numoe::Target target;
  const numoe::Session session = target.Attach();
  std::thread caller([&] {
    for (uint64_t id = 1; id <= numoe::kCallsMax; ++id)
      if (!numoe::Target::Call(*session.channel, id, numoe::kCallMs, /*whole=*/false).ok()) return;
  });
  numoe::Input input(data, size);
  numoe::Attack(input, session.also, session.socket.get());
  caller.join();
  target.CheckBystander();
  return 0;
}
