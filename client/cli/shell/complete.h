// What may follow on a command line, for completion in shells.
#ifndef COMERA_CLIENT_CLI_SHELL_COMPLETE_H_
#define COMERA_CLIENT_CLI_SHELL_COMPLETE_H_

#include <functional>
#include <string>
#include <vector>

#include "client/cli/session/verb.h"

namespace comera::client {

struct Candidate {
  std::string word;
  // One line for people; may be empty.
  std::string description;
};

struct Completion {
  std::vector<Candidate> candidates;
  // Names of files, or of folders only, fit as well.
  bool files = false;
  bool folders = false;
};

// The names of one kind that the coordinator knows. `verb`: for which verb, as
// some ask for jobs in certain states only.
using NameSource =
    std::function<std::vector<Candidate>(Names names, const std::string& verb)>;

// `words` are those after the program's name; the last one, which may be empty,
// is being typed. Values of flags in `globals` are stored, so that `names` asks
// the server that the line names.
Completion Complete(const std::vector<Verb>& verbs,
                    const std::vector<Argument>& globals,
                    const std::vector<std::string>& words,
                    const NameSource& names);

// What a shell's script reads: a line with "files", "folders" or "words", then
// a line for each candidate, its description after a tab.
std::string CompletionText(const Completion& completion);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SHELL_COMPLETE_H_
