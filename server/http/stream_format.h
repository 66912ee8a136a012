// What a server stream looks like over HTTP.
#ifndef COMERA_SERVER_HTTP_STREAM_FORMAT_H_
#define COMERA_SERVER_HTTP_STREAM_FORMAT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/http/http_message.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/grpcpp.h"

namespace comera::server {

// One answer. Not thread-safe.
class StreamFormat {
 public:
  virtual ~StreamFormat() = default;

  // Before the first message.
  virtual HttpResponse Head() = 0;
  // What is sent for a message, as it is on the wire; may be empty.
  virtual absl::StatusOr<std::string> Message(const std::string& wire) = 0;
  // What is sent last. Nothing tells of an error here: then the stream is cut
  // off, so that nobody takes it for whole.
  virtual absl::StatusOr<std::string> End(const grpc::Status& status) = 0;
  // Whether nothing more is wanted, although the stream may go on.
  virtual bool Finished() const { return false; }
  // Sent in silence; empty: nothing.
  virtual std::string IdleText() const { return ""; }
};

// Server-sent events of a message whose oneof holds a resource or an event
// (WatchJobResponse, WatchSweepResponse).
std::unique_ptr<StreamFormat> EventFormat(
    const google::protobuf::Descriptor* response);
// The formats of ReadLogResponse: server-sent events, and the plain text.
std::unique_ptr<StreamFormat> LogEventFormat();
std::unique_ptr<StreamFormat> LogTextFormat();

// One event. Lines in `data` are one each.
std::string FormatEvent(const std::string& id, const std::string& event,
                        const std::string& data);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_STREAM_FORMAT_H_
