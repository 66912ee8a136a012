// Overrides how Gloo's TCP connections start, read and write.
#include "worker/collective/gloo_tls.h"

#include <gloo/common/error.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::collective {
namespace {

namespace tcp = gloo::transport::tcp;

#if defined(__x86_64__)
// libgloo makes objects of this size: with another version of the library, or
// of the header that stands in for its own, nothing here would be right.
static_assert(sizeof(tcp::Pair) == 896, "another version of Gloo");
#endif

// AES-128-GCM is what processors are fastest at.
constexpr char kCipherSuite[] = "TLS_AES_128_GCM_SHA256";
constexpr unsigned char kCipherSuiteId[] = {0x13, 0x01};

struct SslDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
using SslContextPtr = std::unique_ptr<SSL_CTX, SslDeleter>;
using SslPtr = std::unique_ptr<SSL, SslDeleter>;
using SslSessionPtr = std::unique_ptr<SSL_SESSION, SslDeleter>;

std::string LastSslError() {
  char text[256] = "unknown";
  const unsigned long error = ERR_get_error();
  if (error != 0) ERR_error_string_n(error, text, sizeof(text));
  ERR_clear_error();
  return text;
}

[[noreturn]] void ThrowSslError(const char* call) {
  throw gloo::Exception(absl::StrCat(call, ": ", LastSslError()));
}

// The key and the settings of all connections of a member.
struct Settings {
  GangTls tls;
  SslContextPtr context;
};

// What the callbacks of OpenSSL know of their connection: the key, and the name
// under which this pair of ranks, this way round, uses it.
struct Identity {
  const Settings* settings = nullptr;
  std::string name;
};

// Returns the session whose "resumption" is the use of the gang's key; null if
// there is no memory.
SSL_SESSION* MakeSession(SSL* ssl, const std::string& key) {
  SslSessionPtr session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipherSuiteId);
  if (session == nullptr || cipher == nullptr ||
      SSL_SESSION_set1_master_key(
          session.get(), reinterpret_cast<const unsigned char*>(key.data()),
          key.size()) != 1 ||
      SSL_SESSION_set_cipher(session.get(), cipher) != 1 ||
      SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) != 1) {
    return nullptr;
  }
  return session.release();
}

const Identity& IdentityOf(SSL* ssl) {
  return *static_cast<const Identity*>(SSL_get_app_data(ssl));
}

int UseSession(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** id,
               size_t* id_bytes, SSL_SESSION** session) {
  const Identity& identity = IdentityOf(ssl);
  *session = MakeSession(ssl, identity.settings->tls.key);
  *id = reinterpret_cast<const unsigned char*>(identity.name.data());
  *id_bytes = identity.name.size();
  return *session != nullptr ? 1 : 0;
}

// An identity that is not this pair's gets no session, and without one there is
// nothing that the server could use: it has no certificate.
int FindSession(SSL* ssl, const unsigned char* id, size_t id_bytes,
                SSL_SESSION** session) {
  const Identity& identity = IdentityOf(ssl);
  *session = nullptr;
  if (std::string(reinterpret_cast<const char*>(id), id_bytes) !=
      identity.name) {
    return 1;
  }
  *session = MakeSession(ssl, identity.settings->tls.key);
  return *session != nullptr ? 1 : 0;
}

std::shared_ptr<const Settings> MakeSettings(const GangTls& tls) {
  if (tls.key.size() != GangTls::kKeyBytes) {
    throw gloo::Exception(absl::StrCat("a gang's key of ", tls.key.size(),
                                       " bytes, not ", GangTls::kKeyBytes));
  }
  auto settings = std::make_shared<Settings>();
  settings->tls = tls;
  settings->context.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = settings->context.get();
  if (context == nullptr ||
      SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, kCipherSuite) != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1) {
    ThrowSslError("SSL_CTX_new");
  }
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_psk_use_session_callback(context, UseSession);
  SSL_CTX_set_psk_find_session_callback(context, FindSession);
  return settings;
}

// One connection. Gloo's loop thread and the threads of users call it, all with
// the lock of the pair; both ends' handshakes are moved on by the loop thread,
// but for the first message, which the connecting end's user sends.
class TlsPair : public tcp::Pair {
 public:
  TlsPair(tcp::Context* context, tcp::Device* device, int peer,
          std::chrono::milliseconds timeout,
          std::shared_ptr<const Settings> settings)
      : tcp::Pair(context, device, peer, timeout),
        settings_(std::move(settings)),
        own_rank_(context->rank),
        peer_rank_(peer) {}

  // Ends the events before what they use is gone.
  ~TlsPair() override {
    const std::lock_guard<std::mutex> lock(m_);
    if (state_ != CLOSED) changeState(CLOSED);
  }

 protected:
  void waitUntilConnected(std::unique_lock<std::mutex>& lock,
                          bool use_timeout) override {
    tcp::Pair::waitUntilConnected(lock, use_timeout);
    if (is_client_ && ssl_ == nullptr && state_ == CONNECTED) Handshake();
    waitUntil(
        [this] {
          throwIfException();
          return secured_ || state_ == CLOSED;
        },
        lock, use_timeout);
    if (!secured_) throw gloo::IoException("Connection closed by this member");
  }

  void handleReadWrite(int events) override {
    if (!secured_) {
      Handshake();
      if (!secured_) return;
      // What came with the peer's last message lies in OpenSSL's buffer, for
      // which there is no event.
      events = EPOLLIN;
    }
    tcp::Pair::handleReadWrite(events);
  }

  // True: the whole operation is written.
  bool write(tcp::Op& op) override {
    if (state_ != CONNECTED || !secured_) return false;
    const auto opcode = op.getOpcode();
    gloo::NonOwningPtr<tcp::UnboundBuffer> buffer;
    if (opcode == tcp::Op::SEND_UNBOUND_BUFFER) {
      buffer = gloo::NonOwningPtr<tcp::UnboundBuffer>(op.ubuf);
      if (!buffer) return false;
    }
    if (op.nwritten == 0 && !RenewKeys()) return false;
    while (op.nwritten < op.preamble.nbytes) {
      iovec parts[2];
      int count = 0;
      prepareWrite(op, buffer, parts, count);
      size_t written = 0;
      ERR_clear_error();
      if (SSL_write_ex(ssl_.get(), parts[0].iov_base, parts[0].iov_len,
                       &written) != 1) {
        OnWriteError();
        return false;
      }
      op.nwritten += written;
      unrenewed_bytes_ += written;
    }
    writeComplete(op, buffer, opcode);
    return true;
  }

  // True: an operation is read and done.
  bool read() override {
    if (state_ != CONNECTED || !secured_) return false;
    gloo::NonOwningPtr<tcp::UnboundBuffer> buffer;
    while (true) {
      iovec part = {nullptr, 0};
      const ssize_t wanted = prepareRead(rx_, buffer, part);
      if (wanted < 0) return false;
      if (wanted == 0) break;
      size_t got = 0;
      ERR_clear_error();
      if (SSL_read_ex(ssl_.get(), part.iov_base, part.iov_len, &got) != 1) {
        OnReadError();
        return false;
      }
      rx_.nread += got;
    }
    readComplete(buffer);
    return true;
  }

 private:
  // One step, as far as what has arrived allows.
  void Handshake() {
    if (ssl_ == nullptr && !MakeSsl()) {
      return signalException("TLS: " + LastSslError());
    }
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl_.get());
    if (done == 1 && SSL_session_reused(ssl_.get()) == 1) {
      secured_ = true;
      device_->registerDescriptor(fd_, EPOLLIN, this);
      cv_.notify_all();
      return;
    }
    const int error =
        done == 1 ? SSL_ERROR_SSL : SSL_get_error(ssl_.get(), done);
    if (error == SSL_ERROR_WANT_READ) return;
    if (error == SSL_ERROR_WANT_WRITE) {
      return device_->registerDescriptor(fd_, EPOLLIN | EPOLLOUT, this);
    }
    signalException(absl::StrCat(
        "member ", peer_rank_, " at ", peer_.str(),
        " did not prove that it belongs to the gang: ", LastSslError()));
  }

  bool MakeSsl() {
    const int client = is_client_ ? own_rank_ : peer_rank_;
    const int server = is_client_ ? peer_rank_ : own_rank_;
    identity_ = {settings_.get(),
                 absl::StrCat("comera-gang ", client, " ", server)};
    SslPtr ssl(SSL_new(settings_->context.get()));
    if (ssl == nullptr || SSL_set_fd(ssl.get(), fd_) != 1 ||
        SSL_set_app_data(ssl.get(), &identity_) != 1) {
      return false;
    }
    if (is_client_) {
      SSL_set_connect_state(ssl.get());
      // A server that answers with a certificate instead is refused: there are
      // no authorities.
      SSL_set_verify(ssl.get(), SSL_VERIFY_PEER, nullptr);
    } else {
      SSL_set_accept_state(ssl.get());
    }
    ssl_ = std::move(ssl);
    return true;
  }

  // Only between operations: a record that is partly sent must go as it is.
  bool RenewKeys() {
    if (unrenewed_bytes_ < settings_->tls.rekey_bytes) return true;
    if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
      signalException("SSL_key_update: " + LastSslError());
      return false;
    }
    unrenewed_bytes_ = 0;
    return true;
  }

  void OnWriteError() {
    const int error = SSL_get_error(ssl_.get(), 0);
    if (error == SSL_ERROR_WANT_WRITE) return;
    // The peer has left. What it sent before, a goodbye perhaps, can still be
    // read, and the end after it.
    if (error == SSL_ERROR_SYSCALL && (errno == EPIPE || errno == ECONNRESET)) {
      return;
    }
    signalException(
        absl::StrCat("SSL_write to ", peer_.str(), ": ", LastSslError()));
  }

  void OnReadError() {
    const int error = SSL_get_error(ssl_.get(), 0);
    if (error == SSL_ERROR_WANT_READ) return;
    const std::string why = LastSslError();
    signalException(
        absl::StrCat("Connection closed by peer ", peer_.str(), ": ", why));
  }

  const std::shared_ptr<const Settings> settings_;
  const int own_rank_;
  const int peer_rank_;
  // The lock m_ of the base class guards all below.
  Identity identity_;
  SslPtr ssl_;
  // The peer has proved that it has the key.
  bool secured_ = false;
  uint64_t unrenewed_bytes_ = 0;
};

class TlsContext : public tcp::Context {
 public:
  TlsContext(std::shared_ptr<tcp::Device> device, int rank, int size,
             std::shared_ptr<const Settings> settings)
      : tcp::Context(std::move(device), rank, size),
        settings_(std::move(settings)) {}

  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override {
    pairs_[rank] = std::make_unique<TlsPair>(this, device_.get(), rank,
                                             getTimeout(), settings_);
    return pairs_[rank];
  }

 private:
  const std::shared_ptr<const Settings> settings_;
};

class TlsDevice : public tcp::Device {
 public:
  TlsDevice(const tcp::attr& attr, std::shared_ptr<const Settings> settings)
      : tcp::Device(attr), settings_(std::move(settings)) {}

  std::shared_ptr<gloo::transport::Context> createContext(int rank,
                                                          int size) override {
    return std::make_shared<TlsContext>(shared_from_this(), rank, size,
                                        settings_);
  }

 private:
  const std::shared_ptr<const Settings> settings_;
};

}  // namespace

std::shared_ptr<gloo::transport::Device> CreateTlsDevice(const tcp::attr& attr,
                                                         const GangTls& tls) {
  return std::make_shared<TlsDevice>(tcp::CreateDeviceAttr(attr),
                                     MakeSettings(tls));
}

}  // namespace comera::collective
