// Makes manual pages, man(7), from the texts of --help.
#ifndef COMERA_CLIENT_CLI_SHELL_MAN_PAGE_H_
#define COMERA_CLIENT_CLI_SHELL_MAN_PAGE_H_

#include <string>
#include <vector>

#include "client/cli/session/verb.h"

namespace comera::client {

struct ManOption {
  // E.g. "-f, --follow", "--rank N" or "job".
  std::string term;
  std::string text;
};

struct ManPage {
  std::string name;  // e.g. comera-watch
  int section = 1;
  std::string summary;  // one line
  std::string synopsis;
  std::string description;  // paragraphs, an empty line between
  std::vector<ManOption> arguments;
  std::vector<ManOption> options;
  std::vector<ManOption> global_options;
  std::vector<ManOption> verbs;
  std::string examples;  // printed verbatim
  std::vector<ManOption> environment;
  std::vector<ManOption> exit_status;
  std::vector<std::string> see_also;  // e.g. "comera(1)"
};

// The page in roff, in ASCII, valid for groff -man and mandoc.
std::string Roff(const ManPage& page);

// The page comera(1), then comera-VERB(1) for every verb.
std::vector<ManPage> CliPages(const std::vector<Verb>& verbs,
                              const std::vector<Argument>& globals);

// Makes a page from a program's --help as CLI11 prints it: a description,
// "Usage: ...", and "Options:" with names from the third column and texts from
// the 31st.
ManPage PageFromHelp(const std::string& name, int section,
                     const std::string& help);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SHELL_MAN_PAGE_H_
