// Turns troubles that workers report into incidents of their jobs.
#include "server/coordinator/synchronize/member_troubles.h"

#include <algorithm>

namespace comera::server {

void ApplyMemberTroubles(const v1::SynchronizeRequest& request, JobTable* jobs,
                         Operation* op) {
  for (const v1::MemberTrouble& trouble : request.troubles()) {
    JobEntry* entry = jobs->FindAttempt(trouble.job(), trouble.attempt());
    if (entry == nullptr) continue;
    const auto& members = entry->attempt().members();
    const bool has_member = std::any_of(
        members.begin(), members.end(), [&](const GangMember& member) {
          return member.RunsOn(request.worker(), request.incarnation());
        });
    if (has_member) entry->AddTrouble(trouble, op);
  }
}

}  // namespace comera::server
