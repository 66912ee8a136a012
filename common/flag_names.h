// Flags of the daemons under both of their spellings.
#ifndef COMERA_COMMON_FLAG_NAMES_H_
#define COMERA_COMMON_FLAG_NAMES_H_

#include <functional>
#include <string>
#include <vector>

namespace comera {

// The arguments after the program's name, in which a flag that is not `known`
// is written as the known one that has underscores in place of dashes:
// --data-dir becomes --data_dir. What follows `--` stays as it is.
std::vector<std::string> WithKnownFlags(
    int argc, const char* const* argv,
    const std::function<bool(const std::string& flag)>& known);

}  // namespace comera

#endif  // COMERA_COMMON_FLAG_NAMES_H_
