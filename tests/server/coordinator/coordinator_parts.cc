// Builds jobs and workers for tests of the coordinator's parts.
#include "tests/server/coordinator/coordinator_parts.h"

#include <utility>

#include "proto/job_defaults.h"
#include "proto/resource_names.h"
#include "server/rpc/proto_time.h"
#include "tests/server/test_spec.h"

namespace comera::server {

JobEntry& CoordinatorParts::AddJob(const std::string& id, int processes,
                                   const std::vector<std::string>& runners) {
  JobRecord record;
  for (const std::string& worker : runners) record.add_state_runners(worker);
  record.set_serial(jobs.last_serial() + 1);
  v1::Job& job = *record.mutable_job();
  job.set_name(JobName(id));
  *job.mutable_spec() = WithDefaults(TestSpec(processes));
  *job.mutable_create_time() = ToTimestamp(now);
  JobEntry& entry = *jobs.Add(std::move(record));
  Operation op(now, &effects);
  entry.SetState(v1::QUEUED, "waiting", &op);
  return entry;
}

v1::SynchronizeRequest CoordinatorParts::Report(const std::string& worker,
                                                int slots) const {
  v1::SynchronizeRequest request;
  request.set_worker(worker);
  request.set_incarnation("i1");
  request.set_host(worker);
  for (int i = 0; i < slots; ++i) {
    v1::Slot* slot = request.add_slots();
    slot->set_index(i);
    slot->set_device(v1::ResourceSpec::CPU);
  }
  return request;
}

WorkerState& CoordinatorParts::AddWorker(const std::string& id, int slots) {
  WorkerState& worker = *workers.FindOrAdd(id);
  worker.ReplaceIncarnation("i1");
  worker.ApplyReport(Report(id, slots), now, options.suspect_after);
  return worker;
}

JobEntry& CoordinatorParts::StartJob(const std::string& id,
                                     const std::string& worker, int processes) {
  JobEntry& entry = AddJob(id, processes);
  std::vector<MemberSlot> gang;
  for (int i = 0; i < processes; ++i) gang.push_back({worker, i});
  Operation op(now, &effects);
  lifecycle.Place(entry, gang, &op);
  return entry;
}

}  // namespace comera::server
