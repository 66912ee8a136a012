// Reads requests from one connection and writes their answers.
#include "common/http/http_connection.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/http/peer_names.h"
#include "common/http/response_head.h"
#include "common/steady_time.h"

namespace comera {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using TlsStream = asio::ssl::stream<Tcp::socket>;
using Error = boost::system::error_code;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// Bytes that a peer has to take within write_timeout.
constexpr size_t kPiece = 256 << 10;
// After the last answer, for a peer that still sends.
constexpr absl::Duration kLinger = absl::Seconds(2);
// What a peer may send ahead of the end of a stream.
constexpr size_t kMaxAhead = 16 << 10;

int64_t NowMs() { return absl::ToUnixMillis(SteadyNow()); }

template <typename Stream>
class Exchange;

template <typename Stream>
class Connection : public HttpConnection,
                   public std::enable_shared_from_this<Connection<Stream>> {
 public:
  template <typename... Arguments>
  Connection(std::shared_ptr<HttpConnections> all, HttpPlace place,
             std::shared_ptr<asio::ssl::context> tls, Arguments&&... arguments)
      : all_(std::move(all)),
        place_(std::move(place)),
        tls_(std::move(tls)),
        stream_(std::forward<Arguments>(arguments)...),
        buffer_(all_->options().max_header_bytes + kMaxAhead) {}

  ~Connection() override { all_->Remove(this); }

  void Begin() {
    all_->Add(this->shared_from_this(), place_);
    asio::post(stream_.get_executor(),
               [self = this->shared_from_this()] { self->BeginNow(); });
  }

  void Sweep(int64_t now_ms) override {
    if (now_ms < due_ms_) return;
    asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
      const int64_t now_ms = NowMs();
      if (now_ms >= self->deadline_ms_) return self->CloseNow();
      if (self->watches_peer_ && self->PeerHasLeft()) return self->CloseNow();
      if (now_ms >= self->idle_text_ms_) self->WriteIdleText();
    });
  }

  void Close() override {
    asio::post(stream_.get_executor(),
               [self = this->shared_from_this()] { self->CloseNow(); });
  }

  // The exchange's answer, from any thread.
  void Send(HttpResponse response) {
    asio::post(stream_.get_executor(),
               [self = this->shared_from_this(),
                response = std::move(response)] { self->SendNow(response); });
  }
  void BeginStream(HttpResponse head, std::string idle_text) {
    asio::post(stream_.get_executor(),
               [self = this->shared_from_this(), head = std::move(head),
                text = std::move(idle_text)]() mutable {
                 self->BeginStreamNow(head, std::move(text));
               });
  }
  void Write(std::string part, std::function<void(bool)> done) {
    asio::post(stream_.get_executor(),
               [self = this->shared_from_this(), part = std::move(part),
                done = std::move(done)]() mutable {
                 self->WriteNow(std::move(part), std::move(done));
               });
  }
  void End() {
    asio::post(stream_.get_executor(),
               [self = this->shared_from_this()] { self->EndNow(); });
  }
  void BodyDropped() {
    asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
      if (self->answering_) self->ReleaseBody(0);
    });
  }
  void OnDisconnect(std::function<void()> gone) {
    asio::post(stream_.get_executor(), [self = this->shared_from_this(),
                                        gone = std::move(gone)]() mutable {
      if (self->closed_) return gone();
      if (self->answering_) self->gone_ = std::move(gone);
    });
  }
  // The exchange is dropped.
  void Abandon(bool answered) {
    if (answered) return;
    asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
      // One that has ended only waits for its last bytes to go.
      if (!self->answering_ || self->ended_) return;
      if (self->head_sent_) return self->CloseNow();
      self->SendNow(MakeResponse(500, "text/plain", "no answer\n"));
    });
  }

 private:
  Tcp::socket& socket() {
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  void Arm(absl::Duration timeout) {
    deadline_ms_ = NowMs() + absl::ToInt64Milliseconds(timeout);
    SetDue();
  }
  void Disarm() {
    deadline_ms_ = kNever;
    SetDue();
  }
  void SetDue() {
    due_ms_ = watches_peer_ ? 0 : std::min(deadline_ms_, idle_text_ms_);
  }
  // Between a request and its answer.
  void WatchPeer(bool watches) {
    watches_peer_ = watches && all_->options().watch_callers;
    SetDue();
  }
  // Nothing is read meanwhile, because it may be the next request.
  bool PeerHasLeft() {
    pollfd wait = {socket().native_handle(), POLLRDHUP, 0};
    return poll(&wait, 1, 0) > 0;
  }

  void BeginNow() {
    Error error;
    socket().set_option(Tcp::no_delay(true), error);
    const Tcp::endpoint peer = socket().remote_endpoint(error);
    if (error) return CloseNow();
    peer_ = AddressText(peer);
    if constexpr (std::is_same_v<Stream, TlsStream>) {
      Arm(all_->options().handshake_timeout);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](Error error) {
                                if (error) return self->CloseNow();
                                self->certificate_name_ =
                                    CommonName(self->stream_.native_handle());
                                self->ReadHead();
                              });
    } else {
      ReadHead();
    }
  }

  void ReadHead() {
    parser_.emplace();
    parser_->header_limit(
        static_cast<uint32_t>(all_->options().max_header_bytes));
    parser_->body_limit(all_->options().max_body_bytes);
    Arm(first_request_ ? std::min(all_->options().first_head_timeout,
                                  all_->options().idle_timeout)
                       : all_->options().idle_timeout);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](Error error, size_t) {
          self->OnHeadRead(error);
        });
  }

  void OnHeadRead(const Error& error) {
    // It may have succeeded just before the connection was closed.
    if (closed_) return;
    if (error == http::error::header_limit) {
      return Refuse(431, "the request's head is too large");
    }
    if (error == http::error::body_limit) {
      return Refuse(413, "the request's body is too large");
    }
    if (error == http::error::end_of_stream) return CloseNow();
    if (error.category() ==
            http::make_error_code(http::error::bad_method).category() &&
        error != http::error::partial_message) {
      return Refuse(400, "this is no HTTP request");
    }
    if (error) return CloseNow();
    const auto& head = parser_->get();
    if (head.count(http::field::host) > 1 ||
        (head.version() >= 11 && head.count(http::field::host) == 0)) {
      return Refuse(400, "a request needs one header Host");
    }
    first_request_ = false;
    if (place_.reserved && !all_->options().admits_when_full(RequestOf(head))) {
      return Refuse(503, "the server has no more connections");
    }
    size_t length = 0;
    if (const auto known = parser_->content_length()) {
      length = static_cast<size_t>(*known);
    } else if (parser_->chunked()) {
      length = all_->options().max_body_bytes;
    }
    if (!all_->ReserveBody(length)) {
      return Refuse(503, "too many large requests");
    }
    body_bytes_ = length;
    if (length > 0 &&
        boost::beast::iequals(head[http::field::expect], "100-continue")) {
      return SayContinue();
    }
    ReadBody();
  }

  void SayContinue() {
    static constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
    Arm(all_->options().write_timeout);
    asio::async_write(stream_, asio::buffer(kContinue, sizeof(kContinue) - 1),
                      [self = this->shared_from_this()](Error error, size_t) {
                        if (error) return self->CloseNow();
                        self->ReadBody();
                      });
  }

  void ReadBody() {
    if (closed_) return;
    Arm(all_->options().body_timeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](Error error, size_t) {
                       self->OnBodyRead(error);
                     });
  }

  void OnBodyRead(const Error& error) {
    if (closed_) return;
    if (error == http::error::body_limit) {
      return Refuse(413, "the request's body is too large");
    }
    if (error) return CloseNow();
    auto message = parser_->release();
    HttpRequest request = RequestOf(message);
    is_head_ = request.method == "HEAD";
    if (is_head_) request.method = "GET";
    request.body = std::move(message.body());
    ReleaseBody(std::min(request.body.size(), body_bytes_));
    keep_alive_ = message.keep_alive() && !place_.reserved;
    if (place_.reserved) all_->Keep(this);
    chunks_ = message.version() >= 11;
    parser_.reset();
    Disarm();
    answering_ = true;
    head_sent_ = false;
    all_->AddActive(1);
    WatchPeer(true);
    all_->handler()(std::make_shared<Exchange<Stream>>(this->shared_from_this(),
                                                       std::move(request)));
  }

  // All but the body.
  HttpRequest RequestOf(const http::request<http::string_body>& message) const {
    HttpRequest request;
    request.method = std::string(message.method_string());
    const std::string target(message.target());
    const size_t mark = target.find('?');
    request.path = target.substr(0, mark);
    if (mark != std::string::npos) request.query = target.substr(mark + 1);
    for (const auto& field : message) {
      request.headers.emplace_back(std::string(field.name_string()),
                                   std::string(field.value()));
    }
    request.peer = peer_;
    request.peer_key = place_.peer;
    request.certificate_name = certificate_name_;
    request.tls = std::is_same_v<Stream, TlsStream>;
    return request;
  }

  // Answers what is no request, and closes.
  void Refuse(int code, const std::string& reason) {
    parser_.reset();
    keep_alive_ = false;
    is_head_ = false;
    answering_ = true;
    head_sent_ = false;
    all_->AddActive(1);
    const auto& refusal = all_->options().refusal;
    SendNow(refusal ? refusal(code, reason)
                    : MakeResponse(code, "text/plain", reason + "\n"));
  }

  void SendNow(const HttpResponse& response) {
    if (closed_ || !answering_ || head_sent_) return;
    head_sent_ = true;
    WatchPeer(false);
    body_ = response.body;
    const size_t length = body_ == nullptr ? 0 : body_->size();
    const bool bodiless = response.code == 304 || response.code == 204;
    out_ = ResponseHead(response,
                        bodiless ? std::nullopt : std::optional<size_t>(length),
                        false, keep_alive_);
    if (is_head_ || bodiless) body_ = nullptr;
    // A small body goes with the head.
    if (body_ != nullptr && body_->size() <= kPiece / 16) {
      out_ += *body_;
      body_ = nullptr;
    }
    Arm(all_->options().write_timeout);
    asio::async_write(stream_, asio::buffer(out_),
                      [self = this->shared_from_this()](Error error, size_t) {
                        if (error) return self->CloseNow();
                        self->SendPiece(0);
                      });
  }

  void SendPiece(size_t from) {
    if (body_ == nullptr || from >= body_->size()) return Answered();
    const size_t size = std::min(kPiece, body_->size() - from);
    Arm(all_->options().write_timeout);
    asio::async_write(
        stream_, asio::buffer(body_->data() + from, size),
        [self = this->shared_from_this(), from, size](Error error, size_t) {
          if (error) return self->CloseNow();
          self->SendPiece(from + size);
        });
  }

  void Answered() {
    EndAnswer();
    if (keep_alive_) return ReadHead();
    if (place_.reserved) all_->MayGo(this->shared_from_this());
    Error error;
    socket().shutdown(Tcp::socket::shutdown_send, error);
    Arm(kLinger);
    if (!watching_) Drain();
  }

  void EndAnswer() {
    if (!answering_) return;
    answering_ = false;
    gone_ = nullptr;
    body_ = nullptr;
    all_->AddActive(-1);
    ReleaseBody(0);
  }

  // But for what is still held.
  void ReleaseBody(size_t keep) {
    all_->ReleaseBody(std::exchange(body_bytes_, keep) - keep);
  }

  // A peer that still sends would lose the answer to a reset connection.
  void Drain() {
    buffer_.clear();
    socket().async_read_some(
        buffer_.prepare(kMaxAhead),
        [self = this->shared_from_this()](Error error, size_t) {
          if (error) return self->CloseNow();
          self->Drain();
        });
  }

  // Streams. They end their connection: what the peer sends meanwhile only
  // tells whether it is there.
  void BeginStreamNow(const HttpResponse& head, std::string idle_text) {
    if (closed_ || !answering_ || head_sent_) return;
    head_sent_ = true;
    WatchPeer(false);
    keep_alive_ = false;
    chunks_ = chunks_ && FindHeader(head.headers, "Content-Length") == nullptr;
    idle_text_ = std::move(idle_text);
    writing_ = true;
    out_ = ResponseHead(head, std::nullopt, chunks_, keep_alive_);
    Arm(all_->options().write_timeout);
    asio::async_write(stream_, asio::buffer(out_),
                      [self = this->shared_from_this()](Error error, size_t) {
                        self->Written(error);
                      });
    Watch();
  }

  void Watch() {
    watching_ = true;
    buffer_.clear();
    stream_.async_read_some(
        buffer_.prepare(kMaxAhead),
        [self = this->shared_from_this()](Error error, size_t bytes) {
          self->ahead_ += bytes;
          if (error || self->ahead_ > kMaxAhead) return self->CloseNow();
          self->Watch();
        });
  }

  void WriteNow(std::string part, std::function<void(bool)> done) {
    if (closed_ || !answering_ || !head_sent_) return done(false);
    if (is_head_) {
      // Its answer is the head alone; nobody waits for the rest.
      EndNow();
      return done(false);
    }
    if (part.empty()) return done(true);
    done_ = std::move(done);
    next_ = std::move(part);
    if (!writing_) WriteNext();
  }

  void EndNow() {
    if (closed_ || !answering_) return;
    ended_ = true;
    if (!writing_) WriteNext();
  }

  void WriteIdleText() {
    idle_text_ms_ = kNever;
    SetDue();
    if (closed_ || !answering_ || writing_ || ended_ || is_head_) return;
    Put(idle_text_);
  }

  void WriteNext() {
    if (!next_.empty()) {
      Put(std::exchange(next_, ""));
    } else if (ended_ && chunks_ && !is_head_ && !last_chunk_sent_) {
      last_chunk_sent_ = true;
      out_ = "0\r\n\r\n";
      WriteOut();
    } else if (ended_) {
      idle_text_ms_ = kNever;
      Answered();
    }
  }

  void Put(std::string part) {
    out_ = chunks_ ? absl::StrFormat("%x\r\n%s\r\n", part.size(), part)
                   : std::move(part);
    WriteOut();
  }

  void WriteOut() {
    writing_ = true;
    idle_text_ms_ = kNever;
    Arm(all_->options().write_timeout);
    asio::async_write(stream_, asio::buffer(out_),
                      [self = this->shared_from_this()](Error error, size_t) {
                        self->Written(error);
                      });
  }

  void Written(const Error& error) {
    writing_ = false;
    if (error || closed_) return CloseNow();
    deadline_ms_ = kNever;
    if (!idle_text_.empty()) {
      idle_text_ms_ =
          NowMs() + absl::ToInt64Milliseconds(all_->options().idle_text_after);
    }
    SetDue();
    if (next_.empty()) {
      if (auto done = std::exchange(done_, nullptr)) done(true);
    }
    if (!writing_ && !closed_ && answering_) WriteNext();
  }

  void CloseNow() {
    if (closed_) return;
    closed_ = true;
    all_->Closed();
    all_->Leave(place_, this);
    watches_peer_ = false;
    due_ms_ = kNever;
    Error error;
    socket().close(error);
    const auto done = std::exchange(done_, nullptr);
    const auto gone = std::exchange(gone_, nullptr);
    EndAnswer();
    ReleaseBody(0);
    if (done) done(false);
    if (gone) gone();
  }

  const std::shared_ptr<HttpConnections> all_;
  const HttpPlace place_;
  // Outlives the stream made with it.
  const std::shared_ptr<asio::ssl::context> tls_;
  Stream stream_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::string peer_;
  std::string certificate_name_;

  // When Sweep() has something to do.
  std::atomic<int64_t> due_ms_{kNever};
  // Only the strand uses it, and all below.
  int64_t deadline_ms_ = kNever;
  int64_t idle_text_ms_ = kNever;
  bool watches_peer_ = false;

  bool closed_ = false;
  bool first_request_ = true;
  bool keep_alive_ = true;
  bool is_head_ = false;
  // From a request to the end of its answer.
  bool answering_ = false;
  bool head_sent_ = false;
  size_t body_bytes_ = 0;
  std::function<void()> gone_;
  // Being written.
  std::string out_;
  std::shared_ptr<const std::string> body_;
  // Streams.
  bool chunks_ = false;
  bool watching_ = false;
  size_t ahead_ = 0;
  bool writing_ = false;
  bool ended_ = false;
  bool last_chunk_sent_ = false;
  std::string idle_text_;
  std::string next_;
  std::function<void(bool)> done_;
};

template <typename Stream>
class Exchange : public HttpExchange {
 public:
  Exchange(std::shared_ptr<Connection<Stream>> connection, HttpRequest request)
      : connection_(std::move(connection)), request_(std::move(request)) {}
  ~Exchange() override { connection_->Abandon(answered_); }

  const HttpRequest& request() const override { return request_; }
  void DropBody() override {
    std::string().swap(request_.body);
    connection_->BodyDropped();
  }
  void Send(HttpResponse response) override {
    answered_ = true;
    connection_->Send(std::move(response));
  }
  void BeginStream(HttpResponse head, std::string idle_text) override {
    connection_->BeginStream(std::move(head), std::move(idle_text));
  }
  void Write(std::string part, std::function<void(bool)> done) override {
    connection_->Write(std::move(part), std::move(done));
  }
  void End() override {
    answered_ = true;
    connection_->End();
  }
  void OnDisconnect(std::function<void()> gone) override {
    connection_->OnDisconnect(std::move(gone));
  }

 private:
  const std::shared_ptr<Connection<Stream>> connection_;
  HttpRequest request_;
  std::atomic<bool> answered_{false};
};

}  // namespace

void HttpConnection::Start(Tcp::socket socket, HttpPlace place,
                           std::shared_ptr<asio::ssl::context> tls,
                           std::shared_ptr<HttpConnections> all) {
  if (tls == nullptr) {
    std::make_shared<Connection<Tcp::socket>>(std::move(all), std::move(place),
                                              nullptr, std::move(socket))
        ->Begin();
    return;
  }
  asio::ssl::context& context = *tls;
  std::make_shared<Connection<TlsStream>>(std::move(all), std::move(place),
                                          std::move(tls), std::move(socket),
                                          context)
      ->Begin();
}

}  // namespace comera
