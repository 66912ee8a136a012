// A coordinator with tokens, as a process of its own, and calls to it by rpc.
#ifndef COMERA_TESTS_SECURITY_TOKEN_SERVER_H_
#define COMERA_TESTS_SECURITY_TOKEN_SERVER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/access_service.grpc.pb.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "google/protobuf/message.h"
#include "grpcpp/grpcpp.h"
#include "tests/e2e/process.h"

namespace comera::e2e {

// The file's description, as a worker would compute it.
v1::ArtifactFile DescribeFile(const std::string& path, const std::string& data);

// Runs comera-server on loopback with a data folder below `folder`, which must
// exist. A failure to start fails the test. Not thread-safe.
class TokenServer {
 public:
  explicit TokenServer(const std::string& folder,
                       const std::vector<std::string>& flags = {});

  const std::string& address() const { return address_; }
  pid_t pid() const { return process_->pid(); }
  // The HTTP port's address.
  const std::string& http_address() const { return http_address_; }
  // The secret of the first token, an administrator's.
  const std::string& admin() const { return admin_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Makes a token and returns its secret.
  std::string MakeToken(const v1::CreateTokenRequest& request);
  // The same of a user with these roles in queues, or of a worker.
  std::string MakeUser(const std::string& user,
                       const std::map<std::string, v1::Role>& queues);
  std::string MakeWorker(const std::string& name);
  void Revoke(const std::string& secret);
  // `tokens/{token}` of a secret.
  static std::string NameOf(const std::string& secret);

  // A call's context with the token (empty: none) and a deadline.
  static std::unique_ptr<grpc::ClientContext> As(const std::string& secret);

  struct Answer {
    grpc::Status status;
    std::vector<std::string> messages;
  };
  // Calls the rpc "/PACKAGE.SERVICE/METHOD" with these messages, and reads what
  // comes back: all of it, or up to `most` messages, after which the call is
  // given up and counts as good.
  Answer Call(const std::string& method, const std::string& secret,
              const std::vector<std::string>& requests, size_t most = 1000);
  // The same of a unary rpc, which must succeed.
  template <typename Response>
  Response Must(const std::string& method, const std::string& secret,
                const google::protobuf::Message& request) {
    const Answer answer = Call(method, secret, {request.SerializeAsString()});
    ExpectOk(method, answer.status);
    Response response;
    if (!answer.messages.empty()) response.ParseFromString(answer.messages[0]);
    return response;
  }

 private:
  static void ExpectOk(const std::string& method, const grpc::Status& status);

  std::unique_ptr<Process> process_;
  std::string address_, http_address_, admin_;
  std::shared_ptr<grpc::Channel> channel_;
};

// A worker whose part the test plays. Not thread-safe.
class PlayedWorker {
 public:
  // `secret`: of its token.
  PlayedWorker(TokenServer* server, std::string name, std::string secret)
      : server_(server), name_(std::move(name)), secret_(std::move(secret)) {}

  const std::string& secret() const { return secret_; }
  // What it would report now.
  v1::SynchronizeRequest Report() const;
  // Reports, and takes what is to run here, which it says to be running.
  v1::SynchronizeResponse Synchronize();
  // Reports until a member of the job is placed here.
  void AwaitMember(const std::string& job);
  // Adds to the log of member 0 of the job's attempt 1, and reports.
  void AddLog(const std::string& job, int64_t offset, const std::string& text);
  // Uploads a file of the model of the job's attempt 1.
  grpc::Status Upload(const std::string& model, const v1::ArtifactFile& file,
                      const std::string& data);
  // Ends the member with a result, and a model `final` of one file.
  void Succeed(const std::string& job, const std::string& data);

 private:
  TokenServer* const server_;
  const std::string name_;
  const std::string secret_;
  int64_t seen_version_ = 0;
  std::map<std::string, v1::MemberStatus> members_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_SECURITY_TOKEN_SERVER_H_
