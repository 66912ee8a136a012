// Spells flags as the program declares them.

#include "common/flag_names.h"

#include <algorithm>

namespace comera {

std::vector<std::string> WithKnownFlags(
    int argc, const char* const* argv,
    const std::function<bool(const std::string& flag)>& known) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    if (argument.rfind("--", 0) != 0) continue;
    const size_t end = std::min(argument.find('='), argument.size());
    std::string flag = argument.substr(0, end);
    if (known(flag)) continue;
    std::replace(flag.begin() + 2, flag.end(), '-', '_');
    if (known(flag)) argument.replace(0, end, flag);
  }
  return arguments;
}

}  // namespace comera
