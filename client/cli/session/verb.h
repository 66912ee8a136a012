// A verb of the CLI: its arguments, and what it does.
#ifndef COMERA_CLIENT_CLI_SESSION_VERB_H_
#define COMERA_CLIENT_CLI_SESSION_VERB_H_

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace comera::client {

// What a value names, for completion in shells.
enum class Names {
  // As the argument is called: a "job" is a job (client/cli/shell/complete.cc).
  kByName,
  kNothing,
  kFile,
  kFolder,
  kJob,
  kSweep,
  kJobOrSweep,
  kModel,
  kDataset,
  kWorker,
  kQueue,
  kVerb,
};

// One flag or positional argument; the parser writes through `target`.
struct Argument {
  // "file" (positional), "--rank", or "-f,--follow".
  std::string name;
  std::string help;
  // bool: a switch; vectors: repeatable.
  std::variant<bool*, int64_t*, std::string*, std::vector<std::string>*> target;
  bool required = false;
  // If not empty, the only values.
  std::vector<std::string> choices = {};
  Names names = Names::kByName;
  // Words that completion offers beside what `names` says.
  std::vector<std::string> suggestions = {};

  // Former names of a flag, which are read but shown nowhere; using one writes a
  // note to stderr.
  std::vector<std::string> former_names = {};

  bool is_flag() const { return name[0] == '-'; }
};

struct Verb {
  std::string name;
  std::string help;
  std::vector<Argument> arguments;
  // Returns the exit code. Called after parsing, at most once.
  std::function<int()> run;
  // Shown below the help; empty: none.
  std::string examples = "";
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_VERB_H_
