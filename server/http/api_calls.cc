// Calls this process's own gRPC server on behalf of HTTP clients.
#include "server/http/api_calls.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"

namespace comera::server {
namespace {

grpc::ByteBuffer ToBuffer(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string out;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return out;
  out.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    out.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return out;
}

std::string Path(const google::protobuf::MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

// The context of one call, which may be cancelled at any time. It holds the
// call's channel and ends with the call, although others may hold the call for
// longer: gRPC 1.51 aborts ("prior > 0") when a thread that runs callbacks
// drops the last channel or server that needs such threads.
class CallContext {
 public:
  // Not after End().
  grpc::ClientContext* get() { return context_.get(); }
  void Cancel() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  void End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    context_.reset();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<grpc::ClientContext> context_ =
      std::make_unique<grpc::ClientContext>();
};

void Prepare(const ApiCaller& caller, const ForwardedCalls& forwarded,
             grpc::ClientContext* context) {
  if (caller.authorization) {
    context->AddMetadata("authorization", *caller.authorization);
  }
  forwarded.Mark(caller.origin, context);
}

}  // namespace

const google::protobuf::MethodDescriptor& ApiMethod(const std::string& name) {
  const auto* method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
          name);
  CHECK(method != nullptr) << name;
  return *method;
}

class ApiCalls::UnaryCall : public ApiCalls::Call {
 public:
  void Cancel() override { context.Cancel(); }

  CallContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer response;
  Done done;
};

class ApiCalls::StreamCall
    : public ApiCalls::Stream,
      public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StreamCall(ApiCalls* calls, StreamEvents events, grpc::ByteBuffer request)
      : calls_(calls),
        events_(std::move(events)),
        request_(std::move(request)) {}

  grpc::ClientContext* context() { return context_.get(); }

  void Run(std::shared_ptr<StreamCall> self) {
    self_ = std::move(self);
    StartWriteLast(&request_, grpc::WriteOptions());
    // Until the stream's end, so that Read() may come from any thread.
    AddHold();
    StartCall();
  }

  void Cancel() override { context_.Cancel(); }
  void Read() override { StartRead(&response_); }

  void OnReadDone(bool ok) override {
    if (!ok) return RemoveHold();
    events_.on_message(ToString(response_));
  }
  void OnDone(const grpc::Status& status) override {
    ApiCalls* const calls = calls_;
    auto events = std::move(events_);
    events_ = {};
    context_.End();
    events.on_end(status);
    events = {};
    self_.reset();
    calls->End();
  }

 private:
  ApiCalls* const calls_;
  StreamEvents events_;
  CallContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  // Until the end.
  std::shared_ptr<StreamCall> self_;
};

ApiCalls::ApiCalls(std::shared_ptr<grpc::Channel> channel,
                   const ForwardedCalls* forwarded)
    : forwarded_(forwarded),
      stub_(std::make_unique<grpc::GenericStub>(std::move(channel))) {}

ApiCalls::~ApiCalls() { Finish(); }

void ApiCalls::Begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++calls_;
}

void ApiCalls::End() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--calls_ == 0) idle_.notify_all();
}

void ApiCalls::Finish() {
  std::unique_lock<std::mutex> lock(mutex_);
  idle_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return calls_ == 0;
  });
}

std::shared_ptr<ApiCalls::Call> ApiCalls::Unary(
    const google::protobuf::MethodDescriptor& method,
    const google::protobuf::Message& request, const ApiCaller& caller,
    absl::Duration timeout, Done done) {
  auto call = std::make_shared<UnaryCall>();
  Prepare(caller, *forwarded_, call->context.get());
  call->context.get()->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  call->request = ToBuffer(request);
  call->done = std::move(done);
  Begin();
  stub_->UnaryCall(call->context.get(), Path(method), grpc::StubOptions(),
                   &call->request, &call->response,
                   [this, call](const grpc::Status& status) {
                     call->context.End();
                     auto done = std::exchange(call->done, nullptr);
                     done(status, ToString(call->response));
                     done = nullptr;
                     End();
                   });
  return call;
}

std::shared_ptr<ApiCalls::Stream> ApiCalls::ServerStream(
    const google::protobuf::MethodDescriptor& method,
    const google::protobuf::Message& request, const ApiCaller& caller,
    StreamEvents events) {
  auto call =
      std::make_shared<StreamCall>(this, std::move(events), ToBuffer(request));
  Prepare(caller, *forwarded_, call->context());
  Begin();
  stub_->PrepareBidiStreamingCall(call->context(), Path(method),
                                  grpc::StubOptions(), call.get());
  call->Run(call);
  return call;
}

}  // namespace comera::server
