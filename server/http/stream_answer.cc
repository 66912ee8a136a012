// Answers an HTTP request with the messages of a server stream.
#include "server/http/stream_answer.h"

#include <utility>

#include "server/http/answer.h"
#include "server/http/http_error.h"

namespace comera::server {
namespace {

// Kept by the call's events until the call has ended. Its methods come one
// after another: a message, its end of writing, the next message.
class StreamAnswer : public std::enable_shared_from_this<StreamAnswer> {
 public:
  StreamAnswer(std::shared_ptr<HttpExchange> exchange,
               std::unique_ptr<StreamFormat> format)
      : exchange_(std::move(exchange)), format_(std::move(format)) {}

  void Run(ApiCalls* calls, const google::protobuf::MethodDescriptor& method,
           const google::protobuf::Message& request, const ApiCaller& caller) {
    ApiCalls::StreamEvents events;
    events.on_message = [self = shared_from_this()](const std::string& wire) {
      self->Message(wire);
    };
    events.on_end = [self = shared_from_this()](const grpc::Status& status) {
      self->End(status);
    };
    call_ = calls->ServerStream(method, request, caller, std::move(events));
    exchange_->OnDisconnect([weak = std::weak_ptr<ApiCalls::Stream>(call_)] {
      if (const auto call = weak.lock()) call->Cancel();
    });
    // What comes of it may be the end of everything.
    const std::shared_ptr<ApiCalls::Stream> call = call_;
    call->Read();
  }

 private:
  void Begin() {
    if (begun_) return;
    begun_ = true;
    HttpResponse head = format_->Head();
    AddCommonHeaders(&head.headers);
    exchange_->BeginStream(std::move(head), format_->IdleText());
  }

  void Message(const std::string& wire) {
    absl::StatusOr<std::string> text = format_->Message(wire);
    if (!text.ok()) {
      broken_ = text.status();
      call_->Cancel();
      return call_->Read();
    }
    Begin();
    if (text->empty()) return call_->Read();
    exchange_->Write(*std::move(text), [self = shared_from_this()](bool ok) {
      if (ok && self->format_->Finished()) {
        self->ended_ = true;
        self->exchange_->End();
      }
      // The end of the call comes by a last Read() in any case.
      if (!ok || self->ended_) self->call_->Cancel();
      self->call_->Read();
    });
  }

  void End(const grpc::Status& status) {
    if (ended_) return;
    if (!begun_ && (!status.ok() || !broken_.ok())) {
      return SendAnswer(*exchange_, broken_.ok() ? ErrorResponse(status)
                                                 : ErrorResponse(broken_));
    }
    absl::StatusOr<std::string> text =
        broken_.ok() ? format_->End(status) : broken_;
    // Without End() the connection is cut off.
    if (!text.ok()) return;
    Begin();
    exchange_->Write(*std::move(text), [exchange = exchange_](bool ok) {
      if (ok) exchange->End();
    });
  }

  const std::shared_ptr<HttpExchange> exchange_;
  const std::unique_ptr<StreamFormat> format_;
  std::shared_ptr<ApiCalls::Stream> call_;
  bool begun_ = false;
  bool ended_ = false;
  absl::Status broken_;
};

}  // namespace

void AnswerWithStream(std::shared_ptr<HttpExchange> exchange, ApiCalls* calls,
                      const google::protobuf::MethodDescriptor& method,
                      const google::protobuf::Message& request,
                      const ApiCaller& caller,
                      std::unique_ptr<StreamFormat> format) {
  std::make_shared<StreamAnswer>(std::move(exchange), std::move(format))
      ->Run(calls, method, request, caller);
}

}  // namespace comera::server
