// What a call to the coordinator carries, and what its answer changes.
#include <utility>

#include "worker/gang/rank_table.h"

namespace comera::worker {
namespace {

// Reports in one call.
constexpr size_t kMaxReports = 500;
// And in bytes: a coordinator takes 16 MiB at once, logs and statuses included.
constexpr size_t kMaxReportBytes = size_t{4} << 20;

google::protobuf::Duration ToProtoDuration(absl::Duration duration) {
  google::protobuf::Duration result;
  absl::Duration rest;
  result.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  result.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return result;
}

}  // namespace

bool RankTable::Fill(v1::SynchronizeRequest* request, bool cut_off) {
  ForgiveOwnPause();
  if (cut_off) {
    // Their data, a checkpoint, or the others' addresses come through it.
    for (auto& [key, rank] : ranks_) {
      if (rank.status.stage() <= v1::PREPARING) rank.progress_time = last_look_;
    }
  }
  bool news = false;
  size_t bytes = kMaxReportBytes;
  std::set<std::pair<std::string, int64_t>> unfinished;
  for (auto& [key, queue] : reports_) {
    if (!queue.Fill(key.first, key.second, kMaxReports, &bytes,
                    request->mutable_reports())) {
      unfinished.insert(key);
    }
    news = news || queue.size() > 0;
  }
  sent_.clear();
  for (const auto& [key, rank] : ranks_) {
    v1::RankStatus status = rank.status;
    if (status.phase() == v1::RankStatus::EXITED && status.rank() == 0 &&
        unfinished.count({status.job(), status.epoch()}) > 0) {
      status.set_phase(v1::RankStatus::RUNNING);
      status.clear_failure();
      status.clear_result();
      status.clear_model();
      status.clear_target_models();
    }
    // Steps and collectives may wait for the next occasion.
    news = news || status.phase() != rank.told.phase();
    if (rank.process && !rank.result) {
      *status.mutable_stalled() =
          ToProtoDuration(last_look_ - rank.progress_time);
      if (!rank.preparing) {
        *status.mutable_silent() =
            ToProtoDuration(last_look_ - rank.heard_time);
      }
    }
    *request->add_ranks() = status;
    sent_[key] = std::move(status);
  }
  return news;
}

void RankTable::OnAnswer(const v1::SynchronizeResponse& response) {
  for (auto& [key, status] : sent_) {
    const auto it = ranks_.find(key);
    if (it != ranks_.end()) it->second.told = std::move(status);
  }
  sent_.clear();
  for (const v1::ReportAck& ack : response.report_acks()) {
    const auto it = reports_.find({ack.job(), ack.epoch()});
    if (it != reports_.end()) it->second.Acknowledge(ack.number());
  }
  for (const v1::RankKey& key : response.forget()) {
    const auto it = ranks_.find(KeyOf(key));
    if (it == ranks_.end() ||
        it->second.told.phase() != v1::RankStatus::EXITED) {
      continue;
    }
    if (key.rank() == 0) reports_.erase({key.job(), key.epoch()});
    ranks_.erase(it);
    const auto next = ranks_.lower_bound({key.job(), key.epoch(), 0});
    if (next == ranks_.end() || std::get<0>(next->first) != key.job() ||
        std::get<1>(next->first) != key.epoch()) {
      finished_epochs_.push_back({key.job(), key.epoch()});
    }
  }
  for (const v1::RankKey& key : response.missing_models()) {
    const auto it = ranks_.find(KeyOf(key));
    if (it == ranks_.end() || it->second.process || it->second.uploading ||
        !it->second.result || !it->second.status.has_model()) {
      continue;
    }
    Rank& rank = it->second;
    rank.uploading = true;
    rank.status.set_phase(v1::RankStatus::RUNNING);
    rank.status.clear_result();
    rank.status.clear_model();
    rank.status.clear_target_models();
    upload_again_.insert(KeyOf(key));
  }
  kill_.clear();
  for (const v1::RankKey& key : response.kill()) kill_.insert(KeyOf(key));
  for (const std::string& job : response.ended_jobs()) {
    finished_jobs_.insert(job);
  }
  gave_up_.clear();
  SetDesired(response.desired());
}

}  // namespace comera::worker
