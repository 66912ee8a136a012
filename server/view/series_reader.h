#ifndef COMERA_SERVER_VIEW_SERIES_READER_H_
#define COMERA_SERVER_VIEW_SERIES_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/training_service.pb.h"
#include "server/runtime/event_loop.h"
#include "server/store/job_store.h"
#include "server/view/series_table.h"

namespace comera::server {

// Answers ReadSeries from the store's events. What was read of a job stays in
// memory while there is room, so that who asks again costs the store only the
// events that came since, and computing goes on a thread of its own.
//
// Thread-safe. Every read must be answered before the reader goes, and before
// what it reads with goes.
class SeriesReader {
 public:
  struct Options {
    // What all jobs together may take; the job asked for last always stays.
    size_t max_bytes = 64 << 20;
    // What one job may have; what grows beyond is read anew from the store,
    // which thins.
    size_t max_rows = 1 << 16;
    // Events read in one go: writes wait meanwhile.
    int page = 500;
  };
  // Calls back on the store's thread, soon.
  using ReadStore = std::function<void(std::function<void(JobStore*)>)>;
  using Done = std::function<void(absl::StatusOr<v1::JobSeries>)>;

  SeriesReader(const Options& options, ReadStore read_store)
      : options_(options), read_store_(std::move(read_store)) {}

  // `request` was checked; `last_sequence`: of the job's newest event. Calls
  // back on the reader's thread, with errors of JobStore::ReadEvents.
  void Read(v1::ReadSeriesRequest request, int64_t last_sequence, Done done);

 private:
  struct Waiting {
    v1::ReadSeriesRequest request;
    int64_t last_sequence = 0;
    Done done;
  };
  struct Job {
    SeriesTable table;
    // All events up to this one are in the table.
    int64_t through = 0;
    // The number of the newest event seen.
    int64_t seen = 0;
    bool reading = false;
    std::vector<Waiting> waiting;
    // Its place in recent_.
    std::list<std::string>::iterator recent;
  };

  // On the loop.
  void Take(Waiting waiting);
  void ReadPage(const std::string& name);
  void AddPage(const std::string& name, int64_t last,
               absl::StatusOr<std::vector<v1::JobEvent>> events);
  void Answer(Job* job);
  void Evict();

  const Options options_;
  const ReadStore read_store_;
  // Loop only.
  std::map<std::string, Job> jobs_;
  // Names in jobs_, the one asked for last first.
  std::list<std::string> recent_;
  // Last: its thread uses the rest.
  EventLoop loop_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_VIEW_SERIES_READER_H_
