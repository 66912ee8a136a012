// Gloo's TCP connections from one member to all others.
#include "worker/collective/gloo_mesh.h"

#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"

namespace comera::collective {
namespace {

// Apart from the slots of Gloo's own collectives (gloo/types.h).
constexpr uint64_t kExchangeSlots = uint64_t{0xFD} << 56;
constexpr uint64_t kWatchSlot = uint64_t{0xFE} << 56;

// Gloo writes to sockets without MSG_NOSIGNAL, from the calling thread and
// from its loop thread (which inherits the mask of the thread that makes the
// device). While one of these lives, SIGPIPE stays off this thread, and
// optionally every other signal too.
class ScopedSignalMask {
 public:
  explicit ScopedSignalMask(bool all = false) {
    sigset_t blocked;
    if (all) {
      sigfillset(&blocked);
    } else {
      sigemptyset(&blocked);
      sigaddset(&blocked, SIGPIPE);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &old_);
  }
  ~ScopedSignalMask() {
    if (sigismember(&old_, SIGPIPE) == 0) {
      sigset_t pipe;
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      const timespec now = {0, 0};
      sigtimedwait(&pipe, nullptr, &now);
    }
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }

 private:
  sigset_t old_;
};

// Carries a Status (through Gloo) to Catch.
struct StatusError : std::exception {
  explicit StatusError(absl::Status s) : status(std::move(s)) {}
  const char* what() const noexcept override { return "rendezvous"; }
  absl::Status status;
};

// Runs `call` and turns what it throws into a Status.
absl::Status Catch(const char* what, const std::function<void()>& call) {
  try {
    const ScopedSignalMask mask;
    call();
    return absl::OkStatus();
  } catch (const gloo::IoException& error) {
    const std::string message = absl::StrCat(what, ": ", error.what());
    return absl::StrContains(message, "Timed out") ||
                   absl::StrContains(message, "Connect timeout")
               ? absl::DeadlineExceededError(message)
               : absl::UnavailableError(message);
  } catch (const StatusError& error) {
    return error.status;
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  }
}

class RendezvousStore : public gloo::rendezvous::Store {
 public:
  RendezvousStore(Rendezvous* rendezvous, absl::Time deadline)
      : rendezvous_(rendezvous), deadline_(deadline) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const absl::Status status =
        rendezvous_->Set(Key(key), {data.data(), data.size()});
    if (!status.ok()) throw StatusError(status);
  }

  std::vector<char> get(const std::string& key) override {
    absl::StatusOr<std::string> value = rendezvous_->Get(
        Key(key), std::max(deadline_ - absl::Now(), absl::ZeroDuration()));
    if (!value.ok()) throw StatusError(value.status());
    return std::vector<char>(value->begin(), value->end());
  }

  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  // Gloo's own time-out is a fifth of ours (see Connect): ours counts.
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  static std::string Key(const std::string& key) {
    return absl::StrCat("gloo-", key);
  }

  Rendezvous* const rendezvous_;
  const absl::Time deadline_;
};

std::chrono::milliseconds Until(absl::Time deadline) {
  // At least 1 ms: Gloo takes 0 for "no time-out".
  return std::max(std::chrono::milliseconds(1),
                  absl::ToChronoMilliseconds(deadline - absl::Now()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GlooMesh>> GlooMesh::Connect(
    const GlooMeshOptions& options, Rendezvous* rendezvous) {
  std::shared_ptr<gloo::rendezvous::Context> context;
  RETURN_IF_ERROR(Catch("connecting", [&] {
    RendezvousStore store(rendezvous, absl::Now() + options.connect_timeout);
    gloo::transport::tcp::attr attr;
    if (options.interface.empty()) {
      attr.hostname = options.host;
    } else {
      attr.iface = options.interface;
    }
    std::shared_ptr<gloo::transport::Device> device;
    {
      const ScopedSignalMask mask(/*all=*/true);
      device = options.tls ? CreateTlsDevice(attr, *options.tls)
                           : gloo::transport::tcp::CreateDevice(attr);
    }
    context = std::make_shared<gloo::rendezvous::Context>(options.rank,
                                                          options.world_size);
    // Gloo waits five times this long for a connection.
    context->setTimeout(
        absl::ToChronoMilliseconds(options.connect_timeout / 5) +
        std::chrono::milliseconds(1));
    context->connectFullMesh(store, device);
  }));
  std::unique_ptr<GlooMesh> mesh(
      new GlooMesh(context, options.rank, options.world_size));
  RETURN_IF_ERROR(mesh->Watch());
  return mesh;
}

GlooMesh::GlooMesh(std::shared_ptr<gloo::Context> context, int rank,
                   int world_size)
    : context_(std::move(context)), rank_(rank), world_size_(world_size) {}

GlooMesh::~GlooMesh() {
  if (watch_.joinable()) {
    watch_buffer_->abortWaitRecv();
    watch_.join();
  }
  Break();
}

absl::Status GlooMesh::Watch() {
  RETURN_IF_ERROR(Catch("connecting", [&] {
    watch_buffer_ = context_->createUnboundBuffer(&watch_byte_, 1);
    for (int peer = 0; peer < world_size_; ++peer) {
      if (peer != rank_) watch_buffer_->recv(peer, kWatchSlot);
    }
  }));
  const ScopedSignalMask mask(/*all=*/true);
  watch_ = std::thread(&GlooMesh::WatchLoop, this);
  return absl::OkStatus();
}

void GlooMesh::WatchLoop() {
  const absl::Status lost = Catch("watching peers", [&] {
    // True: a goodbye. False: the destructor wants to join.
    while (watch_buffer_->waitRecv(std::chrono::hours(24 * 365))) continue;
  });
  if (!lost.ok()) Break();
}

absl::Status GlooMesh::Register(std::vector<Buffer*> buffers) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken_) return absl::UnavailableError("a rank was lost");
  active_ = std::move(buffers);
  return absl::OkStatus();
}

absl::Status GlooMesh::Exchange(uint32_t tag, const Outgoing& outgoing,
                                const Incoming& incoming, absl::Time deadline) {
  const uint64_t slot = kExchangeSlots | tag;
  std::unique_ptr<Buffer> sent, received;
  bool done = true;
  absl::Status status = Catch("exchange", [&] {
    std::vector<Buffer*> buffers;
    if (!outgoing.bytes.empty()) {
      // Gloo only reads from it.
      sent = context_->createUnboundBuffer(
          const_cast<char*>(outgoing.bytes.data()), outgoing.bytes.size());
      buffers.push_back(sent.get());
    }
    if (!incoming.bytes.empty()) {
      received = context_->createUnboundBuffer(incoming.bytes.data(),
                                               incoming.bytes.size());
      buffers.push_back(received.get());
    }
    const absl::Status registered = Register(std::move(buffers));
    if (!registered.ok()) throw StatusError(registered);
    if (received != nullptr) received->recv(incoming.peer, slot);
    if (sent != nullptr) sent->send(outgoing.peer, slot);
    if (received != nullptr) done = received->waitRecv(Until(deadline));
    if (done && sent != nullptr) done = sent->waitSend(Until(deadline));
  });
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    active_.clear();
  }
  if (status.ok() && !done) status = absl::UnavailableError("a rank was lost");
  return status;
}

void GlooMesh::Break() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    broken_ = true;
    for (Buffer* buffer : active_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }
  // A receive that times out is how this version of Gloo lets a user close all
  // pairs for good: it also marks them as failed.
  (void)Catch("closing", [&] {
    char byte;
    context_->createUnboundBuffer(&byte, 1)->waitRecv(
        std::chrono::milliseconds(1));
  });
}

void GlooMesh::SayGoodbye() {
  (void)Catch("goodbye", [&] {
    for (int peer = 0; peer < world_size_; ++peer) {
      if (peer == rank_) continue;
      char byte = 0;
      const auto goodbye = context_->createUnboundBuffer(&byte, 1);
      goodbye->send(peer, kWatchSlot);
      goodbye->waitSend(std::chrono::seconds(1));
    }
  });
}

}  // namespace comera::collective
