// Attacks on the connections of a gang: what does not have the gang's key can
// neither join nor read nor change what the members send.
#include <arpa/inet.h>
#include <gloo/transport/tcp/address.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator/gang.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/rendezvous.h"

namespace comera::collective {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// Gloo lets the end with the higher address connect.
constexpr char kLow[] = "127.0.0.1";
constexpr char kBetween[] = "127.0.0.5";
constexpr char kHigh[] = "127.0.0.9";

const GangTls kTls = {std::string(GangTls::kKeyBytes, 'k'), 1 << 20};
const GangTls kOtherTls = {std::string(GangTls::kKeyBytes, 'o')};

GlooOptions Options(int rank, const std::string& host,
                    std::optional<GangTls> tls) {
  GlooOptions options;
  options.rank = rank;
  options.world_size = 2;
  options.host = host;
  options.tls = std::move(tls);
  options.timeout = absl::Seconds(20);
  options.connect_timeout = absl::Seconds(20);
  return options;
}

absl::StatusOr<std::unique_ptr<Communicator>> Join(const GlooOptions& options,
                                                   const std::string& folder) {
  auto rendezvous = FileRendezvous::Open(folder);
  if (!rendezvous.ok()) return rendezvous.status();
  return CreateGlooCommunicator(options, &*rendezvous);
}

// Leaves what a member of two writes: the name of its host, and its address.
void Announce(FileRendezvous* rendezvous, int rank, const std::string& entry) {
  ASSERT_OK(rendezvous->Set(absl::StrCat("gloo-rank_", rank), "host"));
  ASSERT_OK(rendezvous->Set(absl::StrCat("gloo-", rank), entry));
}

std::future<absl::Status> JoinInBackground(const GlooOptions& options,
                                           const std::string& folder) {
  return std::async(std::launch::async, [options, folder] {
    return Join(options, folder).status();
  });
}

// A socket bound to a free port of an address of loopback.
class Listener {
 public:
  explicit Listener(const char* address)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    memset(&storage_, 0, sizeof(storage_));
    auto* in = reinterpret_cast<sockaddr_in*>(&storage_);
    in->sin_family = AF_INET;
    inet_pton(AF_INET, address, &in->sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(in), sizeof(*in)), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    socklen_t size = sizeof(*in);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(in), &size), 0);
  }
  ~Listener() { close(fd_); }

  int Accept() const { return accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC); }
  // The entry that a member of two puts into the rendezvous.
  std::string Entry() const {
    const auto bytes = gloo::transport::tcp::Address(storage_).bytes();
    return std::string(bytes.begin(), bytes.end());
  }

 private:
  const int fd_;
  sockaddr_storage storage_;
};

// Connects to where a member of two said that it is.
int ConnectTo(const std::string& entry) {
  const gloo::transport::tcp::Address address(
      std::vector<char>(entry.begin(), entry.end()));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(
      connect(fd, reinterpret_cast<const sockaddr*>(&address.getSockaddr()),
              sizeof(sockaddr_in)),
      0);
  return fd;
}

// Passes the bytes between two members on, sees them, and may change them.
class Relay {
 public:
  Relay() : listener_(kBetween) {}
  ~Relay() {
    if (pump_.joinable()) pump_.join();
  }

  std::string Entry() const { return listener_.Entry(); }
  // Until either end leaves. From the client's byte `spoil` on, one bit is
  // wrong.
  void Start(const std::string& server_entry, size_t spoil) {
    pump_ = std::thread([this, server_entry, spoil] {
      const int ends[] = {listener_.Accept(), ConnectTo(server_entry)};
      size_t sent = 0;
      for (bool open = true; open;) {
        pollfd events[] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}};
        poll(events, 2, -1);
        for (int i = 0; i < 2; ++i) {
          if (events[i].revents == 0) continue;
          char buffer[4096];
          const ssize_t size = recv(ends[i], buffer, sizeof(buffer), 0);
          if (size <= 0) {
            open = false;
            break;
          }
          seen_.append(buffer, size);
          if (i == 0 && spoil < sent + size && spoil >= sent) {
            buffer[spoil - sent] ^= 1;
          }
          if (i == 0) sent += size;
          send(ends[1 - i], buffer, size, MSG_NOSIGNAL);
        }
      }
      close(ends[0]);
      close(ends[1]);
    });
  }
  // All bytes of both directions, once the members have left.
  const std::string& Seen() {
    pump_.join();
    return seen_;
  }

 private:
  Listener listener_;
  std::string seen_;
  std::thread pump_;
};

// Both members behind a relay. Either tells what its all-reduce returned.
struct Relayed {
  std::string seen;
  absl::Status low, high;
  std::vector<float> sums;
};

Relayed SumThroughRelay(std::optional<GangTls> tls, size_t spoil) {
  const std::string folders[] = {NewFolder(), NewFolder()};
  Relayed result;
  Relay relay;
  const auto member = [&](int rank, const char* host, absl::Status* status) {
    return std::thread([&, rank, host, status] {
      auto joined = Join(Options(rank, host, tls), folders[rank]);
      *status = joined.status();
      if (!joined.ok()) return;
      // 0x33323130 in memory: "0123".
      float pattern;
      memcpy(&pattern, "0123", sizeof(pattern));
      std::vector<float> values(100000, rank == 0 ? 0.0f : pattern);
      *status = (*joined)->AllReduce(absl::MakeSpan(values));
      if (rank == 0) result.sums = values;
    });
  };
  std::thread low = member(0, kLow, &result.low);
  std::thread high = member(1, kHigh, &result.high);
  FileRendezvous of_low = *FileRendezvous::Open(folders[0]);
  FileRendezvous of_high = *FileRendezvous::Open(folders[1]);
  EXPECT_OK(of_low.Set("gloo-rank_1", "host"));
  EXPECT_OK(of_high.Set("gloo-rank_0", "host"));
  const auto server = of_low.Get("gloo-0", absl::Seconds(20));
  EXPECT_OK(server);
  Announce(&of_low, 1, relay.Entry());
  Announce(&of_high, 0, relay.Entry());
  relay.Start(*server, spoil);
  low.join();
  high.join();
  result.seen = relay.Seen();
  return result;
}

std::string Repeated() { return "012301230123"; }

TEST(RingTrafficTest, AListenerOnTheWayReadsNothing) {
  // The relay would see it in plain text.
  const Relayed plain = SumThroughRelay(std::nullopt, SIZE_MAX);
  ASSERT_OK(plain.low);
  EXPECT_THAT(plain.seen, HasSubstr(Repeated()));
  const Relayed tls = SumThroughRelay(kTls, SIZE_MAX);
  ASSERT_OK(tls.low);
  ASSERT_OK(tls.high);
  EXPECT_EQ(tls.sums, plain.sums);
  EXPECT_THAT(tls.seen, Not(HasSubstr(Repeated())));
}

TEST(RingTrafficTest, AChangedByteEndsTheGang) {
  // In plain text it changes a gradient and nobody notices.
  const Relayed plain = SumThroughRelay(std::nullopt, 200000);
  ASSERT_OK(plain.low);
  EXPECT_NE(plain.sums, std::vector<float>(100000, plain.sums[0]));
  const Relayed tls = SumThroughRelay(kTls, 200000);
  EXPECT_THAT(tls.low, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(tls.high, StatusIs(absl::StatusCode::kUnavailable));
}

TEST(RingTrafficTest, AMemberWithAnotherKeyCannotJoin) {
  for (const auto& stranger :
       {std::optional<GangTls>(kOtherTls), std::optional<GangTls>()}) {
    for (const bool stranger_connects : {false, true}) {
      const std::string folder = NewFolder();
      auto other = JoinInBackground(
          Options(1, stranger_connects ? kHigh : kLow, stranger), folder);
      // It does not train with the other, whatever becomes of that one.
      EXPECT_THAT(
          Join(Options(0, stranger_connects ? kLow : kHigh, kTls), folder),
          StatusIs(absl::StatusCode::kUnavailable));
      const auto joined = other.get();
      if (stranger) {
        EXPECT_THAT(joined, StatusIs(absl::StatusCode::kUnavailable));
      }
    }
  }
}

TEST(RingTrafficTest, WhoConnectsFirstAndTalksNonsenseEndsTheGang) {
  const std::string folder = NewFolder();
  FileRendezvous rendezvous = *FileRendezvous::Open(folder);
  const Listener named(kHigh);
  Announce(&rendezvous, 1, named.Entry());
  auto member = JoinInBackground(Options(0, kLow, kTls), folder);
  const auto entry = rendezvous.Get("gloo-0", absl::Seconds(20));
  ASSERT_OK(entry);
  const int attacker = ConnectTo(*entry);
  // A message of Gloo's protocol that Gloo itself would take.
  const std::string message(48, '\0');
  ASSERT_EQ(send(attacker, message.data(), message.size(), MSG_NOSIGNAL), 48);
  EXPECT_THAT(member.get(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("did not prove that it belongs to the gang")));
  close(attacker);
}

TEST(RingTrafficTest, WhoConnectsFirstAndIsSilentIsATimeOut) {
  const std::string folder = NewFolder();
  FileRendezvous rendezvous = *FileRendezvous::Open(folder);
  const Listener named(kHigh);
  Announce(&rendezvous, 1, named.Entry());
  GlooOptions options = Options(0, kLow, kTls);
  // Long enough for the attacker to be there before it is over.
  options.connect_timeout = absl::Seconds(3);
  auto member = JoinInBackground(options, folder);
  const auto entry = rendezvous.Get("gloo-0", absl::Seconds(20));
  ASSERT_OK(entry);
  const int attacker = ConnectTo(*entry);
  EXPECT_THAT(member.get(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  close(attacker);
}

TEST(RingTrafficTest, AServerInAMembersPlaceIsRefused) {
  const std::string folder = NewFolder();
  FileRendezvous rendezvous = *FileRendezvous::Open(folder);
  const Listener false_member(kLow);
  Announce(&rendezvous, 1, false_member.Entry());
  auto member = JoinInBackground(Options(0, kHigh, kTls), folder);
  const int connection = false_member.Accept();
  const std::string answer = "HTTP/1.1 200 OK\r\n\r\n";
  ASSERT_EQ(send(connection, answer.data(), answer.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(answer.size()));
  EXPECT_THAT(member.get(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("did not prove that it belongs to the gang")));
  close(connection);
}

// A member whose own message comes back to it: the key is right, the ranks are
// not.
TEST(RingTrafficTest, AMirrorIsNoMember) {
  const std::string folders[] = {NewFolder(), NewFolder()};
  auto low = JoinInBackground(Options(0, kLow, kTls), folders[0]);
  auto high = JoinInBackground(Options(0, kHigh, kTls), folders[1]);
  // Both take the other for rank 1.
  FileRendezvous of_low = *FileRendezvous::Open(folders[0]);
  FileRendezvous of_high = *FileRendezvous::Open(folders[1]);
  EXPECT_OK(of_low.Set("gloo-rank_1", "host"));
  EXPECT_OK(of_high.Set("gloo-rank_1", "host"));
  const auto low_entry = of_low.Get("gloo-0", absl::Seconds(20));
  const auto high_entry = of_high.Get("gloo-0", absl::Seconds(20));
  ASSERT_OK(low_entry);
  ASSERT_OK(high_entry);
  Announce(&of_low, 1, *high_entry);
  Announce(&of_high, 1, *low_entry);
  EXPECT_THAT(low.get(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(high.get(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(RingTrafficTest, AKeyOfAnotherLengthIsNone) {
  GlooOptions options = Options(0, kLow, GangTls{"short"});
  EXPECT_THAT(
      Join(options, NewFolder()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("5 bytes")));
}

}  // namespace
}  // namespace comera::collective
