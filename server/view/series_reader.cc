// Answers ReadSeries from cached figures and new events.
#include "server/view/series_reader.h"

#include <algorithm>
#include <utility>

namespace comera::server {

void SeriesReader::Read(v1::ReadSeriesRequest request, int64_t last_sequence,
                        Done done) {
  Waiting waiting;
  waiting.request = std::move(request);
  waiting.last_sequence = last_sequence;
  waiting.done = std::move(done);
  loop_.Post([this, waiting = std::move(waiting)]() mutable {
    Take(std::move(waiting));
  });
}

void SeriesReader::Take(Waiting waiting) {
  const std::string name = waiting.request.name();
  const auto [known, is_new] = jobs_.try_emplace(name);
  Job& job = known->second;
  if (is_new) {
    job.recent = recent_.insert(recent_.begin(), name);
  } else {
    recent_.splice(recent_.begin(), recent_, job.recent);
  }
  job.waiting.push_back(std::move(waiting));
  if (job.reading) return;
  if (job.table.rows() > options_.max_rows) {
    job.table = SeriesTable();
    job.through = job.seen = 0;
  }
  Answer(&job);
  if (!job.waiting.empty()) ReadPage(name);
}

void SeriesReader::ReadPage(const std::string& name) {
  Job& job = jobs_[name];
  job.reading = true;
  int64_t last = 0;
  for (const Waiting& waiting : job.waiting) {
    last = std::max(last, waiting.last_sequence);
  }
  read_store_([this, name, after = job.seen, last](JobStore* store) {
    auto events = store->ReadEvents(name, after, last, options_.page);
    loop_.Post([this, name, last, events = std::move(events)]() mutable {
      AddPage(name, last, std::move(events));
    });
  });
}

void SeriesReader::AddPage(const std::string& name, int64_t last,
                           absl::StatusOr<std::vector<v1::JobEvent>> events) {
  Job& job = jobs_[name];
  job.reading = false;
  if (!events.ok()) {
    std::vector<Waiting> failed = std::move(job.waiting);
    job.waiting.clear();
    for (Waiting& waiting : failed) waiting.done(events.status());
    return;
  }
  for (const v1::JobEvent& event : *events) job.table.Add(event);
  if (!events->empty()) job.seen = events->back().sequence();
  if (static_cast<int>(events->size()) < options_.page) {
    job.seen = job.through = std::max(job.through, last);
    Answer(&job);
  }
  if (!job.waiting.empty()) ReadPage(name);
  Evict();
}

void SeriesReader::Answer(Job* job) {
  std::vector<Waiting> later;
  for (Waiting& waiting : job->waiting) {
    if (waiting.last_sequence > job->through) {
      later.push_back(std::move(waiting));
      continue;
    }
    v1::JobSeries series = job->table.Read(waiting.request);
    series.set_last_sequence(job->through);
    waiting.done(std::move(series));
  }
  job->waiting = std::move(later);
}

void SeriesReader::Evict() {
  size_t bytes = 0;
  for (auto name = recent_.begin(); name != recent_.end();) {
    const auto job = jobs_.find(*name);
    bytes += job->second.table.bytes();
    if (bytes <= options_.max_bytes || name == recent_.begin() ||
        job->second.reading) {
      ++name;
      continue;
    }
    name = recent_.erase(name);
    jobs_.erase(job);
  }
}

}  // namespace comera::server
