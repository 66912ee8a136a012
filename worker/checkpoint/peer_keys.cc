// Keeps the grants between workers, and judges those of others.

#include "worker/checkpoint/peer_keys.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/call_metadata.h"
#include "common/seal.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

// Workers run for months; what is dropped comes again with the next answer.
constexpr size_t kMostGrants = 4096;
constexpr size_t kMostAttempts = 100000;

}  // namespace

void PeerKeys::Learn(const v1::SynchronizeResponse& response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string& key = response.grant_key();
  if (!key.empty() && key != newest_) {
    before_ = std::move(newest_);
    newest_ = key;
    // Grants of the attempts before these are no longer good by either key.
    attempts_before_ = std::move(attempts_);
    attempts_.clear();
  }
  for (const v1::MemberAssignment& assignment : response.desired()) {
    for (const v1::Peer& peer : assignment.replicas()) {
      Keep(assignment.job(), peer);
    }
    // A job that starts from a state of another job asks for that job's states.
    const std::string& source = assignment.start_job().empty()
                                    ? assignment.job()
                                    : assignment.start_job();
    for (const v1::Peer& peer : assignment.sources()) Keep(source, peer);
  }
}

void PeerKeys::Keep(const std::string& job, const v1::Peer& peer) {
  if (grants_.size() >= kMostGrants) grants_.clear();
  grants_[{peer.address(), job}] = peer.grant();
}

std::string PeerKeys::GrantFor(const std::string& address,
                               const std::string& job) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = grants_.find({address, job});
  return found == grants_.end() ? "" : found->second;
}

std::optional<v1::PeerGrant> PeerKeys::Open(const std::string& grant) const {
  std::optional<std::string> message =
      Unseal(newest_, kPeerGrantPurpose, grant);
  if (!message) message = Unseal(before_, kPeerGrantPurpose, grant);
  v1::PeerGrant granted;
  if (!message || !granted.ParseFromString(*message)) return std::nullopt;
  return granted;
}

absl::Status PeerKeys::Admit(const v1::PeerGrant& granted) {
  const std::string& job = granted.job();
  if (attempts_.size() >= kMostAttempts) attempts_.clear();
  int64_t& newest = attempts_[job];
  const auto before = attempts_before_.find(job);
  if (before != attempts_before_.end()) {
    newest = std::max(newest, before->second);
  }
  if (granted.attempt() < newest) {
    return absl::AbortedError(
        absl::StrCat(job, ": attempt ", newest, " has begun"));
  }
  newest = granted.attempt();
  return absl::OkStatus();
}

absl::StatusOr<PeerKeys::Granted> PeerKeys::Judge(const std::string& grant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::optional<v1::PeerGrant> granted = Open(grant);
  if (!granted) {
    return absl::UnauthenticatedError("no grant of the coordinator here");
  }
  RETURN_IF_ERROR(Admit(*granted));
  return Granted{granted->job(), granted->attempt()};
}

absl::StatusOr<int64_t> PeerKeys::Judge(const std::string& grant,
                                        const std::string& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::optional<v1::PeerGrant> granted = Open(grant);
  if (!granted || granted->job() != job) {
    return absl::UnauthenticatedError(
        absl::StrCat("no grant of the coordinator for ", job, " here"));
  }
  RETURN_IF_ERROR(Admit(*granted));
  return granted->attempt();
}

}  // namespace comera::worker
