// Uploads a file under the number of an attempt that is over.
#include "tests/e2e/chaos/late_upload.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "grpcpp/grpcpp.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(1);
constexpr char kContents[] = "of an attempt that is over\n";

client::TrainingClient::Options QuickOptions() {
  client::TrainingClient::Options options;
  options.timeout = options.attempt_timeout = kLimit;
  return options;
}

}  // namespace

LateUpload::LateUpload(const std::string& addresses)
    : client_(client::TrainingClient::Connect(addresses, QuickOptions())),
      workers_(v1::WorkerService::NewStub(grpc::CreateChannel(
          "ipv4:" + addresses, grpc::InsecureChannelCredentials()))) {}

std::string LateUpload::Send() {
  violation_.clear();
  const auto jobs = client_->List({v1::RUNNING}, 0);
  if (!jobs.ok()) return "";
  for (const v1::Job& job : *jobs) {
    // The last attempt may be taken back, but none before it.
    const int64_t attempt = job.attempt() - 1;
    if (attempt < 1) continue;
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kLimit));
    v1::UploadArtifactResponse response;
    const auto writer = workers_->UploadArtifact(&context, &response);
    v1::UploadArtifactRequest request;
    v1::UploadArtifactHeader& header = *request.mutable_header();
    header.set_artifact(absl::StrCat(job.name(), "/models/final"));
    header.set_attempt(attempt);
    header.mutable_file()->set_path("late.txt");
    header.mutable_file()->set_size_bytes(sizeof(kContents) - 1);
    header.mutable_file()->set_sha256(Sha256Hex(kContents));
    bool going = writer->Write(request);
    request.set_data(kContents);
    going = going && writer->Write(request);
    if (going) writer->WritesDone();
    if (writer->Finish().ok()) {
      violation_ =
          absl::StrCat("an upload of attempt ", attempt, " of ", job.name(),
                       " was accepted in attempt ", job.attempt());
    }
    return job.name();
  }
  return "";
}

}  // namespace comera::e2e
