#ifndef COMERA_WORKER_GANG_MEMBER_ENVIRONMENT_H_
#define COMERA_WORKER_GANG_MEMBER_ENVIRONMENT_H_

#include <string>
#include <string_view>
#include <vector>

namespace comera::worker {

// Whether a member inherits this variable from the daemon: only variables of
// the system, of the libraries that members use, and of sanitizers pass. All
// others, tokens above all, stay with the daemon.
bool MembersMayHave(std::string_view name);

// The environment of a member: `added` (KEY=VALUE), and the variables of `own`
// that it may inherit and `added` does not replace.
std::vector<std::string> MemberEnvironment(
    const char* const* own, const std::vector<std::string>& added);

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_ENVIRONMENT_H_
