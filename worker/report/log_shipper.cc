// Reads logs piecewise and tracks how far the coordinator has acknowledged
// them.

#include "worker/report/log_shipper.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

namespace comera::worker {
namespace {

// A coordinator that accepts nothing of an ended log for this many calls (a
// minute or more) does not know the job.
constexpr int kMaxIgnored = 600;

// Reads at most `limit` bytes of the file from `offset`.
std::string ReadFrom(const std::string& path, int64_t offset, size_t limit) {
  std::string data(limit, '\0');
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t n = pread(fd, data.data(), data.size(), offset);
  close(fd);
  data.resize(std::max<ssize_t>(n, 0));
  return data;
}

}  // namespace

void LogShipper::Begin(const v1::MemberKey& rank, const std::string& path) {
  logs_[{rank.job(), rank.attempt(), rank.rank()}].path = path;
}

void LogShipper::End(const v1::MemberKey& rank) {
  const auto it = logs_.find({rank.job(), rank.attempt(), rank.rank()});
  if (it != logs_.end()) it->second.ended = true;
}

bool LogShipper::Fill(
    size_t limit, google::protobuf::RepeatedPtrField<v1::LogChunk>* chunks) {
  bool any = false;
  size_t left = logs_.size();
  for (auto it = logs_.begin(); it != logs_.end(); --left) {
    Log& log = it->second;
    // Gives each log a fair share, so that one verbose member does not starve
    // the others.
    std::string data = ReadFrom(log.path, log.acknowledged, limit / left);
    log.sent = !data.empty();
    if (!log.sent && log.ended) {
      it = logs_.erase(it);
      continue;
    }
    if (log.sent) {
      any = true;
      limit -= data.size();
      v1::LogChunk* chunk = chunks->Add();
      chunk->set_job(std::get<0>(it->first));
      chunk->set_attempt(std::get<1>(it->first));
      chunk->set_rank(std::get<2>(it->first));
      chunk->set_offset(log.acknowledged);
      *chunk->mutable_data() = std::move(data);
    }
    ++it;
  }
  return any;
}

void LogShipper::OnResponse(
    const google::protobuf::RepeatedPtrField<v1::LogAck>& acks) {
  for (auto& [key, log] : logs_) {
    if (log.sent) ++log.ignored;
  }
  for (const v1::LogAck& ack : acks) {
    const auto it = logs_.find({ack.job(), ack.attempt(), ack.rank()});
    if (it == logs_.end() || ack.offset() < 0) continue;
    // A coordinator that has less than it acknowledged asks for the rest again.
    if (ack.offset() != it->second.acknowledged) it->second.ignored = 0;
    it->second.acknowledged = ack.offset();
  }
  for (auto it = logs_.begin(); it != logs_.end();) {
    it = it->second.ended && it->second.ignored >= kMaxIgnored ? logs_.erase(it)
                                                               : std::next(it);
  }
}

}  // namespace comera::worker
