// Implements WorkerState: how reports, silence and policy change a worker.
#include "server/coordinator/worker/worker_state.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "server/coordinator/job/training_lineage.h"

namespace comera::server {
namespace {

constexpr size_t kMaxRetired = 16;
constexpr size_t kMaxFailures = 64;

bool SameSlots(const std::vector<v1::Slot>& a,
               const google::protobuf::RepeatedPtrField<v1::Slot>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const v1::Slot& x, const v1::Slot& y) {
                      return x.index() == y.index() &&
                             x.device() == y.device() && x.unfit() == y.unfit();
                    });
}

// Whether it is a training state on the worker's own disk or in its memory. A
// worker may also hold other files of the job.
bool IsOwn(const v1::HeldCheckpoint& held) {
  return held.place() == v1::HeldCheckpoint::DISK ||
         held.place() == v1::HeldCheckpoint::MEMORY;
}

void Retire(const std::string& id, std::deque<std::string>* retired) {
  if (id.empty()) return;
  retired->push_back(id);
  if (retired->size() > kMaxRetired) retired->pop_front();
}

bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "[::1]") ||
         absl::StartsWith(address, "localhost:");
}

}  // namespace

bool WorkerState::IsConnected(absl::Time now,
                              absl::Duration suspect_after) const {
  return IsReachable() && (held_ || now - last_seen_ <= suspect_after);
}

bool WorkerState::IsUsable(absl::Time now, absl::Duration suspect_after) const {
  return IsConnected(now, suspect_after) && !policy_.drained() &&
         !policy_.excluded();
}

bool WorkerState::CanBeReachedFrom(const std::string& host) const {
  return !peer_address_.empty() &&
         (!IsLoopback(peer_address_) || host_ == host);
}

bool WorkerState::NeedsProbe(absl::Time now, absl::Duration probe_after,
                             const std::string& host) const {
  return IsReachable() && !held_ && !jobs_.empty() && !members_survive_ &&
         CanBeReachedFrom(host) && now - last_seen_ >= probe_after &&
         now - last_probe_ >= probe_after;
}

WorkerState::ReportChanges WorkerState::ApplyReport(
    const v1::SynchronizeRequest& request, absl::Time now,
    absl::Duration suspect_after) {
  ReportChanges changes;
  changes.slots = !IsReachable() || now - last_seen_ > suspect_after ||
                  runs_programs_ != request.runs_programs() ||
                  !SameSlots(slots_, request.slots());
  changes.peers = peer_address_ != request.peer_address() ||
                  (!peer_address_.empty() && !IsReachable());
  attached_ = true;
  lost_ = false;
  last_seen_ = now;
  host_ = request.host();
  rack_ = request.rack();
  version_ = request.version();
  peer_address_ = request.peer_address();
  members_survive_ = request.members_survive();
  obeys_finish_ = request.obeys_finish();
  runs_programs_ = request.runs_programs();
  UpdateUnfit(request, now);
  slots_.assign(request.slots().begin(), request.slots().end());
  return changes;
}

void WorkerState::UpdateUnfit(const v1::SynchronizeRequest& request,
                              absl::Time now) {
  std::map<int32_t, absl::Time> since;
  for (const v1::Slot& slot : request.slots()) {
    if (slot.unfit().empty()) continue;
    const auto known = unfit_since_.find(slot.index());
    since[slot.index()] = known == unfit_since_.end() ? now : known->second;
  }
  unfit_since_ = std::move(since);
}

bool WorkerState::IsRetiredIncarnation(const std::string& incarnation) const {
  return absl::c_linear_search(retired_incarnations_, incarnation);
}

bool WorkerState::IsRetiredDaemon(const std::string& daemon) const {
  return absl::c_linear_search(retired_daemons_, daemon);
}

void WorkerState::ReplaceIncarnation(const std::string& incarnation) {
  Retire(incarnation_, &retired_incarnations_);
  incarnation_ = incarnation;
  ++life_;
}

bool WorkerState::NoteDaemon(const std::string& daemon) {
  if (daemon == daemon_) return false;
  Retire(daemon_, &retired_daemons_);
  const bool followed = !daemon_.empty();
  daemon_ = daemon;
  if (followed) ++life_;
  return followed;
}

void WorkerState::ExpectMember(const std::string& job,
                               const std::string& incarnation, absl::Time now) {
  last_seen_ = now;
  jobs_.insert(job);
  if (!incarnation.empty()) incarnation_ = incarnation;
}

void WorkerState::AwaitReport(absl::Time now) {
  attached_ = false;
  lost_ = false;
  last_seen_ = now;
}

absl::Time WorkerState::NoteAway(absl::Time now) {
  if (IsReachable() || held_ || !jobs_.empty()) {
    away_since_ = absl::InfiniteFuture();
  } else if (away_since_ == absl::InfiniteFuture()) {
    away_since_ = now;
  }
  return away_since_;
}

bool WorkerState::SetOccupied(std::set<int32_t> slots) {
  if (slots == occupied_) return false;
  occupied_ = std::move(slots);
  return true;
}

bool WorkerState::IsUnfitFor(int32_t slot, absl::Time now,
                             absl::Duration duration) const {
  const auto since = unfit_since_.find(slot);
  return since != unfit_since_.end() && now - since->second >= duration;
}

bool WorkerState::HoldsCheckpoint(const std::string& job) const {
  const auto held = checkpoints_.find(job);
  return held != checkpoints_.end() &&
         std::any_of(held->second.begin(), held->second.end(), IsOwn);
}

bool WorkerState::HoldsState(const std::string& job,
                             const v1::TrainingStateKey& state) const {
  const auto held = checkpoints_.find(job);
  return held != checkpoints_.end() &&
         std::any_of(held->second.begin(), held->second.end(),
                     [&](const v1::HeldCheckpoint& one) {
                       return IsOwn(one) &&
                              SameState(one.attempt(), one.step(),
                                        state.attempt(), state.step());
                     });
}

int64_t WorkerState::ReleaseHeldCall(absl::Time now) {
  const int64_t call = held_->call;
  last_seen_ = now;
  held_.reset();
  return call;
}

void WorkerState::SetPolicy(WorkerPolicy policy, Operation* op) {
  Document document = {kDocumentKind, id_, std::nullopt};
  if (policy.drained() || policy.excluded()) {
    document.body = policy.SerializeAsString();
  }
  op->effects().documents.push_back(std::move(document));
  policy_ = std::move(policy);
  op->RequestSchedule();
}

v1::WorkerSummary::Service WorkerState::Service() const {
  if (policy_.excluded()) return v1::WorkerSummary::EXCLUDED;
  if (!policy_.drained()) return v1::WorkerSummary::IN_SERVICE;
  return jobs_.empty() && occupied_.empty() ? v1::WorkerSummary::DRAINED
                                            : v1::WorkerSummary::DRAINING;
}

size_t WorkerState::AddFailure(const std::string& cause, absl::Time now,
                               absl::Duration window) {
  while (!failures_.empty() && (now - failures_.front().first > window ||
                                failures_.size() >= kMaxFailures)) {
    failures_.pop_front();
  }
  for (const auto& [time, known] : failures_) {
    if (known == cause) return 0;
  }
  failures_.push_back({now, cause});
  return failures_.size();
}

size_t WorkerState::CountFailures(absl::Time now, absl::Duration window) const {
  return std::count_if(
      failures_.begin(), failures_.end(),
      [&](const auto& failure) { return now - failure.first <= window; });
}

}  // namespace comera::server
