// Checks the sizes, names and numbers of a worker's report.
#include "server/coordinator/synchronize/synchronize_validation.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/host_port.h"
#include "proto/resource_names.h"

namespace comera::server {
namespace {

constexpr int kMaxSlots = 1024;
constexpr int kMaxMembers = 65536;
constexpr int kMaxReports = 65536;
constexpr int kMaxRendezvous = 65536;
constexpr int kMaxCheckpoints = 16384;
constexpr int kMaxTroubles = 1024;
constexpr size_t kMaxKeyBytes = 512;
constexpr size_t kMaxValueBytes = 256 << 10;
// The limit of texts for people.
constexpr size_t kMaxReasonBytes = 4096;
constexpr size_t kMaxNameBytes = 256;
constexpr int64_t kMaxLogOffset = int64_t{1} << 60;

absl::Status Bad(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

absl::Status CheckJob(const std::string& field, const std::string& job,
                      int64_t attempt) {
  if (!ParseJobName(job)) {
    return Bad(absl::StrCat(field, ".job"), "malformed job name");
  }
  if (attempt < 1)
    return Bad(absl::StrCat(field, ".attempt"), "must be positive");
  return absl::OkStatus();
}

template <typename Entries>
absl::Status CheckJobs(const char* field, const Entries& entries, int limit) {
  if (entries.size() > limit) {
    return Bad(field, absl::StrCat("more than ", limit, " entries"));
  }
  for (int i = 0; i < entries.size(); ++i) {
    absl::Status status =
        CheckJob(absl::StrCat(field, "[", i, "]"), entries.Get(i).job(),
                 entries.Get(i).attempt());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSynchronize(const v1::SynchronizeRequest& request) {
  if (!IsResourceId(request.worker())) {
    return Bad("worker", "must match [a-z0-9-]{1,63}");
  }
  if (request.incarnation().empty() ||
      request.incarnation().size() > kMaxNameBytes) {
    return Bad("incarnation", "must have 1 to 256 bytes");
  }
  if (request.daemon().size() > kMaxNameBytes) return Bad("daemon", "too long");
  if (request.host().size() > kMaxNameBytes) return Bad("host", "too long");
  if (request.rack().size() > kMaxNameBytes) return Bad("rack", "too long");
  if (request.version().size() > kMaxNameBytes) {
    return Bad("version", "too long");
  }
  if (request.slots_size() > kMaxSlots) {
    return Bad("slots", absl::StrCat("more than ", kMaxSlots));
  }
  std::set<int32_t> slots;
  for (const v1::Slot& slot : request.slots()) {
    if (slot.index() < 0 || !slots.insert(slot.index()).second) {
      return Bad("slots", absl::StrCat("bad or repeated index ", slot.index()));
    }
    if (slot.unfit().size() > kMaxReasonBytes) {
      return Bad("slots.unfit", "too long");
    }
    const v1::Gpu& gpu = slot.gpu();
    if (gpu.uuid().size() > kMaxNameBytes ||
        gpu.name().size() > kMaxNameBytes ||
        gpu.pci_bus_id().size() > kMaxNameBytes ||
        gpu.topology().size() > kMaxReasonBytes) {
      return Bad("slots.gpu", "too long");
    }
  }
  for (absl::Status status :
       {CheckJobs("members", request.members(), kMaxMembers),
        CheckJobs("reports", request.reports(), kMaxReports),
        CheckJobs("logs", request.logs(), kMaxReports),
        CheckJobs("rendezvous", request.rendezvous(), kMaxRendezvous),
        CheckJobs("troubles", request.troubles(), kMaxTroubles)}) {
    if (!status.ok()) return status;
  }
  for (const v1::MemberTrouble& trouble : request.troubles()) {
    if (trouble.message().empty() ||
        trouble.message().size() > kMaxReasonBytes) {
      return Bad("troubles.message", "must have 1 to 4096 bytes");
    }
  }
  // Callers with tokens and other workers connect to it.
  if (!request.peer_address().empty() &&
      (request.peer_address().size() > kMaxNameBytes ||
       !IsHostPort(request.peer_address()))) {
    return Bad("peer_address", "must be host:port, IPv6 in brackets");
  }
  if (request.checkpoints_size() > kMaxCheckpoints) {
    return Bad("checkpoints", absl::StrCat("more than ", kMaxCheckpoints));
  }
  for (const v1::HeldCheckpoint& held : request.checkpoints()) {
    if (!ParseJobName(held.job())) {
      return Bad("checkpoints.job", "malformed job name");
    }
    if (held.step() < 0 || held.size_bytes() < 0 || held.attempt() < 0) {
      return Bad("checkpoints", "negative step, size or attempt");
    }
  }
  for (const v1::MemberStatus& member : request.members()) {
    if (member.phase() == v1::MemberStatus::PHASE_UNSPECIFIED) {
      return Bad("members.phase", "unset");
    }
    if (!v1::MemberStatus::Phase_IsValid(member.phase())) {
      return Bad("members.phase", "unknown");
    }
  }
  for (const v1::ProgressReport& report : request.reports()) {
    if (report.number() < 1) return Bad("reports.number", "must be positive");
  }
  for (const v1::LogChunk& chunk : request.logs()) {
    if (chunk.offset() < 0 || chunk.offset() > kMaxLogOffset ||
        chunk.rank() < 0) {
      return Bad("logs", "offset or rank out of range");
    }
  }
  for (const v1::RendezvousEntry& entry : request.rendezvous()) {
    if (entry.key().empty() || entry.key().size() > kMaxKeyBytes) {
      return Bad("rendezvous.key", "must have 1 to 512 bytes");
    }
    if (entry.value().size() > kMaxValueBytes) {
      return Bad("rendezvous.value", "larger than 256 KiB");
    }
  }
  return absl::OkStatus();
}

}  // namespace comera::server
