// Every rpc of a real PeerService: any message of a worker that may call gets
// an answer that is an error of the caller's or a success, and a state that was
// put comes back as it was.
//
// An input begins with a letter for the rpc: "l" lists, "g" gets, "p" puts, "w"
// puts with a size and checksums that are right. Then comes the request as
// text, for "p" and "w" only the header, and behind a "---" line the data of
// each message.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comera/v1/peer_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/files.h"
#include "common/seal.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/grpcpp.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/server/temp_dir.h"
#include "worker/checkpoint/peer_keys.h"
#include "worker/checkpoint/peer_server.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/gang/job_folders.h"

namespace comera::worker {
namespace {

constexpr char kKey[] = "key";
constexpr char kJob[] = "jobs/a";
constexpr size_t kCacheBytes = 4096;
constexpr int64_t kAttempt = 1000;

void Check(bool good, const char* what) {
  if (!good) FuzzFailure(what);
}

class SilentText : public google::protobuf::io::ErrorCollector {
  void AddError(int line, int column, const std::string& message) override {}
};

// Returns false if the text is not a message, or not UTF-8, which gRPC itself
// refuses.
bool ParseText(const std::string& text, google::protobuf::Message* message) {
  SilentText silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  return parser.ParseFromString(text, message) &&
         message->ParseFromString(message->SerializeAsString());
}

// The contents as the trainer ends them.
std::string Whole(const std::string& contents) {
  return absl::StrCat(contents, "\nsha256 ", Sha256Hex(contents), "\n");
}

class Target {
 public:
  Target() : folders_(folder_.path()) {
    v1::SynchronizeResponse answer;
    answer.set_grant_key(kKey);
    keys_.Learn(answer);
    const std::string saved = folders_.Checkpoints(kJob).ToString();
    Check(
        MakeDirectories(saved).ok() &&
            WriteFileAtomically(
                absl::StrCat(saved, "/step-000000000003.attempt-2.checkpoint"),
                Whole("saved"))
                .ok(),
        "no folder");
    auto server = PeerServer::Start({}, &cache_, &folders_, &keys_);
    if (!server.ok()) FuzzFailure(server.status().ToString());
    server_ = *std::move(server);
    stub_ = v1::PeerService::NewStub(grpc::CreateChannel(
        server_->address(), grpc::InsecureChannelCredentials()));
  }

  void Run(FuzzInput input) {
    switch (input.Choose(256)) {
      case 'l':
        List(input.Rest());
        break;
      case 'g':
        GetAny(input.Rest());
        break;
      case 'w':
        Put(std::move(input), /*right=*/true);
        break;
      default:
        Put(std::move(input), /*right=*/false);
    }
    Check(cache_.bytes() <= kCacheBytes, "more memory than there may be");
  }

 private:
  // A call of a worker that may ask for the states of the job.
  static std::unique_ptr<grpc::ClientContext> CallFor(const std::string& job) {
    v1::PeerGrant grant;
    grant.set_job(job);
    grant.set_attempt(kAttempt);
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata(kPeerGrantMetadata, Seal(kKey, kPeerGrantPurpose,
                                                  grant.SerializeAsString()));
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::seconds(5));
    return context;
  }

  static void CheckStatus(const char* rpc, const grpc::Status& status) {
    switch (status.error_code()) {
      case grpc::StatusCode::UNKNOWN:
      case grpc::StatusCode::UNAVAILABLE:
      case grpc::StatusCode::UNIMPLEMENTED:
      case grpc::StatusCode::UNAUTHENTICATED:
      case grpc::StatusCode::INTERNAL:
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        FuzzFailure(absl::StrCat(rpc, ": ", status.error_code(), " ",
                                 status.error_message()));
      default:
        return;
    }
  }

  void List(const std::string& text) {
    v1::ListCheckpointsRequest request;
    if (!ParseText(text, &request)) return;
    const auto context = CallFor(request.job());
    v1::ListCheckpointsResponse response;
    CheckStatus("list",
                stub_->ListCheckpoints(context.get(), request, &response));
    for (const v1::PeerCheckpoint& one : response.checkpoints()) {
      Check(one.job() == request.job(), "a state of another job");
    }
  }

  void GetAny(const std::string& text) {
    v1::GetCheckpointRequest request;
    std::string contents;
    if (ParseText(text, &request)) (void)Get(request, &contents);
  }

  bool Get(const v1::GetCheckpointRequest& request, std::string* contents) {
    const auto context = CallFor(request.job());
    const auto reader = stub_->GetCheckpoint(context.get(), request);
    v1::GetCheckpointResponse response;
    int64_t size = -1;
    while (reader->Read(&response)) {
      if (size < 0) size = response.size_bytes();
      *contents += response.data();
    }
    const grpc::Status status = reader->Finish();
    CheckStatus("get", status);
    if (!status.ok()) return false;
    Check(size == request.offset() + static_cast<int64_t>(contents->size()),
          "a state of another size");
    return true;
  }

  void Put(FuzzInput input, bool right) {
    v1::PutCheckpointRequest first;
    v1::PeerCheckpoint& header = *first.mutable_header();
    if (!ParseText(input.Part(), &header)) return;
    std::string contents;
    std::vector<v1::PutCheckpointRequest> rest;
    while (!input.Rest().empty()) {
      rest.emplace_back();
      rest.back().set_data(input.Part());
      contents += rest.back().data();
    }
    if (right) {
      const std::string whole = Whole(contents);
      rest.emplace_back().set_data(whole.substr(contents.size()));
      contents = whole;
      header.set_size_bytes(static_cast<int64_t>(contents.size()));
      header.set_sha256(Sha256Hex(contents));
    }
    const auto context = CallFor(header.job());
    v1::PutCheckpointResponse response;
    const auto writer = stub_->PutCheckpoint(context.get(), &response);
    bool open = writer->Write(first);
    for (const v1::PutCheckpointRequest& request : rest) {
      open = open && writer->Write(request);
    }
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    CheckStatus("put", status);
    // Any attempt's state may be meant where the attempt is unknown.
    if (!status.ok() || header.attempt() == 0) return;
    v1::GetCheckpointRequest request;
    request.set_job(header.job());
    request.set_step(header.step());
    request.set_attempt(header.attempt());
    std::string back;
    Check(Get(request, &back) && back == contents,
          "a state that does not come back");
  }

  server::TempDir folder_;
  JobFolders folders_;
  ReplicaCache cache_{kCacheBytes};
  PeerKeys keys_;
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<v1::PeerService::Stub> stub_;
};

}  // namespace
}  // namespace comera::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static comera::worker::Target target;
  target.Run(comera::FuzzInput(data, size));
  return 0;
}
