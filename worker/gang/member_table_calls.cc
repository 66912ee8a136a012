// Fills the calls to the coordinator and applies its acknowledgements.
#include <algorithm>
#include <utility>

#include "worker/gang/member_table.h"

namespace comera::worker {
namespace {

// The number of reports in one call.
constexpr size_t kMaxReports = 500;
// Their bytes in one call; a coordinator accepts 16 MiB at once, including logs
// and statuses.
constexpr size_t kMaxReportBytes = size_t{4} << 20;
// The bytes of ended members with a result, of which one has at most 1 MiB.
constexpr size_t kMaxResultBytes = size_t{2} << 20;

google::protobuf::Duration ToProtoDuration(absl::Duration duration) {
  google::protobuf::Duration result;
  absl::Duration rest;
  result.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  result.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return result;
}

}  // namespace

bool MemberTable::Fill(v1::SynchronizeRequest* request, bool cut_off,
                       bool disk_full) {
  ForgiveOwnPause();
  if (disk_full) {
    for (auto& [key, rank] : ranks_) {
      rank.progress_time = rank.heard_time = last_reconcile_;
    }
  }
  if (cut_off) {
    // A member waits for this call for its data, its checkpoint, or the others'
    // addresses.
    for (auto& [key, rank] : ranks_) {
      if (rank.status.stage() <= v1::PREPARING)
        rank.progress_time = last_reconcile_;
    }
  }
  bool news = false;
  const std::set<std::pair<std::string, int64_t>> unfinished =
      FillReports(request, &news);
  sent_.clear();
  size_t room = kMaxResultBytes;
  for (const auto& [key, rank] : ranks_) {
    v1::MemberStatus status = rank.status;
    const size_t bytes = status.has_result() ? status.ByteSizeLong() : 0;
    // What waits for the next call has not ended until then.
    news = news || bytes > room;
    const bool waits =
        bytes > room || unfinished.count({status.job(), status.attempt()}) > 0;
    if (status.phase() == v1::MemberStatus::EXITED && status.rank() == 0 &&
        waits) {
      status.set_phase(v1::MemberStatus::RUNNING);
      status.clear_failure();
      status.clear_result();
      status.clear_model();
      status.clear_target_models();
    } else {
      room -= std::min(room, bytes);
    }
    // Progress of steps and collectives can wait for the next call.
    news = news || status.phase() != rank.reported.phase();
    if (rank.process && !rank.result) {
      *status.mutable_stalled() =
          ToProtoDuration(last_reconcile_ - rank.progress_time);
      if (!rank.preparing) {
        *status.mutable_silent() =
            ToProtoDuration(last_reconcile_ - rank.heard_time);
      }
    }
    *request->add_members() = status;
    sent_[key] = std::move(status);
  }
  return news;
}

// Attempts take turns in coming first, with half of the room, into which any
// report fits. The others share the rest, so that one with many reports does
// not hold back those of others.
std::set<std::pair<std::string, int64_t>> MemberTable::FillReports(
    v1::SynchronizeRequest* request, bool* news) {
  std::set<std::pair<std::string, int64_t>> unfinished;
  size_t bytes = kMaxReportBytes;
  auto it = reports_.upper_bound(first_reported_);
  for (size_t left = reports_.size(); left > 0; --left, ++it) {
    if (it == reports_.end()) it = reports_.begin();
    auto& [key, queue] = *it;
    const bool first = left == reports_.size();
    if (first) first_reported_ = key;
    const size_t share = bytes / (first ? std::min<size_t>(left, 2) : left);
    size_t unused = share;
    if (!queue.Fill(key.first, key.second, kMaxReports, &unused,
                    request->mutable_reports())) {
      unfinished.insert(key);
    }
    bytes -= share - unused;
    *news = *news || queue.size() > 0;
  }
  return unfinished;
}

void MemberTable::OnResponse(const v1::SynchronizeResponse& response) {
  for (auto& [key, status] : sent_) {
    const auto it = ranks_.find(key);
    if (it != ranks_.end()) it->second.reported = std::move(status);
  }
  sent_.clear();
  for (const v1::ReportAck& ack : response.report_acks()) {
    const auto it = reports_.find({ack.job(), ack.attempt()});
    if (it != reports_.end()) it->second.Acknowledge(ack.number());
  }
  for (const v1::MemberKey& key : response.forget()) {
    const auto it = ranks_.find(KeyOf(key));
    if (it == ranks_.end() ||
        it->second.reported.phase() != v1::MemberStatus::EXITED) {
      continue;
    }
    forgotten_.push_back(it->second.id);
    if (key.rank() == 0) reports_.erase({key.job(), key.attempt()});
    ranks_.erase(it);
    const auto next = ranks_.lower_bound({key.job(), key.attempt(), 0});
    if (next == ranks_.end() || std::get<0>(next->first) != key.job() ||
        std::get<1>(next->first) != key.attempt()) {
      finished_attempts_.push_back({key.job(), key.attempt()});
    }
  }
  for (const v1::MemberKey& key : response.missing_models()) {
    const auto it = ranks_.find(KeyOf(key));
    if (it == ranks_.end() || it->second.process || it->second.uploading ||
        !it->second.result || !it->second.status.has_model()) {
      continue;
    }
    Member& rank = it->second;
    rank.uploading = true;
    rank.status.set_phase(v1::MemberStatus::RUNNING);
    rank.status.clear_result();
    rank.status.clear_model();
    rank.status.clear_target_models();
    upload_again_.insert(KeyOf(key));
  }
  kill_.clear();
  for (const v1::MemberKey& key : response.kill()) kill_.insert(KeyOf(key));
  for (const std::string& job : response.ended_jobs()) {
    finished_jobs_.insert(job);
  }
  gave_up_.clear();
  SetDesired(response.desired());
}

}  // namespace comera::worker
