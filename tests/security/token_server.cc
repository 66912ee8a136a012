// Starts a coordinator with tokens, calls any rpc of it, and plays a worker.
#include "tests/security/token_server.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/call_metadata.h"
#include "common/files.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "tests/e2e/tiny_job.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kBound = absl::Seconds(120);

std::string FirstLine(const std::string& path) {
  return std::string(absl::StripSuffix(ReadFile(path).value_or(""), "\n"));
}

grpc::ByteBuffer ToBuffer(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToText(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

}  // namespace

v1::ArtifactFile DescribeFile(const std::string& path,
                              const std::string& data) {
  v1::ArtifactFile file;
  file.set_path(path);
  file.set_size_bytes(static_cast<int64_t>(data.size()));
  file.set_sha256(Sha256Hex(data));
  return file;
}

TokenServer::TokenServer(const std::string& folder,
                         const std::vector<std::string>& flags) {
  std::vector<std::string> command = {
      Binary("server/comera-server"),
      "--listen=127.0.0.1:0",
      absl::StrCat("--data_dir=", folder, "/server"),
      absl::StrCat("--port_file=", folder, "/port"),
      absl::StrCat("--http_port_file=", folder, "/http_port"),
      absl::StrCat("--init_admin_token_file=", folder, "/admin.token")};
  command.insert(command.end(), flags.begin(), flags.end());
  process_ = std::make_unique<Process>(command, folder + "/server.log");
  EXPECT_TRUE(WaitForFile(folder, "port", kBound));
  EXPECT_TRUE(WaitForFile(folder, "http_port", kBound));
  address_ = FirstLine(folder + "/port");
  http_address_ = FirstLine(folder + "/http_port");
  admin_ = FirstLine(folder + "/admin.token");
  channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
}

std::string TokenServer::MakeToken(const v1::CreateTokenRequest& request) {
  return Must<v1::CreateTokenResponse>("/comera.v1.AccessService/CreateToken",
                                       admin_, request)
      .secret();
}

std::string TokenServer::MakeUser(
    const std::string& user, const std::map<std::string, v1::Role>& queues) {
  v1::CreateTokenRequest request;
  request.set_user(user);
  for (const auto& [queue, role] : queues) {
    (*request.mutable_queue_roles())[queue] = role;
  }
  return MakeToken(request);
}

std::string TokenServer::MakeWorker(const std::string& name) {
  v1::CreateTokenRequest request;
  request.set_user(name);
  request.set_worker(true);
  return MakeToken(request);
}

void TokenServer::Revoke(const std::string& secret) {
  v1::RevokeTokenRequest request;
  request.set_name(NameOf(secret));
  Must<v1::Token>("/comera.v1.AccessService/RevokeToken", admin_, request);
}

std::string TokenServer::NameOf(const std::string& secret) {
  const std::vector<std::string> parts = absl::StrSplit(secret, '_');
  return absl::StrCat("tokens/", parts.size() > 1 ? parts[1] : "");
}

std::unique_ptr<grpc::ClientContext> TokenServer::As(
    const std::string& secret) {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::seconds(60));
  if (!secret.empty()) {
    context->AddMetadata("authorization", absl::StrCat("Bearer ", secret));
  }
  return context;
}

TokenServer::Answer TokenServer::Call(const std::string& method,
                                      const std::string& secret,
                                      const std::vector<std::string>& requests,
                                      size_t most) {
  grpc::GenericStub stub(channel_);
  const auto context = As(secret);
  grpc::CompletionQueue queue;
  const auto stream = stub.PrepareCall(context.get(), method, &queue);
  void* tag = nullptr;
  bool ok = false;
  const auto done = [&] { return queue.Next(&tag, &ok) && ok; };
  stream->StartCall(nullptr);
  bool open = done();
  for (size_t i = 0; open && i < requests.size(); ++i) {
    stream->Write(ToBuffer(requests[i]), nullptr);
    open = done();
  }
  if (open) {
    stream->WritesDone(nullptr);
    done();
  }
  Answer answer;
  while (answer.messages.size() < most) {
    grpc::ByteBuffer message;
    stream->Read(&message, nullptr);
    if (!done()) break;
    answer.messages.push_back(ToText(message));
  }
  const bool given_up = answer.messages.size() == most;
  if (given_up) context->TryCancel();
  stream->Finish(&answer.status, nullptr);
  done();
  if (given_up) answer.status = grpc::Status::OK;
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) continue;
  return answer;
}

void TokenServer::ExpectOk(const std::string& method,
                           const grpc::Status& status) {
  EXPECT_TRUE(status.ok()) << method << ": " << status.error_message();
}

v1::SynchronizeRequest PlayedWorker::Report() const {
  v1::SynchronizeRequest request;
  request.set_worker(name_);
  request.set_incarnation("i1");
  request.set_host(name_);
  request.add_slots()->set_device(v1::ResourceSpec::CPU);
  for (const auto& [job, member] : members_) *request.add_members() = member;
  request.set_seen_version(seen_version_);
  return request;
}

v1::SynchronizeResponse PlayedWorker::Synchronize() {
  const auto response = server_->Must<v1::SynchronizeResponse>(
      "/comera.v1.WorkerService/Synchronize", secret_, Report());
  seen_version_ = response.desired_version();
  for (const v1::MemberKey& gone : response.forget()) {
    members_.erase(gone.job());
  }
  for (const v1::MemberAssignment& one : response.desired()) {
    v1::MemberStatus& member = members_[one.job()];
    if (member.phase() == v1::MemberStatus::EXITED) continue;
    member.set_job(one.job());
    member.set_attempt(one.attempt());
    member.set_rank(one.rank());
    member.set_slot(one.slot());
    member.set_phase(v1::MemberStatus::RUNNING);
  }
  return response;
}

void PlayedWorker::AwaitMember(const std::string& job) {
  // The scheduler runs after the call that brings news to it.
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (members_.count(job) == 0) {
    ASSERT_LT(absl::Now(), end) << job << " is not placed on " << name_;
    Synchronize();
  }
  Synchronize();
}

void PlayedWorker::AddLog(const std::string& job, int64_t offset,
                          const std::string& text) {
  v1::SynchronizeRequest request = Report();
  v1::LogChunk& chunk = *request.add_logs();
  chunk.set_job(job);
  chunk.set_attempt(1);
  chunk.set_offset(offset);
  chunk.set_data(text);
  server_->Must<v1::SynchronizeResponse>("/comera.v1.WorkerService/Synchronize",
                                         secret_, request);
}

grpc::Status PlayedWorker::Upload(const std::string& model,
                                  const v1::ArtifactFile& file,
                                  const std::string& data) {
  v1::UploadArtifactRequest header, bytes;
  header.mutable_header()->set_artifact(model);
  header.mutable_header()->set_attempt(1);
  *header.mutable_header()->mutable_file() = file;
  bytes.set_data(data);
  return server_
      ->Call("/comera.v1.WorkerService/UploadArtifact", secret_,
             {header.SerializeAsString(), bytes.SerializeAsString()})
      .status;
}

void PlayedWorker::Succeed(const std::string& job, const std::string& data) {
  v1::MemberStatus& member = members_[job];
  member.set_phase(v1::MemberStatus::EXITED);
  member.mutable_result()->set_outcome(v1::COMPLETED);
  member.mutable_result()->set_step(1);
  v1::Artifact& model = *member.mutable_model();
  model.set_name(absl::StrCat(job, "/models/final"));
  *model.add_files() = DescribeFile("model.safetensors", data);
  const grpc::Status status = Upload(model.name(), model.files(0), data);
  EXPECT_TRUE(status.ok()) << status.error_message();
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (members_.count(job) > 0) {
    ASSERT_LT(absl::Now(), end) << job << " does not end";
    Synchronize();
  }
}

}  // namespace comera::e2e
