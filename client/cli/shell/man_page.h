// Manual pages, man(7), from what --help tells.
#ifndef COMERA_CLIENT_CLI_SHELL_MAN_PAGE_H_
#define COMERA_CLIENT_CLI_SHELL_MAN_PAGE_H_

#include <string>
#include <vector>

#include "client/cli/session/verb.h"

namespace comera::client {

struct ManOption {
  // "-f, --follow", "--rank N", "job".
  std::string term;
  std::string text;
};

struct ManPage {
  std::string name;  // comera-watch
  int section = 1;
  std::string summary;  // one line
  std::string synopsis;
  std::string description;  // paragraphs, an empty line between
  std::vector<ManOption> arguments;
  std::vector<ManOption> options;
  std::vector<ManOption> global_options;
  std::vector<ManOption> verbs;
  std::string examples;  // as it is
  std::vector<ManOption> environment;
  std::vector<ManOption> exit_status;
  std::vector<std::string> see_also;  // "comera(1)"
};

// Valid for groff -man and mandoc, in ASCII.
std::string Roff(const ManPage& page);

// comera(1), then comera-VERB(1) of every verb.
std::vector<ManPage> CliPages(const std::vector<Verb>& verbs,
                              const std::vector<Argument>& globals);

// From the --help of a program: a description, "Usage: ...", "Options:" with
// the names from the third column and the texts from the 31st, as CLI11 writes.
ManPage PageFromHelp(const std::string& name, int section,
                     const std::string& help);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SHELL_MAN_PAGE_H_
