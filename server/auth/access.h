// The caller of an rpc, and what it may do.
#ifndef COMERA_SERVER_AUTH_ACCESS_H_
#define COMERA_SERVER_AUTH_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace comera::server {

enum class Permission {
  // Read jobs, queues, workers, datasets and sweeps.
  kView,
  // Create jobs, sweeps and datasets; change or stop one's own.
  kUse,
  // Change what belongs to others: their jobs, queues, workers, tokens.
  kAdminister,
  // Be a worker.
  kWork,
};

// The authenticated caller of one RPC.
class Caller {
 public:
  virtual ~Caller() = default;
  // Name of the user; empty where the server asks for no token.
  virtual const std::string& user() const = 0;
  // PermissionDenied: not on this queue (empty: on the server as a whole).
  virtual absl::Status Check(Permission permission,
                             const std::string& queue) const = 0;
  // `tokens/{token}`; empty where the server asks for no token.
  virtual std::string token() const { return ""; }
  // Name of the worker that calls, as its call or its token says. Once
  // Check(kWork) has passed, it is empty only where any caller may be any worker
  // (no tokens, or --allow_unbound_worker_tokens).
  virtual const std::string& worker() const = 0;
  // PermissionDenied: may not be a worker, or not the one of that name.
  virtual absl::Status CheckWorker(const std::string& name) const = 0;
  // Where the call came from, of one that the HTTP port passes on; else empty.
  virtual std::string peer() const { return ""; }

  // Whether the caller would still be taken for what it was at its call.
  // Unauthenticated: its token has expired or been revoked since.
  virtual absl::Status CheckStillKnown() const { return absl::OkStatus(); }

  // Limits of the user; none by default.
  //
  // ResourceExhausted with RetryInfo: too many jobs of late.
  virtual absl::Status ChargeSubmission() const { return absl::OkStatus(); }
  // Counts a stream as open until this object goes. ResourceExhausted.
  virtual absl::Status ChargeStream() { return absl::OkStatus(); }
  // Counts a download as open, besides the stream, until this object goes; of
  // workers, too. ResourceExhausted with RetryInfo.
  virtual absl::Status ChargeDownload() { return absl::OkStatus(); }
  // ResourceExhausted: the request is too large.
  virtual absl::Status CheckSize(size_t bytes) const {
    return absl::OkStatus();
  }
  // Counts an upload as open, besides the stream, until this object goes.
  // ResourceExhausted.
  virtual absl::Status ChargeUpload() { return absl::OkStatus(); }

  // Counts a change of datasets as waiting until what this returns goes.
  // `bytes`: the size of its request. ResourceExhausted: that is too large, or,
  // with RetryInfo, too many changes wait.
  virtual absl::StatusOr<std::shared_ptr<const void>> HoldDatasetChange(
      size_t bytes) const {
    return std::shared_ptr<const void>();
  }

  // Check(kUse) for what `owner` created, Check(kAdminister) for others'.
  absl::Status CheckOwner(const std::string& owner,
                          const std::string& queue) const {
    return Check(owner == user() ? Permission::kUse : Permission::kAdminister,
                 queue);
  }
};

// Returns Caller::CheckStillKnown of the caller, for a stream.
inline std::function<absl::Status()> StillKnown(
    std::shared_ptr<const Caller> caller) {
  return [caller = std::move(caller)] { return caller->CheckStillKnown(); };
}

// Finds out who calls. Thread-safe; does not block.
class AccessControl {
 public:
  virtual ~AccessControl() = default;
  // Unauthenticated: no token, a wrong or an expired one. ResourceExhausted:
  // the caller's rate limit.
  virtual absl::StatusOr<std::unique_ptr<Caller>> Identify(
      const grpc::CallbackServerContext& context) = 0;
};

// The access of a server without tokens, which listens on loopback only:
// everybody may do everything.
class OpenAccess : public AccessControl {
 public:
  absl::StatusOr<std::unique_ptr<Caller>> Identify(
      const grpc::CallbackServerContext& context) override;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_ACCESS_H_
