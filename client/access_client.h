// The client library's part for AccessService.
#ifndef COMERA_CLIENT_ACCESS_CLIENT_H_
#define COMERA_CLIENT_ACCESS_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/training_client.h"
#include "comera/v1/access_service.pb.h"

namespace comera::client {

// Manages tokens and reads the audit log. Deadlines, retries and thread safety
// are those of TrainingClient, except that creating a token is tried only once.
// Statuses are those of access_service.proto.
class AccessClient {
 public:
  AccessClient(std::shared_ptr<grpc::Channel> channel,
               const TrainingClient::Options& options);
  ~AccessClient();

  absl::StatusOr<v1::CreateTokenResponse> CreateToken(
      const v1::CreateTokenRequest& request);
  absl::StatusOr<std::vector<v1::Token>> ListTokens();
  absl::StatusOr<v1::Token> RevokeToken(const std::string& name);
  absl::StatusOr<v1::WhoAmIResponse> WhoAmI();
  // Returns the entries of all pages, newest first; at most `limit` (0: all).
  absl::StatusOr<std::vector<v1::AuditEntry>> ListAuditEntries(
      v1::ListAuditEntriesRequest request, int64_t limit);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_ACCESS_CLIENT_H_
