// Formats the messages of streams as server-sent events or text.
#include "server/http/stream_format.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comera/v1/training_service.pb.h"
#include "common/status_macros.h"
#include "google/protobuf/message.h"
#include "server/http/http_error.h"
#include "server/http/json_text.h"

namespace comera::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::OneofDescriptor;

constexpr char kIdle[] = ":\n\n";
// How long an EventSource waits, in milliseconds, before it connects again.
constexpr char kRetry[] = "retry: 2000\n\n";

HttpResponse EventsHead() {
  HttpResponse head;
  head.headers.emplace_back("Content-Type", "text/event-stream");
  // Proxies must not collect it.
  head.headers.emplace_back("X-Accel-Buffering", "no");
  return head;
}

std::string LastEvent(const grpc::Status& status) {
  return FormatEvent("", "end", status.ok() ? "{}" : ErrorJson(status));
}

absl::Status Unreadable() {
  return absl::InternalError("a message of a stream cannot be read");
}

// The field of the message's first oneof that is set; null: none.
const FieldDescriptor* SetOne(const Message& message) {
  const Descriptor* descriptor = message.GetDescriptor();
  if (descriptor->oneof_decl_count() == 0) return nullptr;
  return message.GetReflection()->GetOneofFieldDescriptor(
      message, descriptor->oneof_decl(0));
}

class Events : public StreamFormat {
 public:
  explicit Events(const Descriptor* response)
      : message_(MessageFactory::generated_factory()
                     ->GetPrototype(response)
                     ->New()) {}

  HttpResponse Head() override { return EventsHead(); }

  absl::StatusOr<std::string> Message(const std::string& wire) override {
    if (!message_->ParseFromString(wire)) return Unreadable();
    if (message_->GetDescriptor()->real_oneof_decl_count() == 0) {
      // Messages of one kind have the name that events have by default.
      ASSIGN_OR_RETURN(const std::string json,
                       WireToJson(message_->GetDescriptor(), wire));
      return FormatEvent("", "message", json);
    }
    const FieldDescriptor* item = SetOne(*message_);
    if (item == nullptr) return std::string();
    std::string id;
    std::string name = item->json_name();
    const auto& inside = message_->GetReflection()->GetMessage(*message_, item);
    const FieldDescriptor* sequence =
        inside.GetDescriptor()->FindFieldByName("sequence");
    if (sequence != nullptr) {
      id = absl::StrCat(inside.GetReflection()->GetInt64(inside, sequence));
      const FieldDescriptor* kind = SetOne(inside);
      if (kind != nullptr) name = kind->json_name();
    }
    ASSIGN_OR_RETURN(const std::string json,
                     WireToJson(message_->GetDescriptor(), wire));
    return absl::StrCat(std::exchange(retry_, ""), FormatEvent(id, name, json));
  }

  absl::StatusOr<std::string> End(const grpc::Status& status) override {
    return LastEvent(status);
  }
  std::string IdleText() const override { return kIdle; }

 private:
  const std::unique_ptr<google::protobuf::Message> message_;
  std::string retry_ = kRetry;
};

class LogEvents : public StreamFormat {
 public:
  HttpResponse Head() override { return EventsHead(); }

  absl::StatusOr<std::string> Message(const std::string& wire) override {
    v1::ReadLogResponse part;
    if (!part.ParseFromString(wire)) return Unreadable();
    ASSIGN_OR_RETURN(const std::string json,
                     WireToJson(part.GetDescriptor(), wire));
    const auto size = static_cast<int64_t>(part.data().size());
    return absl::StrCat(
        std::exchange(retry_, ""),
        FormatEvent(absl::StrCat(part.attempt(), ":", part.offset() + size),
                    "log", json));
  }

  absl::StatusOr<std::string> End(const grpc::Status& status) override {
    return LastEvent(status);
  }
  std::string IdleText() const override { return kIdle; }

 private:
  std::string retry_ = kRetry;
};

class LogText : public StreamFormat {
 public:
  HttpResponse Head() override {
    HttpResponse head;
    head.headers.emplace_back("Content-Type", "text/plain; charset=utf-8");
    return head;
  }
  absl::StatusOr<std::string> Message(const std::string& wire) override {
    v1::ReadLogResponse part;
    if (!part.ParseFromString(wire)) return Unreadable();
    return std::move(*part.mutable_data());
  }
  absl::StatusOr<std::string> End(const grpc::Status& status) override {
    if (status.ok()) return std::string();
    return absl::UnavailableError("the log broke off");
  }
};

}  // namespace

std::unique_ptr<StreamFormat> EventFormat(const Descriptor* response) {
  return std::make_unique<Events>(response);
}
std::unique_ptr<StreamFormat> LogEventFormat() {
  return std::make_unique<LogEvents>();
}
std::unique_ptr<StreamFormat> LogTextFormat() {
  return std::make_unique<LogText>();
}

std::string FormatEvent(const std::string& id, const std::string& event,
                        const std::string& data) {
  std::string text;
  if (!id.empty()) absl::StrAppend(&text, "id: ", id, "\n");
  absl::StrAppend(&text, "event: ", event, "\ndata: ");
  // JSON has no line breaks but those that a printer puts between values.
  for (const char c : data) {
    if (c == '\n') {
      absl::StrAppend(&text, "\ndata: ");
    } else if (c != '\r') {
      text.push_back(c);
    }
  }
  return text + "\n\n";
}

}  // namespace comera::server
