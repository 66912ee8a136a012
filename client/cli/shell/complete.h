// Computes the completions of a command line for shells.
#ifndef COMERA_CLIENT_CLI_SHELL_COMPLETE_H_
#define COMERA_CLIENT_CLI_SHELL_COMPLETE_H_

#include <functional>
#include <string>
#include <vector>

#include "client/cli/session/verb.h"

namespace comera::client {

// A word that may come next.
struct Candidate {
  std::string word;
  // A one-line explanation for people; may be empty.
  std::string description;
};

// The candidates, and whether files fit too.
struct Completion {
  std::vector<Candidate> candidates;
  // Whether names of files, or of folders only, fit as well.
  bool files = false;
  bool folders = false;
};

// Returns the names of one kind that the coordinator knows. `verb` is the verb
// to complete, since some verbs apply to jobs in certain states only.
using NameSource =
    std::function<std::vector<Candidate>(Names names, const std::string& verb)>;

// Completes the last of `words`, which may be empty; `words` are those after
// the program's name. Values of flags in `globals` are stored, so that `names`
// asks the server that the command line names.
Completion Complete(const std::vector<Verb>& verbs,
                    const std::vector<Argument>& globals,
                    const std::vector<std::string>& words,
                    const NameSource& names);

// The text that shells' scripts read: a line with "files", "folders" or
// "words", then a line for each candidate, its description after a tab.
std::string CompletionText(const Completion& completion);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SHELL_COMPLETE_H_
