// Fuzzes what a worker's daemon reads of its members, whose processes may have
// come under somebody's control: the files of their events, and the records
// that an earlier daemon left. The first byte chooses which one.
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/gang/event_line.h"
#include "worker/gang/gang_member.h"
#include "worker/gang/member_record.pb.h"
#include "worker/gang/member_records.h"
#include "worker/gang/member_table.h"

namespace comera::worker {
namespace {

constexpr GangMembers::Id kId = 7;
constexpr size_t kMostLine = size_t{1} << 20;
constexpr size_t kMostTail = 1024;
constexpr size_t kMostActivity = 200;
constexpr size_t kMostText = 4096;

void Check(bool good, const char* what) {
  if (!good) FuzzFailure(what);
}

MemberTable NewTable() {
  return MemberTable({v1::Slot()}, [] { return absl::UnixEpoch(); });
}

// Checks the call in which the coordinator is told all of that.
void CheckCall(MemberTable* table) {
  v1::SynchronizeRequest request;
  table->Fill(&request);
  int64_t last = 0;
  for (const v1::ProgressReport& report : request.reports()) {
    Check(report.number() > last, "reports out of order");
    last = report.number();
  }
  for (const v1::MemberStatus& status : request.members()) {
    Check(status.activity().size() <= kMostActivity, "a long activity");
    Check(status.failure().message().size() <= kMostText &&
              status.failure().log_tail().size() <= kMostText &&
              status.log_tail().size() <= kMostText,
          "a long failure");
  }
  // One string that is not UTF-8, and nothing of the call would be read.
  v1::SynchronizeRequest again;
  Check(again.ParseFromString(request.SerializeAsString()),
        "a call that cannot be read");
  table->ListSettled();
}

// Reads a member's events as a daemon does.
class Reader : public GangMembers::Observer {
 public:
  Reader(MemberTable* table, int64_t size) : table_(table), size_(size) {}

  bool OnLine(GangMembers::Id id, std::string_view line, int64_t end) override {
    Check(id == kId && line.size() <= kMostLine, "a line of no member");
    Check(end > last_ && end <= size_, "a line that ends elsewhere");
    last_ = end;
    const std::optional<v1::TrainerEvent> event = ParseEventLine(line);
    if (!event) return false;
    Check(table_->OnEvent(id, *event, end), "an event of no member");
    return true;
  }
  void OnLogGrown(GangMembers::Id) override {}
  void OnExit(GangMembers::Id, const MemberExit& exit) override {
    exit_.set_value(exit);
  }

  // How the member ended, once it has; may be called once.
  std::future<MemberExit> End() { return exit_.get_future(); }

 private:
  MemberTable* const table_;
  const int64_t size_;
  int64_t last_ = 0;
  std::promise<MemberExit> exit_;
};

void Events(const std::string& events) {
  MemberRecord record;
  record.set_id(kId);
  record.mutable_assignment()->set_job("jobs/a");
  record.mutable_assignment()->set_attempt(1);
  record.mutable_assignment()->set_world_size(1);
  MemberTable table = NewTable();
  table.Adopt(record);
  Reader reader(&table, static_cast<int64_t>(events.size()));
  GangMembers::Options options;
  options.out_of_memory_kills = [] { return int64_t{0}; };
  auto members = GangMembers::Start(options, &reader);
  if (!members.ok()) FuzzFailure(members.status().ToString());
  // One that has ended before.
  AdoptedMember member;
  member.events_path = FuzzFile(events);
  member.log_path = FuzzFile("", 1);
  (*members)->Adopt(kId, member);
  std::future<MemberExit> end = reader.End();
  while (end.wait_for(std::chrono::milliseconds(1)) !=
         std::future_status::ready) {
    // Wakes the thread, which looks at files every 20 ms only.
    (*members)->ForgetEvents(kId, 0);
  }
  const MemberExit exit = end.get();
  members->reset();
  Check(exit.log_tail.size() <= kMostTail, "a long end of the log");
  CheckCall(&table);
  table.OnExit(kId, exit, absl::UnixEpoch());
  CheckCall(&table);
}

void Records(const std::string& bytes) {
  NamedFuzzFile("7.member", bytes);
  MemberTable table = NewTable();
  for (const MemberRecord& record : MemberRecords(FuzzFolder()).Load()) {
    Check(record.id() == kId, "a record of another member");
    Check(!MemberRecords::CanBeAdopted(record) || record.survives(),
          "a member that did not survive");
    table.Adopt(record);
    Check(table.OnEvent(kId, v1::TrainerEvent(), record.events_offset()),
          "a member that is not known");
  }
  CheckCall(&table);
}

}  // namespace
}  // namespace comera::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  comera::FuzzInput input(data, size);
  if (input.Choose(2) == 0) {
    comera::worker::Events(input.Rest());
  } else {
    comera::worker::Records(input.Rest());
  }
  return 0;
}
