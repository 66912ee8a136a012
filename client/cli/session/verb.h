// Describes a verb of the CLI: its arguments, and what it does.
#ifndef COMERA_CLIENT_CLI_SESSION_VERB_H_
#define COMERA_CLIENT_CLI_SESSION_VERB_H_

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace comera::client {

// The kind of things that an argument's value names, for completion in shells.
enum class Names {
  // Derived from the argument's name: a "job" is a job
  // (client/cli/shell/complete.cc).
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
  // A positional "file", or a flag "--rank" or "-f,--follow".
  std::string name;
  std::string help;
  // A bool is a switch; a vector can be given repeatedly.
  std::variant<bool*, int64_t*, std::string*, std::vector<std::string>*> target;
  bool required = false;
  // The only values allowed; empty allows any.
  std::vector<std::string> choices = {};
  Names names = Names::kByName;
  // Words that completion offers in addition to those of `names`.
  std::vector<std::string> suggestions = {};

  // Former names of a flag, which are read but shown nowhere; using one writes
  // a note to stderr.
  std::vector<std::string> former_names = {};

  bool is_flag() const { return name[0] == '-'; }
};

struct Verb {
  std::string name;
  std::string help;
  std::vector<Argument> arguments;
  // Runs the verb and returns the exit code. Called at most once, after
  // parsing.
  std::function<int()> run;
  // Shown below the help; may be empty.
  std::string examples = "";
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_VERB_H_
