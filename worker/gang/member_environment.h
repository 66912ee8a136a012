#ifndef COMERA_WORKER_GANG_MEMBER_ENVIRONMENT_H_
#define COMERA_WORKER_GANG_MEMBER_ENVIRONMENT_H_

#include <string>
#include <string_view>
#include <vector>

namespace comera::worker {

// Whether ranks get this variable of the daemon's environment: those of the
// system, of the libraries that ranks use and of sanitizers. All others, tokens
// above all, stay with the daemon.
bool RanksMayHave(std::string_view name);

// `added` (KEY=VALUE), and of `own` what ranks may have and `added` does not
// replace.
std::vector<std::string> MemberEnvironment(
    const char* const* own, const std::vector<std::string>& added);

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_ENVIRONMENT_H_
