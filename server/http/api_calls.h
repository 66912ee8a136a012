#ifndef COMERA_SERVER_HTTP_API_CALLS_H_
#define COMERA_SERVER_HTTP_API_CALLS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "server/auth/forwarded_calls.h"

namespace comera::server {

// The HTTP client that a call is made for.
struct ApiCaller {
  // Value of the header authorization; nothing: none.
  std::optional<std::string> authorization;
  ForwardedCalls::Origin origin;
};

// A method by its full name, which must be one of a file that is linked.
const google::protobuf::MethodDescriptor& ApiMethod(const std::string& name);

// Calls the rpcs of this process's own gRPC server, as their HTTP clients: the
// same checks, limits and audit log hold. Thread-safe; nothing blocks but
// Finish().
class ApiCalls {
 public:
  // A call under way. Cancel() may come at any time.
  class Call {
   public:
    virtual ~Call() = default;
    virtual void Cancel() = 0;
  };
  // A stream: each message as it is on the wire, asked for by Read().
  class Stream : public Call {
   public:
    // One at a time; its answer is on_message or on_end.
    virtual void Read() = 0;
  };
  using Done = std::function<void(const grpc::Status&, std::string wire)>;
  struct StreamEvents {
    std::function<void(std::string wire)> on_message;
    // Once, last.
    std::function<void(const grpc::Status&)> on_end;
  };

  // `forwarded` must outlive the object.
  ApiCalls(std::shared_ptr<grpc::Channel> channel,
           const ForwardedCalls* forwarded);
  // After Finish().
  ~ApiCalls();

  // `done` comes on a thread of gRPC's.
  std::shared_ptr<Call> Unary(const google::protobuf::MethodDescriptor& method,
                              const google::protobuf::Message& request,
                              const ApiCaller& caller, absl::Duration timeout,
                              Done done);
  // The first Read() is the caller's.
  std::shared_ptr<Stream> ServerStream(
      const google::protobuf::MethodDescriptor& method,
      const google::protobuf::Message& request, const ApiCaller& caller,
      StreamEvents events);

  // Waits until every call has ended, which is for others to bring about.
  void Finish();

 private:
  class UnaryCall;
  class StreamCall;

  void Begin();
  void End();

  const ForwardedCalls* const forwarded_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::mutex mutex_;
  std::condition_variable idle_;
  int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_API_CALLS_H_
