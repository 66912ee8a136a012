// Every rpc of a real coordinator: any message gets an answer that is an error
// of the caller's or a success, never an error of ours.
//
// An input is the rpc's full name on a line, then its messages as text or,
// after a "#", in the wire format, with "---" lines between those of a stream.
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/clock.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "server/daemon/comera_server.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/server/temp_dir.h"

namespace comera::server {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

// All services that ComeraServer registers.
constexpr const char* kServices[] = {
    "comera.v1.AccessService",   "comera.v1.BackupService",
    "comera.v1.DatasetService",  "comera.v1.ModelService",
    "comera.v1.QueueService",    "comera.v1.SweepService",
    "comera.v1.TrainingService", "comera.v1.WorkerService",
};

class SilentText : public google::protobuf::io::ErrorCollector {
  void AddError(int line, int column, const std::string& message) override {}
};

class Target {
 public:
  Target() {
    ComeraServer::Options options;
    options.data_dir = folder_.path();
    // Calls return at once, and jobs do not pile up.
    options.host.coordinator.max_hold = absl::ZeroDuration();
    options.host.coordinator.max_queued_jobs = 50;
    auto server = ComeraServer::Start(
        options, Clock::Real(), &ids_, [](const absl::Status& status) {
          FuzzFailure(absl::StrCat("the store failed: ", status.ToString()));
        });
    if (!server.ok()) FuzzFailure(server.status().ToString());
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->address(),
                                   grpc::InsecureChannelCredentials());
    stub_ = std::make_unique<grpc::GenericStub>(channel_);
    for (const char* name : kServices) {
      const ServiceDescriptor* service =
          DescriptorPool::generated_pool()->FindServiceByName(name);
      if (service == nullptr) FuzzFailure(absl::StrCat("no service ", name));
      for (int i = 0; i < service->method_count(); ++i) {
        methods_.push_back(service->method(i));
      }
    }
  }

  void Run(FuzzInput input) {
    const std::string line = FirstLine(&input);
    const MethodDescriptor* method = Find(line);
    std::vector<grpc::ByteBuffer> messages;
    malformed_ = false;
    do {
      std::string bytes;
      if (!ToWire(*method, input.Part(), &bytes)) return;
      grpc::Slice slice(bytes);
      messages.emplace_back(&slice, 1);
    } while (method->client_streaming() && !input.Rest().empty());
    Call(*method, messages);
  }

 private:
  static std::string FirstLine(FuzzInput* input) {
    std::string line;
    for (int c; (c = input->Choose(256)) != 0 && c != '\n';) {
      line.push_back(static_cast<char>(c));
    }
    return line;
  }

  const MethodDescriptor* Find(const std::string& line) const {
    size_t sum = 0;
    for (char c : line) sum += static_cast<unsigned char>(c);
    for (const MethodDescriptor* method : methods_) {
      if (method->full_name() == line) return method;
    }
    return methods_[sum % methods_.size()];
  }

  // Returns false if the text is not a message.
  bool ToWire(const MethodDescriptor& method, const std::string& part,
              std::string* bytes) {
    std::unique_ptr<google::protobuf::Message> message(
        google::protobuf::MessageFactory::generated_factory()
            ->GetPrototype(method.input_type())
            ->New());
    if (!part.empty() && part[0] == '#') {
      *bytes = part.substr(1);
    } else {
      SilentText silent;
      google::protobuf::TextFormat::Parser parser;
      parser.RecordErrorsTo(&silent);
      parser.SetRecursionLimit(50);
      if (!parser.ParseFromString(part, message.get())) return false;
      message->SerializeToString(bytes);
    }
    // Even text may hold strings that are not UTF-8.
    malformed_ = malformed_ || !message->ParseFromString(*bytes);
    return true;
  }

  void Call(const MethodDescriptor& method,
            const std::vector<grpc::ByteBuffer>& messages) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(5)));
    grpc::CompletionQueue queue;
    const auto stream = stub_->PrepareCall(
        &context,
        absl::StrCat("/", method.service()->full_name(), "/", method.name()),
        &queue);
    const auto wait = [&queue] {
      void* tag;
      bool ok = false;
      queue.Next(&tag, &ok);
      return ok;
    };
    stream->StartCall(nullptr);
    bool open = wait();
    for (const grpc::ByteBuffer& message : messages) {
      if (!open) break;
      stream->Write(message, nullptr);
      open = wait();
    }
    if (open) {
      stream->WritesDone(nullptr);
      wait();
    }
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    wait();
    // A stream may have no end.
    if (method.server_streaming()) context.TryCancel();
    grpc::Status status;
    stream->Finish(&status, nullptr);
    wait();
    queue.Shutdown();
    void* tag;
    bool ok;
    while (queue.Next(&tag, &ok)) {
    }
    // gRPC itself answers bytes that are not a message.
    if (malformed_) return;
    switch (status.error_code()) {
      case grpc::StatusCode::UNKNOWN:
      case grpc::StatusCode::UNAVAILABLE:
      case grpc::StatusCode::UNIMPLEMENTED:
      case grpc::StatusCode::INTERNAL:
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        FuzzFailure(absl::StrCat(method.full_name(), ": ", status.error_code(),
                                 " ", status.error_message()));
      default:
        return;
    }
  }

  TempDir folder_;
  RandomIdSource ids_;
  std::unique_ptr<ComeraServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::vector<const MethodDescriptor*> methods_;
  // State of the input being run.
  bool malformed_ = false;
};

}  // namespace
}  // namespace comera::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static comera::server::Target target;
  target.Run(comera::FuzzInput(data, size));
  return 0;
}
