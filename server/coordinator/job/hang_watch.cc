// Implements HangWatch: compares the progress of the members of a gang.
#include "server/coordinator/job/hang_watch.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "server/coordinator/job/gang_member.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr size_t kMaxActivityBytes = 200;
constexpr int32_t kMaxMembers = 65536;
// The longest step seen shrinks by a tenth with each report.
constexpr double kForget = 0.9;

std::string Rounded(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Seconds(1)));
}

}  // namespace

void HangWatch::Observe(const v1::MemberStatus& status, absl::Time now) {
  if (status.rank() < 0 || status.rank() >= kMaxMembers) return;
  if (static_cast<size_t>(status.rank()) >= members_.size()) {
    members_.resize(status.rank() + 1);
  }
  Seen& seen = members_[status.rank()];
  seen.reported = true;
  seen.status.set_rank(status.rank());
  seen.status.set_phase(status.phase());
  seen.status.set_step(status.step());
  seen.status.set_collectives(status.collectives());
  seen.status.set_collectives_begun(
      std::max(status.collectives_begun(), status.collectives()));
  seen.status.set_stage(status.stage());
  seen.status.set_activity(TruncateUtf8(status.activity(), kMaxActivityBytes));
  seen.stalled = FromProtoDuration(status.stalled());
  seen.silent = FromProtoDuration(status.silent());
  const absl::Time when = now - seen.stalled;
  if (status.step() > last_step_) {
    if (last_step_ > 0 && when > last_step_time_) {
      const absl::Duration each =
          (when - last_step_time_) /
          static_cast<double>(status.step() - last_step_);
      step_time_ = std::max(each, kForget * step_time_);
    }
    last_step_ = status.step();
    last_step_time_ = when;
  }
}

absl::Duration HangWatch::Limit(const Options& options,
                                const Seen& seen) const {
  const bool steps =
      seen.status.stage() == v1::EARLY || seen.status.stage() == v1::LATE;
  const absl::Duration stall =
      std::max(options.stall_after, options.steps * step_time_);
  if (steps && seen.status.activity().empty() &&
      step_time_ > absl::ZeroDuration()) {
    return stall;
  }
  return std::max(stall, options.busy_stall_after);
}

std::optional<HangWatch::Hang> HangWatch::Find(
    const Options& options, const AttemptRecord& attempt) const {
  const Seen* silent = nullptr;
  std::vector<const Seen*> live;
  bool all_known = true;
  for (int i = 0; i < attempt.members_size(); ++i) {
    if (HasEnded(attempt.members(i))) continue;
    if (static_cast<size_t>(i) >= members_.size() || !members_[i].reported ||
        members_[i].status.phase() != v1::MemberStatus::RUNNING) {
      all_known = false;  // The deadline for starting is watched elsewhere.
      continue;
    }
    const Seen& seen = members_[i];
    live.push_back(&seen);
    if (seen.silent >= options.stall_after &&
        (silent == nullptr || seen.silent > silent->silent)) {
      silent = &seen;
    }
  }
  const auto describe = [&](const Seen& seen, const std::string& what) {
    const bool inside =
        seen.status.collectives_begun() > seen.status.collectives();
    std::string message = absl::StrCat("member ", seen.status.rank(), " ", what,
                                       ": at step ", seen.status.step(), ", ",
                                       inside ? "in" : "before", " collective ",
                                       inside ? seen.status.collectives_begun()
                                              : seen.status.collectives() + 1);
    if (!seen.status.activity().empty()) {
      absl::StrAppend(&message, ", ", seen.status.activity());
    }
    return Hang{seen.status.rank(), message};
  };
  if (silent != nullptr) {
    return describe(*silent, absl::StrCat("has given no sign of life for ",
                                          Rounded(silent->silent)));
  }
  if (live.empty() || !all_known) return std::nullopt;
  const auto progress = [](const Seen* seen) {
    return std::make_tuple(seen->status.collectives_begun(),
                           seen->status.collectives(), seen->status.step());
  };
  const auto [least, most] = std::minmax_element(
      live.begin(), live.end(),
      [&](const Seen* a, const Seen* b) { return progress(a) < progress(b); });
  const Seen& stuck = **least;
  const absl::Duration limit = Limit(options, stuck);
  for (const Seen* seen : live) {
    // If several are equally far behind, the others may wait for the one that
    // still has time.
    const absl::Duration least_stall =
        progress(seen) == progress(&stuck)
            ? Limit(options, *seen)
            : std::min(limit, options.stall_after);
    if (seen->stalled < least_stall) return std::nullopt;
  }
  if (stuck.stalled < limit) return std::nullopt;
  const std::string what =
      absl::StrCat("has stood still for ", Rounded(stuck.stalled));
  Hang hang = describe(stuck, what);
  if (live.size() > 1 && progress(*least) == progress(*most) &&
      stuck.status.collectives_begun() > stuck.status.collectives()) {
    return Hang{-1, absl::StrCat("all members have waited in collective ",
                                 stuck.status.collectives_begun(), " for ",
                                 Rounded(stuck.stalled), ", at step ",
                                 stuck.status.step())};
  }
  if (live.size() > 1) {
    absl::StrAppend(&hang.message, "; the others wait in collective ",
                    (*most)->status.collectives_begun());
  }
  return hang;
}

}  // namespace comera::server
